#include "templates/builtins.h"

#include <algorithm>

#include "templates/operators.h"
#include "templates/render.h"

namespace quern::templates {
namespace {

const Row* find(std::span<const Row> rows, std::string_view name) {
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.name == name; });
  return row == rows.end() ? nullptr : &*row;
}

std::string_view bare(std::string_view parameter) {
  if (parameter.starts_with('/')) parameter.remove_prefix(1);
  if (parameter.ends_with('?')) parameter.remove_suffix(1);
  return parameter;
}

[[noreturn]] void fail(const Row& row, const std::string& what) {
  throw Error(Code::invalid_argument, std::string(row.name) + "() " + what);
}

}  // namespace

const Row* find_filter(std::string_view name) {
  for (const std::span<const Row> rows : {text_filters(), sequence_filters(), markup_filters()})
    if (const Row* row = find(rows, name)) return row;
  return nullptr;
}

const Row* find_test(std::string_view name) { return find(tests(), name); }

const Function* find_global(std::string_view name) {
  for (const Function& function : globals())
    if (function.row.name == name) return &function;
  return nullptr;
}

MethodRows find_methods(std::string_view name) {
  return {find(string_methods(), name),  find(list_methods(), name), find(tuple_methods(), name), find(dict_methods(), name),
          find(integer_methods(), name), find(real_methods(), name), find(view_methods(), name)};
}

const Row* select_method(const MethodRows& rows, const Value& self) {
  switch (self.kind) {
    case Kind::string: return rows.of_string;
    case Kind::dict: return rows.of_dict;
    case Kind::integer:
    case Kind::big:
    case Kind::boolean: return rows.of_integer;
    case Kind::real: return rows.of_real;
    case Kind::list:
      if (self.list->type == Sequence::list) return rows.of_list;
      if (self.list->type == Sequence::keys || self.list->type == Sequence::items) return rows.of_view;
      return self.list->type <= Sequence::range ? rows.of_tuple : nullptr;
    default: return nullptr;
  }
}

const Row* find_method(std::string_view name, const Value& self) {
  switch (self.kind) {
    case Kind::string: return find(string_methods(), name);
    case Kind::dict: return find(dict_methods(), name);
    case Kind::list:
    case Kind::integer:
    case Kind::big:
    case Kind::boolean:
    case Kind::real: return select_method(find_methods(name), self);
    default: return nullptr;
  }
}

Value invoke(Render& render, const Row& row, const Value& self, const Arguments& arguments) {
  // What is read as a whole, as most built-ins do: this only has the clock looked at more often.
  if (self.is(Kind::string)) render.work(self.string->size);
  if (self.is(Kind::list)) render.work(self.list->size);
  Value bound[kMaxParameters];
  std::fill(bound, bound + kMaxParameters, Value::of(Kind::absent));
  if (row.parameters[0] == "*") return row.call(render, self, bound, arguments);
  std::size_t count = 0;
  while (count < kMaxParameters && !row.parameters[count].empty()) ++count;
  if (arguments.positional.size() > count)
    fail(row, "takes at most " + std::to_string(count) + " arguments (" + std::to_string(arguments.positional.size()) + " given)");
  std::copy(arguments.positional.begin(), arguments.positional.end(), bound);
  for (const Named& named : arguments.named) {
    std::size_t i = 0;
    while (i < count && (row.parameters[i].starts_with('/') || bare(row.parameters[i]) != named.name)) ++i;
    if (i == count) fail(row, "got an unexpected keyword argument '" + std::string(named.name) + "'");
    if (bound[i].given()) fail(row, "got multiple values for argument '" + std::string(named.name) + "'");
    bound[i] = named.value;
  }
  for (std::size_t i = 0; i < count; ++i)
    if (!bound[i].given() && !row.parameters[i].ends_with('?'))
      fail(row, "missing required argument: '" + std::string(bare(row.parameters[i])) + "'");
  return row.call(render, self, bound, arguments);
}

}  // namespace quern::templates
