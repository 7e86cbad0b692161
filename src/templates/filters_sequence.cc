#include <algorithm>
#include <span>

#include "templates/arguments.h"
#include "templates/sort.h"

// Filters on sequences and mappings. Those that are lazy in jinja2 give a generator: always true, no length, used up by one reading.
namespace quern::templates {
namespace {

using Args = const Arguments&;

// A filter that jinja2 runs while its result is read: what it raises is raised behind the items that came before, or never.
template <void (*kFilter)(Render& r, const Value& self, const Value* a, Args all, List& result)>
Value lazily(Render& r, const Value& self, const Value* a, Args all) {
  List* result = make_list(r.heap(), 0, Sequence::generator);
  try {
    kFilter(r, self, a, all, *result);
  } catch (const Error& error) {
    if (error.code() != Code::invalid_argument && error.code() != Code::unsupported) throw;
    result->failure = r.remember(error);
  }
  return Value::of(result);
}

// The items of what a lazy filter reads; rest() raises what comes behind them.
class Items {
 public:
  Items(Render& r, const Value& v) : list_(iterate(r.heap(), v, failure_)) {}

  std::size_t size() const { return list_->size; }
  Value at(std::size_t i) const { return list_->at(i); }
  void rest() const {
    if (failure_ != nullptr) throw Error(*failure_);
  }

 private:
  const Error* failure_ = nullptr;
  const List* list_;
};

Value folded(Render& r, const Value& v) { return v.is(Kind::string) ? derived(r, v, lower(v.text())) : v; }

Value get_path(Render& r, const Value& item, const Value& path, const Value& otherwise) {
  return r.path(item, path, is_given(otherwise) ? otherwise : Value());
}

// The key to sort, compare or group by: item or its attribute(s), strings in lower case unless asked.
Value key_of(Render& r, const Value& item, const Value& attribute, bool case_sensitive, const Value& otherwise = Value::none(),
             bool several = false) {
  Value key = item;
  if (is_given(attribute)) {
    if (several && attribute.is(Kind::string) && attribute.text().find(',') != std::string_view::npos) {
      List* keys = make_list(r.heap());
      std::string_view rest = attribute.text();
      for (bool more = true; more;) {
        const std::size_t comma = rest.find(',');
        const Value part = get_path(r, item, r.string(rest.substr(0, comma)), otherwise);
        append(r.heap(), *keys, case_sensitive ? part : folded(r, part));
        more = comma != rest.npos;
        if (more) rest.remove_prefix(comma + 1);
      }
      return Value::of(keys);
    }
    key = get_path(r, item, attribute, otherwise);
  }
  return case_sensitive ? key : folded(r, key);
}

struct Keyed {
  Value key, item;
};

std::vector<Keyed> keyed(Render& r, const Value& self, const Value& attribute, bool case_sensitive, const Value& otherwise = Value::none(),
                         bool several = false) {
  const List* items = iterate(r.heap(), self);
  r.heap().charge(items->size * sizeof(Keyed));
  std::vector<Keyed> all;
  for (std::size_t i = 0; i < items->size; ++i) {
    r.work(16);
    all.push_back({key_of(r, items->at(i), attribute, case_sensitive, otherwise, several), items->at(i)});
  }
  return all;
}

// `in_list`: keys are compared as members of lists are, where equal ones need no order.
void sort_by_key(Render& r, std::vector<Keyed>& all, bool reverse, bool in_list = false) {
  sort_stably(all.data(), all.size(), [&](const Keyed& x, const Keyed& y) {
    r.work(16);
    const Value &a = reverse ? y.key : x.key, &b = reverse ? x.key : y.key;
    return !(in_list && equal(a, b)) && compare(a, b) < 0;
  });
}

// Python's sort takes any int that fits one of C.
bool reversed_order(const Value& v) {
  const std::int64_t i = integer(v, 0);
  if (i != static_cast<std::int32_t>(i)) bad_argument("Python int too large to convert to C int");
  return i != 0;
}

Value sort(Render& r, const Value& self, const Value* a, Args) {
  std::vector<Keyed> all = keyed(r, self, a[2], flag(a[1]), Value::none(), true);
  sort_by_key(r, all, reversed_order(a[0]), true);
  List* result = make_list(r.heap(), all.size());
  for (const Keyed& k : all) append(r.heap(), *result, k.item);
  return Value::of(result);
}

Value dict_sort(Render& r, const Value& self, const Value* a, Args) {
  const std::string_view by = a[1].given() ? required_text(a[1]) : "key";
  if (by != "key" && by != "value") bad_argument("You can only sort by either \"key\" or \"value\"");
  if (self.is(Kind::undefined)) fail_undefined(self);
  if (!self.is(Kind::dict)) bad_argument("'" + object_name(self) + "' has no attribute 'items'");
  std::vector<Keyed> all;
  for (std::size_t i = 0; i < self.dict->size; ++i) {
    const Entry& entry = self.dict->entries[i];
    List* pair = make_list(r.heap(), 2, Sequence::tuple);
    append(r.heap(), *pair, entry.key);
    append(r.heap(), *pair, entry.value);
    const Value& key = by == "key" ? entry.key : entry.value;
    all.push_back({flag(a[0]) ? key : folded(r, key), Value::of(pair)});
  }
  sort_by_key(r, all, reversed_order(a[2]));
  List* result = make_list(r.heap(), all.size());
  for (const Keyed& k : all) append(r.heap(), *result, k.item);
  return Value::of(result);
}

Value group_by(Render& r, const Value& self, const Value* a, Args) {
  std::vector<Keyed> all = keyed(r, self, a[0], flag(a[2]), a[1]);
  sort_by_key(r, all, false);
  List* groups = make_list(r.heap());
  List* members = nullptr;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i == 0 || !equal(all[i].key, all[i - 1].key)) {
      members = make_list(r.heap());
      List* group = make_list(r.heap(), 2, Sequence::group);
      append(r.heap(), *group, key_of(r, all[i].item, a[0], true, a[1]));  // as written, whatever the case it was grouped by
      append(r.heap(), *group, Value::of(members));
      append(r.heap(), *groups, Value::of(group));
    }
    append(r.heap(), *members, all[i].item);
  }
  return Value::of(groups);
}

void unique(Render& r, const Value& self, const Value* a, Args, List& result) {
  Dict* seen = make_dict(r.heap());
  const Items items(r, self);
  for (std::size_t i = 0; i < items.size(); ++i) {
    r.work(16);
    const Value key = key_of(r, items.at(i), a[1], flag(a[0]));
    if (seen->find(key)) continue;
    set(r.heap(), *seen, key, Value::none());
    append(r.heap(), result, items.at(i));
  }
  items.rest();
}

template <int kSign>
Value extreme(Render& r, const Value& self, const Value* a, Args) {
  const std::vector<Keyed> all = keyed(r, self, a[1], flag(a[0]));
  if (all.empty()) return {};
  const Keyed* best = &all[0];
  for (const Keyed& k : std::span(all).subspan(1))
    if (kSign * compare(k.key, best->key, kSign > 0 ? ">" : "<") > 0) best = &k;
  return best->item;
}

Value sum(Render& r, const Value& self, const Value* a, Args) {
  Value total = a[1].given() ? a[1] : Value::of(std::int64_t{0});
  if (total.is(Kind::string)) bad_argument("sum() can't sum strings [use ''.join(seq) instead]");
  const List* items = iterate(r.heap(), self);
  for (std::size_t i = 0; i < items->size; ++i) {
    r.work(16);
    total = arithmetic(r.heap(), Operator::add, total, is_given(a[0]) ? r.path(items->at(i), a[0]) : items->at(i));
  }
  return total;
}

Value join(Render& r, const Value& self, const Value* a, Args) {
  const List* items = iterate(r.heap(), self);
  if (is_given(a[1])) {
    List* parts = make_list(r.heap(), items->size);
    for (std::size_t i = 0; i < items->size; ++i) append(r.heap(), *parts, r.path(items->at(i), a[1]));
    items = parts;
  }
  const Value separator = a[0].given() ? to_string(r.heap(), a[0]) : r.string("");
  return join_strings(r, separator.text(), any_untrusted(*separator.string), *items);
}

Value first(Render& r, const Value& self, const Value*, Args) {
  const auto none_there = [&] { return undefined_because(r.heap(), "No first item, sequence was empty."); };
  if (self.is(Kind::list) && self.list->type == Sequence::generator && self.list->taken < self.list->size)
    return self.list->at(self.list->taken++);
  if (self.is(Kind::string)) {
    Value first = get_item(r.heap(), self, Value::of(std::int64_t{0}));
    first.markup = false;
    return first.is(Kind::string) ? first : none_there();
  }
  const List* items = iterate(r.heap(), self);
  return items->size == 0 ? none_there() : items->at(0);
}

Value last(Render& r, const Value& self, const Value*, Args) {
  if (!is_iterable(self) || (self.is(Kind::list) && self.list->type == Sequence::generator))
    bad_argument("'" + std::string(type_name(self)) + "' object is not reversible");
  const auto none_there = [&] { return undefined_because(r.heap(), "No last item, sequence was empty."); };
  if (self.is(Kind::string)) return self.string->size == 0 ? none_there() : get_item(r.heap(), self, Value::of(std::int64_t{-1}));
  const List* items = iterate(r.heap(), self);
  return items->size == 0 ? none_there() : items->at(items->size - 1);
}

Value to_list(Render& r, const Value& self, const Value*, Args) {
  const List* items = iterate(r.heap(), self);
  List* copy = make_list(r.heap(), items->size);
  for (std::size_t i = 0; i < items->size; ++i) append(r.heap(), *copy, items->at(i));
  return Value::of(copy);
}

Value reverse(Render& r, const Value& self, const Value*, Args) {
  if (self.is(Kind::string)) {
    const List* chars = iterate(r.heap(), self);
    Writer out(r.heap());
    for (std::size_t i = chars->size; i-- > 0;) out.add(*chars->at(i).string);
    return out.take(self.markup);
  }
  if (!is_iterable(self)) bad_argument("argument must be iterable");
  const bool lazy = !(self.is(Kind::list) && self.list->type == Sequence::generator);
  const List* items = iterate(r.heap(), self);
  List* result = make_list(r.heap(), items->size, lazy ? Sequence::generator : Sequence::list);
  for (std::size_t i = items->size; i-- > 0;) append(r.heap(), *result, items->at(i));
  return Value::of(result);
}

void items(Render& r, const Value& self, const Value*, Args, List& result) {
  if (self.is(Kind::undefined)) return;
  if (!self.is(Kind::dict)) bad_argument("Can only get item pairs from a mapping.");
  for (std::size_t i = 0; i < self.dict->size; ++i) {
    List* pair = make_list(r.heap(), 2, Sequence::tuple);
    append(r.heap(), *pair, self.dict->entries[i].key);
    append(r.heap(), *pair, self.dict->entries[i].value);
    append(r.heap(), result, Value::of(pair));
  }
}

void batch(Render& r, const Value& self, const Value* a, Args, List& result) {
  // The size is compared with, and computed with only where there is something to fill.
  const std::int64_t size = a[0].is(Kind::integer) || a[0].is(Kind::boolean) || is_given(a[1]) ? as_index(a[0]) : -1;
  const Items all(r, self);
  List* row = make_list(r.heap());
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (static_cast<std::int64_t>(row->size) == size) {
      append(r.heap(), result, Value::of(row));
      row = make_list(r.heap());
    }
    append(r.heap(), *row, all.at(i));
  }
  all.rest();
  if (row->size == 0) return;
  if (is_given(a[1]))
    while (static_cast<std::int64_t>(row->size) < size) append(r.heap(), *row, a[1]);
  append(r.heap(), result, Value::of(row));
}

void slices(Render& r, const Value& self, const Value* a, Args, List& result) {
  const std::int64_t count = as_index(a[0]);
  const List* all = iterate(r.heap(), self);
  if (count == 0) bad_argument("integer division or modulo by zero");
  if (count < 0) return;
  if (count > 100'000) throw Error(Code::resource_exhausted, "too many slices");
  const std::size_t each = all->size / static_cast<std::size_t>(count), more = all->size % static_cast<std::size_t>(count);
  std::size_t at = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    List* part = make_list(r.heap());
    for (const std::size_t end = at + each + (i < more); at < end; ++at) append(r.heap(), *part, all->at(at));
    if (is_given(a[1]) && i >= more) append(r.heap(), *part, a[1]);
    append(r.heap(), result, Value::of(part));
  }
}

void map(Render& r, const Value& self, const Value*, Args all, List& result) {
  if (!truth(self)) return;
  Value attribute = Value::of(Kind::absent), otherwise = Value::none();
  if (all.positional.empty()) {
    for (const Named& n : all.named) {
      if (n.name == "attribute")
        attribute = n.value;
      else if (n.name == "default")
        otherwise = n.value;
      else
        bad_argument("Unexpected keyword argument '" + std::string(n.name) + "'");
    }
    if (!attribute.given()) bad_argument("map requires a filter argument");
  }
  const Items items(r, self);
  for (std::size_t i = 0; i < items.size(); ++i) {
    r.work(16);
    append(r.heap(), result,
           attribute.given() ? get_path(r, items.at(i), attribute, otherwise)
                             : call_filter(r, all.positional[0], items.at(i), {all.positional.subspan(1), all.named}));
  }
  items.rest();
}

template <bool kKeep, bool kAttribute>
void select(Render& r, const Value& self, const Value*, Args all, List& result) {
  if (!truth(self)) return;
  constexpr std::size_t kOffset = kAttribute ? 1 : 0;
  if (all.positional.size() < kOffset) bad_argument("Missing parameter for attribute name");
  const Items items(r, self);
  for (std::size_t i = 0; i < items.size(); ++i) {
    r.work(16);
    const Value item = items.at(i), value = kAttribute ? r.path(item, all.positional[0]) : item;
    const bool holds = all.positional.size() > kOffset
                           ? truth(call_test(r, all.positional[kOffset], value, {all.positional.subspan(kOffset + 1), all.named}))
                           : truth(value);
    if (holds == kKeep) append(r.heap(), result, item);
  }
  items.rest();
}

// Python attributes only: never an item of a dict.
Value attribute(Render& r, const Value& self, const Value* a, Args) {
  const std::string_view name = required_text(a[0]);
  if (self.is(Kind::dict) && !find_method(name, self) && !name.starts_with("__")) return undefined_attribute(self, a[0]);
  return r.attribute(self, name);
}

Value size(Render&, const Value& self, const Value*, Args) { return of_size(length(self)); }

constexpr Row kRows[] = {
    {"attr", attribute, {"name"}},
    {"batch", lazily<batch>, {"linecount", "fill_with?"}},
    {"count", size},
    {"dictsort", dict_sort, {"case_sensitive?", "by?", "reverse?"}},
    {"first", first},
    {"groupby", group_by, {"attribute", "default?", "case_sensitive?"}},
    {"items", lazily<items>},
    {"join", join, {"d?", "attribute?"}},
    {"last", last},
    {"length", size},
    {"list", to_list},
    {"map", lazily<map>, {"*"}},
    {"max", extreme<1>, {"case_sensitive?", "attribute?"}},
    {"min", extreme<-1>, {"case_sensitive?", "attribute?"}},
    {"reject", lazily<select<false, false>>, {"*"}},
    {"rejectattr", lazily<select<false, true>>, {"*"}},
    {"reverse", reverse},
    {"select", lazily<select<true, false>>, {"*"}},
    {"selectattr", lazily<select<true, true>>, {"*"}},
    {"slice", lazily<slices>, {"slices", "fill_with?"}},
    {"sort", sort, {"reverse?", "case_sensitive?", "attribute?"}},
    {"sum", sum, {"attribute?", "start?"}},
    {"unique", lazily<unique>, {"case_sensitive?", "attribute?"}},
};

}  // namespace

std::span<const Row> sequence_filters() { return kRows; }

Value call_filter(Render& r, const Value& name, const Value& value, const Arguments& arguments) {
  const Row* row = find_filter(required_text(name));
  if (!row) bad_argument("No filter named '" + std::string(name.text()) + "'.");
  return invoke(r, *row, value, arguments);
}

Value join_strings(Render& r, std::string_view separator, bool separator_untrusted, const List& items) {
  Writer out(r.heap());
  for (std::size_t i = 0; i < items.size; ++i) {
    r.work(16);
    if (i != 0) out.add(separator, separator_untrusted);
    write_str(out, items.at(i));
  }
  return out.take();
}

}  // namespace quern::templates
