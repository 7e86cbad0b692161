#pragma once

#include <string>
#include <string_view>

#include "templates/text.h"
#include "templates/value.h"

// What Python's operators mean on values. Every failure is Error(invalid_argument) with Python's own words where they are short.
namespace quern::templates {

enum class Operator : std::uint8_t { add, subtract, multiply, divide, floor_divide, modulo, power };

/// Python's type name: "str", "dict" …
std::string_view type_name(const Value& v);
/// The name jinja2 uses in its messages: "dict object", "None".
std::string object_name(const Value& v);
/// Throws what using the undefined value means: "'x' is undefined", "'dict object' has no attribute 'x'".
[[noreturn]] void fail_undefined(const Value& v);

inline bool truth(const Value& v) {
  switch (v.kind) {
    case Kind::absent:
    case Kind::undefined:
    case Kind::none: return false;
    case Kind::boolean: return v.boolean;
    case Kind::integer: return v.integer != 0;
    case Kind::real: return v.real != 0;
    case Kind::string: return v.string->size != 0;
    case Kind::list: return v.list->type == Sequence::generator || v.list->size != 0;
    case Kind::dict: return v.dict->size != 0;
    default: return true;
  }
}
bool equal(const Value& a, const Value& b, int depth = 0);
std::size_t hash(const Value& v, int depth = 0);
/// < 0, 0, > 0; fails where Python has no order. `op` is only for the message.
int compare(const Value& a, const Value& b, std::string_view op = "<", int depth = 0);
bool contains(Heap& heap, const Value& container, const Value& item);

void write_str(Writer& out, const Value& v);                  // str(v)
void write_repr(Writer& out, const Value& v, int depth = 0);  // repr(v)
Value to_string(Heap& heap, const Value& v);                  // str(v), or v itself if it is a string (keeps markup)

Value arithmetic(Heap& heap, Operator op, const Value& a, const Value& b);
Value negate(Heap& heap, const Value& v);
Value concatenate(Heap& heap, std::span<const Value> parts);  // all are plain strings

std::int64_t as_index(const Value& v);  // an int (of 64 bits) or bool; fails otherwise
double as_real(const Value& v);         // a number
/// An item by key or index; undefined if there is none.
Value get_item(Heap& heap, const Value& object, const Value& key);
Value slice(Heap& heap, const Value& object, const Value& start, const Value& stop, const Value& step);
/// The items of anything iterable, as a list: the list itself, a dict's keys, a string's characters. A generator is used up by this.
List* iterate(Heap& heap, const Value& v);
/// The same of a generator that may fail on the way: `failure` is then what reading past the items raises.
List* iterate(Heap& heap, const Value& v, const Error*& failure);
bool is_iterable(const Value& v);
std::size_t length(const Value& v);

/// '%'-formatting: args is a tuple, a dict or one value.
Value format_percent(Heap& heap, const Value& format, const Value& args);
/// format(value, spec) of str.format.
void write_formatted(Writer& out, const Value& v, std::string_view spec);

}  // namespace quern::templates
