#include <ctime>

#include "templates/arguments.h"

// Functions that every template can call by name.
namespace quern::templates {
namespace {

using Args = const Arguments&;

Value range(Render& r, const Value&, const Value* a, Args) {
  const std::int64_t start = a[1].given() ? as_index(a[0]) : 0, stop = as_index(a[1].given() ? a[1] : a[0]), step = integer(a[2], 1);
  if (step == 0) bad_argument("range() arg 3 must not be zero");
  __int128 size = step > 0 ? (static_cast<__int128>(stop) - start + step - 1) / step
                           : (static_cast<__int128>(start) - stop - step - 1) / -static_cast<__int128>(step);
  if (size < 0) size = 0;
  if (size > static_cast<__int128>(r.budget().range_items))
    throw Error(Code::resource_exhausted,
                "Range too big. A template's ranges have at most " + std::to_string(r.budget().range_items) + " items");
  List* list = make_list(r.heap(), 0, Sequence::range);
  list->size = static_cast<std::size_t>(size);
  list->start = start;
  list->step = step;
  list->stop = stop;
  return Value::of(list);
}

Value dict(Render& r, const Value&, const Value*, Args all) {
  const Value made = Value::of(make_dict(r.heap()));
  static constexpr std::string_view kUpdate = "update";
  invoke(r, *find_methods(kUpdate).of_dict, made, all);
  return made;
}

Value name_space(Render& r, const Value& self, const Value* a, Args all) {
  Value made = dict(r, self, a, all);
  made.kind = Kind::space;
  return made;
}

Value cycler(Render& r, const Value&, const Value*, Args all) {
  if (all.positional.empty()) bad_argument("at least one item has to be provided");
  Cycler* made = r.heap().make<Cycler>();
  made->items = make_list(r.heap(), all.positional.size());
  for (const Value& v : all.positional) append(r.heap(), *made->items, v);
  Value v = Value::of(Kind::cycler);
  v.cycler = made;
  return v;
}

Value joiner(Render& r, const Value&, const Value* a, Args) {
  Cycler* made = r.heap().make<Cycler>();
  made->separator = a[0].given() ? a[0] : r.string(", ");
  Value v = Value::of(Kind::joiner);
  v.cycler = made;
  return v;
}

Value raise_exception(Render& r, const Value&, const Value* a, Args) {
  throw Error(Code::invalid_argument, std::string(to_string(r.heap(), a[0]).text()));
}

Value strftime_now(Render& r, const Value&, const Value* a, Args) {
  const std::string form(required_text(a[0]));
  if (form.size() > 1024) bad_argument("the format of strftime_now() is too long");
  const std::time_t now = r.budget().now ? static_cast<std::time_t>(*r.budget().now) : std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char out[8192];
  return r.string({out, std::strftime(out, sizeof out, form.c_str(), &local)});
}

Value lipsum(Render&, const Value&, const Value*, Args) {
  throw Error(Code::unsupported, "lipsum() makes a random text, and a prompt must not depend on chance");
}

constexpr Function kFunctions[] = {
    {{"cycler", cycler, {"*"}}, "jinja2.utils.Cycler"},           {{"dict", dict, {"*"}}, "dict"},
    {{"joiner", joiner, {"sep?"}}, "jinja2.utils.Joiner"},        {{"lipsum", lipsum, {"n?", "html?", "min?", "max?"}}},
    {{"namespace", name_space, {"*"}}, "jinja2.utils.Namespace"}, {{"raise_exception", raise_exception, {"message"}}},
    {{"range", range, {"/start", "/stop?", "/step?"}}},           {{"strftime_now", strftime_now, {"format"}}},
};

}  // namespace

std::span<const Function> globals() { return kFunctions; }

}  // namespace quern::templates
