#pragma once

#include <array>
#include <span>
#include <string_view>

#include "templates/value.h"

// Filters, tests, methods and global functions: explicit tables, one row each.
namespace quern::templates {

class Render;

struct Named {
  std::string_view name;
  Value value;
};

struct Arguments {
  std::span<const Value> positional;
  std::span<const Named> named;
};

constexpr std::size_t kMaxParameters = 5;

/// `self` is the value on the left of `|`, `is` or `.`; `args` holds one value a parameter, `absent` where none was given; `all` what a
/// variadic built-in reads.
using Builtin = Value (*)(Render& render, const Value& self, const Value* args, const Arguments& all);

struct Row {
  std::string_view name;
  Builtin call;
  /// Parameter names in order. A leading '/' means by position only, a trailing '?' that it may be left out; "*" takes all that is given.
  std::array<std::string_view, kMaxParameters> parameters = {};
};

struct Function {
  Row row;
  std::string_view class_name = {};  // where Python has a class
};

struct MethodRows {
  const Row* of_string = nullptr;
  const Row* of_list = nullptr;
  const Row* of_tuple = nullptr;
  const Row* of_dict = nullptr;
  const Row* of_integer = nullptr;
  const Row* of_real = nullptr;
  const Row* of_view = nullptr;  // of a dict's keys or items
};

struct Method {
  Value self;
  const Row* row;
};

const Row* find_filter(std::string_view name);
const Row* find_test(std::string_view name);
const Function* find_global(std::string_view name);
MethodRows find_methods(std::string_view name);
/// The row for a value's kind, or nullptr.
const Row* select_method(const MethodRows& rows, const Value& self);
const Row* find_method(std::string_view name, const Value& self);

/// Checks the arguments against the row's parameters and calls it.
Value invoke(Render& render, const Row& row, const Value& self, const Arguments& arguments);

std::span<const Row> text_filters();
std::span<const Row> sequence_filters();
std::span<const Row> markup_filters();
std::span<const Row> tests();
std::span<const Row> string_methods();
std::span<const Row> list_methods();
std::span<const Row> tuple_methods();
std::span<const Row> dict_methods();
std::span<const Row> integer_methods();
std::span<const Row> real_methods();
std::span<const Row> view_methods();
std::span<const Function> globals();

}  // namespace quern::templates
