#pragma once

#include <string>
#include <string_view>

#include "templates/operators.h"
#include "templates/render.h"

// Short words for the tables of built-ins.
namespace quern::templates {

[[noreturn]] inline void bad_argument(std::string message) { throw Error(Code::invalid_argument, std::move(message)); }

inline bool is_given(const Value& v) { return v.given() && !v.is(Kind::none); }
inline bool flag(const Value& v, bool otherwise = false) { return v.given() ? truth(v) : otherwise; }
inline std::int64_t integer(const Value& v, std::int64_t otherwise) { return v.given() ? as_index(v) : otherwise; }
inline std::string_view required_text(const Value& v) {
  if (v.is(Kind::undefined)) fail_undefined(v);
  if (!v.is(Kind::string)) bad_argument("a str is required, not " + std::string(type_name(v)));
  return v.text();
}
inline Value of_size(std::size_t n) { return Value::of(static_cast<std::int64_t>(n)); }
/// A new text made from `from`: untrusted if any part of that was.
inline Value derived(Render& r, const Value& from, std::string_view text) {
  Value v = r.string(text, any_untrusted(*from.string));
  v.markup = from.markup;
  return v;
}
/// All places of `old` in `text` replaced; each part keeps its origin. count < 0: no limit.
Value replace_all(Render& r, const Value& text, const Value& old, const Value& with, std::int64_t count);
Value centered(Render& r, const Value& text, std::int64_t width, const Value& fill);
Value split_lines(Render& r, const Value& text, bool keep_ends);
Value join_strings(Render& r, std::string_view separator, bool separator_untrusted, const List& items);
/// Filters in files of their own.
Value word_wrap(Render& r, const Value& self, const Value* a, const Arguments& all);
Value pretty(Render& r, const Value& self, const Value* a, const Arguments& all);
Value link_addresses(Render& r, const Value& self, const Value* a, const Arguments& all);
Value call_test(Render& r, const Value& name, const Value& value, const Arguments& arguments);
Value call_filter(Render& r, const Value& name, const Value& value, const Arguments& arguments);

}  // namespace quern::templates
