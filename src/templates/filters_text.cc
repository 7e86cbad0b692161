#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "templates/arguments.h"
#include "templates/big_integer.h"

// Filters on one text or number.
namespace quern::templates {
namespace {

using Args = const Arguments&;

Value text_of(Render& r, const Value& v) { return to_string(r.heap(), v); }
std::string shown(Render& r, const Value& v) { return std::string(text_of(r, v).text()); }

template <std::string (*kChange)(std::string_view)>
Value changed(Render& r, const Value& self, const Value*, Args) {
  const Value text = text_of(r, self);
  return derived(r, text, kChange(text.text()));
}

// The filter, unlike str.title: words begin after white space, '-' and opening brackets only.
std::string title_words(std::string_view text) {
  std::string out;
  std::size_t rest = 0;  // where the rest of a word begins; 0: in no word
  const auto end_word = [&](std::size_t end) {
    if (rest > 0) out += lower(text.substr(rest, end - rest));
    rest = 0;
  };
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t start = i;
    const char32_t c = next_code_point(text, i);
    const std::string_view one = text.substr(start, i - start);
    if (is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<') {
      end_word(start);
      out += one;
    } else if (rest == 0) {
      out += upper(one);
      rest = i;
    }
  }
  end_word(text.size());
  return out;
}

Value trim(Render& r, const Value& self, const Value* a, Args) {
  const Value text = text_of(r, self);
  const auto [from, to] = is_given(a[0]) ? strip(text.text(), required_text(a[0]), true, true) : strip(text.text(), true, true);
  return substring(r.heap(), text, from, to);
}

Value default_value(Render& r, const Value& self, const Value* a, Args) {
  const bool replace = self.is(Kind::undefined) || (flag(a[1]) && !truth(self));
  if (!replace) return self;
  return a[0].given() ? a[0] : r.string("");
}

Value replace(Render& r, const Value& self, const Value* a, Args) {
  Value text = text_of(r, self);
  text.markup = false;
  return replace_all(r, text, text_of(r, a[0]), text_of(r, a[1]), is_given(a[2]) ? as_index(a[2]) : -1);
}

Value indent(Render& r, const Value& self, const Value* a, Args) {
  required_text(self);
  const Value width = a[0].is(Kind::string) ? a[0] : arithmetic(r.heap(), Operator::multiply, r.string(" "), Value::of(integer(a[0], 4)));
  const bool first = flag(a[1]), blank = flag(a[2]);
  Writer with_end(r.heap());
  with_end.add(*self.string);
  with_end.add("\n");  // as jinja2 does, so that an empty text has a line
  const Value lines = split_lines(r, with_end.take(), false);
  Writer out(r.heap());
  for (std::size_t i = 0; i < lines.list->size; ++i) {
    const String& line = *lines.list->at(i).string;
    if (i != 0) out.add("\n");
    if (i == 0 ? first : blank || line.size != 0) out.add(*width.string);
    out.add(line);
  }
  return out.take(self.markup);
}

Value truncate(Render& r, const Value& self, const Value* a, Args) {
  const Value limit = a[0].given() ? a[0] : Value::of(std::int64_t{255}), leeway = is_given(a[3]) ? a[3] : Value::of(std::int64_t{5});
  const Value end = a[2].given() ? a[2] : r.string("...");
  const std::size_t end_size = quern::templates::length(end);
  if (compare(limit, of_size(end_size), ">=") < 0)
    bad_argument("expected length >= " + std::to_string(end_size) + ", got " + shown(r, limit));
  if (compare(leeway, Value::of(std::int64_t{0}), ">=") < 0) bad_argument("expected leeway >= 0, got " + shown(r, leeway));
  const Value most = arithmetic(r.heap(), Operator::add, limit, leeway);
  if (compare(of_size(quern::templates::length(self)), most, "<=") <= 0) return self;
  if (limit.is(Kind::real)) bad_argument("slice indices must be integers or None or have an __index__ method");
  const std::string_view text = required_text(self);
  required_text(end);
  std::size_t cut = byte_offset(text, static_cast<std::size_t>(as_index(limit)) - end_size);
  if (!flag(a[1]))
    if (const std::size_t space = text.substr(0, cut).rfind(' '); space != text.npos) cut = space;
  Writer out(r.heap());
  out.add(*self.string, 0, cut);
  out.add(*end.string);
  return out.take(self.markup);
}

Value word_count(Render& r, const Value& self, const Value*, Args) {
  const Value text = text_of(r, self);
  std::int64_t count = 0;
  bool inside = false;
  for (std::size_t i = 0; i < text.string->size;) {
    const char32_t c = next_code_point(text.text(), i);
    const bool word = is_word(c);
    count += word && !inside;
    inside = word;
  }
  return Value::of(count);
}

Value format(Render& r, const Value& self, const Value*, Args all) {
  if (!all.named.empty() && !all.positional.empty()) bad_argument("can't handle positional and keyword arguments at the same time");
  if (!all.named.empty()) {
    Dict* dict = make_dict(r.heap());
    for (const Named& n : all.named) set(r.heap(), *dict, n.name, n.value);
    return format_percent(r.heap(), text_of(r, self), Value::of(dict));
  }
  List* tuple = make_list(r.heap(), all.positional.size(), Sequence::tuple);
  for (const Value& v : all.positional) append(r.heap(), *tuple, v);
  return format_percent(r.heap(), text_of(r, self), Value::of(tuple));
}

Value escape(Render& r, const Value& self, const Value*, Args) {
  Value text = text_of(r, self);
  if (!text.markup) text = derived(r, text, html_escape(text.text()));
  text.markup = true;
  return text;
}

Value force_escape(Render& r, const Value& self, const Value*, Args) {
  Value text = text_of(r, self);
  text = derived(r, text, html_escape(text.text()));
  text.markup = true;
  return text;
}

Value safe(Render& r, const Value& self, const Value*, Args) {
  Value text = text_of(r, self);
  text.markup = true;
  return text;
}

std::pair<Value, Value> as_pair(Heap& heap, const Value& v) {
  if (!is_iterable(v)) bad_argument("cannot unpack non-iterable " + std::string(type_name(v)) + " object");
  const List* items = iterate(heap, v);
  if (items->size > 2) bad_argument("too many values to unpack (expected 2)");
  if (items->size < 2) bad_argument("not enough values to unpack (expected 2, got " + std::to_string(items->size) + ")");
  return {items->at(0), items->at(1)};
}

Value url_encode(Render& r, const Value& self, const Value*, Args) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  const auto quote = [&](const Value& v, std::string_view safe_too) {
    const Value text = text_of(r, v);
    std::string out;
    for (const char c : text.text()) {
      if (std::isalnum(static_cast<unsigned char>(c)) || std::string_view("_.-~").find(c) != std::string_view::npos ||
          safe_too.find(c) != std::string_view::npos) {
        out += c;
      } else if (c == ' ' && safe_too.empty()) {
        out += '+';
      } else {
        out += '%';
        out += kHex[static_cast<unsigned char>(c) >> 4];
        out += kHex[c & 15];
      }
    }
    return derived(r, text, out);
  };
  if (self.is(Kind::string) || !(is_iterable(self))) return quote(self, "/");
  Writer out(r.heap());
  const auto add = [&](const Value& key, const Value& value) {
    if (!out.text().empty()) out.add("&");
    out.add(*quote(key, "").string);
    out.add("=");
    out.add(*quote(value, "").string);
  };
  if (self.is(Kind::dict)) {
    for (std::size_t i = 0; i < self.dict->size; ++i) add(self.dict->entries[i].key, self.dict->entries[i].value);
    return out.take();
  }
  const List* pairs = iterate(r.heap(), self);
  for (std::size_t i = 0; i < pairs->size; ++i) {
    const auto [key, value] = as_pair(r.heap(), pairs->at(i));
    add(key, value);
  }
  return out.take();
}

Value absolute(Render& r, const Value& self, const Value*, Args) {
  if (self.is(Kind::real)) return Value::of(std::abs(self.real));
  if (self.is(Kind::big)) return self.text().starts_with('-') ? negate(r.heap(), self) : self;
  if (!self.is_number()) bad_argument("bad operand type for abs(): '" + std::string(type_name(self)) + "'");
  const std::int64_t i = as_index(self);
  return i < 0 ? negate(r.heap(), Value::of(i)) : Value::of(i);
}

// Text as Python's int() and float() read it: stripped, single underscores between digits allowed.
bool number_text(std::string_view text, std::string& out) {
  const auto [from, to] = strip(text, true, true);
  text = text.substr(from, to - from);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
    } else if (i == 0 || i + 1 == text.size() || !std::isxdigit(static_cast<unsigned char>(text[i - 1])) ||
               !std::isxdigit(static_cast<unsigned char>(text[i + 1]))) {
      return false;
    }
  }
  return !out.empty();
}

bool read_real(std::string_view text, double& value) {
  std::string t;
  if (!number_text(text, t)) return false;
  std::string low = lower(t);
  const bool negative = low[0] == '-';
  if (low[0] == '-' || low[0] == '+') low.erase(0, 1);
  if (low == "inf" || low == "infinity" || low == "nan") {
    value = low == "nan" ? std::nan("") : negative ? -HUGE_VAL : HUGE_VAL;
    return true;
  }
  if (low.empty() || low.find_first_not_of("0123456789.e+-") != low.npos || low[0] == '-' || low[0] == '+') return false;
  char* end = nullptr;
  value = std::strtod(t.c_str(), &end);
  return *end == '\0';
}

std::optional<Value> read_integer(Heap& heap, std::string_view text, std::int64_t base) {
  std::string t;
  if (base != 0 && (base < 2 || base > 36)) return {};
  if (!number_text(text, t)) return {};
  const bool negative = t[0] == '-';
  if (t[0] == '-' || t[0] == '+') t.erase(0, 1);
  bool marked = false;
  if (t.size() > 2 && t[0] == '0') {
    const char mark = static_cast<char>(t[1] | 0x20);
    const int named = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
    if (named != 0 && (base == named || base == 0)) {
      base = named;
      marked = true;
      t.erase(0, 2);
    }
  }
  if (base == 0 && !marked && t.size() > 1 && t[0] == '0' && t.find_first_not_of('0') != t.npos) return {};
  if (base == 0) base = 10;
  for (const char c : t)
    if (!std::isalnum(static_cast<unsigned char>(c)) || (c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10) >= base) return {};
  if (t.empty() || (t.size() > 4300 && (base & (base - 1)) != 0)) return {};
  if (negative) t.insert(0, 1, '-');
  return BigInteger::parse(t, static_cast<unsigned>(base)).value(heap);
}

Value to_integer(Render& r, const Value& self, const Value* a, Args) {
  if (self.is(Kind::undefined)) fail_undefined(self);
  const Value otherwise = a[0].given() ? a[0] : Value::of(std::int64_t{0});
  double d = 0;
  if (self.is(Kind::integer) || self.is(Kind::boolean)) return Value::of(as_index(self));
  if (self.is(Kind::big)) return self;
  if (self.is(Kind::real)) {
    d = self.real;
    if (std::isinf(d)) bad_argument("cannot convert float infinity to integer");
  } else if (self.is(Kind::string)) {
    if (const std::optional<Value> read =
            a[1].given() && !a[1].is(Kind::integer) ? std::nullopt : read_integer(r.heap(), self.text(), integer(a[1], 10)))
      return *read;
    if (!read_real(self.text(), d)) return otherwise;
  } else {
    return otherwise;
  }
  if (std::isnan(d) || std::isinf(d)) return otherwise;
  return BigInteger::truncated(d).value(r.heap());
}

Value to_real(Render&, const Value& self, const Value* a, Args) {
  if (self.is(Kind::undefined)) fail_undefined(self);
  double d = 0;
  if (self.is_number() || self.is(Kind::big)) return Value::of(as_real(self));
  if (self.is(Kind::string) && read_real(self.text(), d)) return Value::of(d);
  return a[0].given() ? a[0] : Value::of(0.0);
}

// Correctly rounded to 10^-precision, halves to the even neighbour, as Python's round() of a float.
double round_real(double d, std::int64_t precision) {
  if (!std::isfinite(d) || d == 0 || precision > 330) return d;  // past the last digit of any double
  char digits[800];
  if (precision >= 0) {
    std::snprintf(digits, sizeof digits, "%.*f", static_cast<int>(precision), d);
  } else {
    std::snprintf(digits, sizeof digits, "%.17e", std::abs(d));
    const std::int64_t kept =
        std::atoi(std::strchr(digits, 'e') + 1) + 1 + std::max<std::int64_t>(precision, -400);  // digits that are left
    if (kept < 0) return std::copysign(0.0, d);
    if (kept == 0) {  // more than half of the unit, or not
      const BigInteger unit = BigInteger::power(BigInteger(10), static_cast<std::uint64_t>(-precision));
      const BigInteger whole = BigInteger::truncated(std::abs(d));
      const int side = BigInteger::compare(whole + whole, unit);
      const bool up = side > 0 || (side == 0 && std::abs(d) != std::trunc(std::abs(d)));
      if (!up) return std::copysign(0.0, d);
      std::snprintf(digits, sizeof digits, "%s1e%d", d < 0 ? "-" : "", static_cast<int>(-precision));
    } else {
      std::snprintf(digits, sizeof digits, "%.*e", static_cast<int>(kept - 1), d);
    }
  }
  const double rounded = std::strtod(digits, nullptr);
  if (std::isinf(rounded)) bad_argument("rounded value too large to represent");
  return rounded;
}

Value round_integer(Render& r, const Value& v, std::int64_t precision) {
  const BigInteger i = BigInteger::of(v);
  if (precision >= 0) return i.value(r.heap());
  if (precision < -10'000) return Value::of(std::int64_t{0});
  const BigInteger unit = BigInteger::power(BigInteger(10), static_cast<std::uint64_t>(-precision));
  BigInteger count, rest, half, odd;
  BigInteger::divide(i, unit, count, rest);
  BigInteger::divide(count, BigInteger(2), half, odd);
  const int side = BigInteger::compare(rest + rest, unit);  // halves go to the even neighbour
  return ((side > 0 || (side == 0 && !odd.zero()) ? count + BigInteger(1) : count) * unit).value(r.heap());
}

Value whole(Render& r, double d) {
  if (std::isnan(d)) bad_argument("cannot convert float NaN to integer");
  if (std::isinf(d)) bad_argument("cannot convert float infinity to integer");
  return BigInteger::truncated(d).value(r.heap());
}

Value round(Render& r, const Value& self, const Value* a, Args) {
  const std::string_view method = a[1].given() ? required_text(a[1]) : "common";
  if (method != "common" && method != "ceil" && method != "floor") bad_argument("method must be common, ceil or floor");
  const bool number = self.is_number() || self.is(Kind::big);
  if (method == "common") {
    if (!number) bad_argument("type " + std::string(type_name(self)) + " doesn't define __round__ method");
    if (a[0].is(Kind::none)) return self.is(Kind::real) ? whole(r, std::nearbyint(self.real)) : round_integer(r, self, 0);
    const std::int64_t precision = integer(a[0], 0);
    return self.is(Kind::real) ? Value::of(round_real(self.real, precision)) : round_integer(r, self, precision);
  }
  if (self.is(Kind::undefined)) fail_undefined(self);
  if (!number) bad_argument("must be real number, not " + std::string(type_name(self)));
  const Value precision = a[0].given() ? a[0] : Value::of(std::int64_t{0});
  const Value unit = arithmetic(r.heap(), Operator::power, Value::of(std::int64_t{10}), precision);
  Value scaled = arithmetic(r.heap(), Operator::multiply, self, unit);
  if (scaled.is(Kind::real)) scaled = whole(r, method == "ceil" ? std::ceil(scaled.real) : std::floor(scaled.real));
  return arithmetic(r.heap(), Operator::divide, scaled, unit);
}

Value file_size(Render& r, const Value& self, const Value* a, Args) {
  double bytes = 0;
  if (self.is(Kind::string)) {
    if (!read_real(self.text(), bytes)) bad_argument("could not convert string to float: " + string_repr(self.text()));
  } else {
    if (self.is(Kind::undefined)) fail_undefined(self);
    if (!self.is_number() && !self.is(Kind::big))
      bad_argument("float() argument must be a string or a real number, not '" + std::string(type_name(self)) + "'");
    bytes = as_real(self);
  }
  const bool binary = flag(a[0]);
  const double base = binary ? 1024 : 1000;
  if (bytes == 1) return r.string("1 Byte");
  if (bytes < base) return r.string(std::string(to_string(r.heap(), whole(r, bytes)).text()) + " Bytes");
  double unit = base * base;
  const std::string_view prefixes = "kMGTPEZY";
  std::size_t i = 0;
  for (; i + 1 < prefixes.size() && !(bytes < unit); ++i) unit *= base;
  const std::string name = (binary && prefixes[i] == 'k' ? std::string("K") : std::string(1, prefixes[i])) + (binary ? "iB" : "B");
  if (std::isnan(bytes)) return r.string("nan Y" + std::string(binary ? "iB" : "B"));
  char out[400];  // the largest double has 309 digits
  std::snprintf(out, sizeof out, "%.1f %s", base * bytes / unit, name.c_str());
  return r.string(out);
}

Value to_json_text(Render& r, const Value& self, const Value* a, Args) {
  JsonStyle style;
  style.ensure_ascii = flag(a[0]);
  if (is_given(a[1]) && !self.is(Kind::string)) {  // json.dumps looks at no indent where it writes a string
    style.pretty = true;
    style.item_separator = ",";
    style.indent = a[1].is(Kind::string) ? a[1].text() : arithmetic(r.heap(), Operator::multiply, r.string(" "), a[1]).text();
  }
  if (is_given(a[2])) {
    const List* pair = iterate(r.heap(), a[2]);
    if (pair->size != 2) bad_argument("separators must be a pair");
    style.item_separator = required_text(pair->at(0));
    style.key_separator = required_text(pair->at(1));
  }
  style.sort_keys = flag(a[3]);
  Writer out(r.heap());
  write_json(out, self, style);
  return out.take();
}

Value from_json(Render& r, const Value& self, const Value*, Args) {
  return parse_json(r.heap(), required_text(self), any_untrusted(*self.string));
}

constexpr Row kRows[] = {
    {"abs", absolute},
    {"capitalize", changed<capitalize>},
    {"center",
     [](Render& r, const Value& v, const Value* a, Args) { return centered(r, text_of(r, v), integer(a[0], 80), r.string(" ")); },
     {"width?"}},
    {"d", default_value, {"default_value?", "boolean?"}},
    {"default", default_value, {"default_value?", "boolean?"}},
    {"e", escape},
    {"escape", escape},
    {"filesizeformat", file_size, {"binary?"}},
    {"float", to_real, {"default?"}},
    {"forceescape", force_escape},
    {"format", format, {"*"}},
    {"from_json", from_json},
    {"indent", indent, {"width?", "first?", "blank?"}},
    {"int", to_integer, {"default?", "base?"}},
    {"lower", changed<lower>},
    {"replace", replace, {"old", "new", "count?"}},
    {"round", round, {"precision?", "method?"}},
    {"safe", safe},
    {"string", [](Render& r, const Value& v, const Value*, Args) { return text_of(r, v); }},
    {"title", changed<title_words>},
    {"tojson", to_json_text, {"ensure_ascii?", "indent?", "separators?", "sort_keys?"}},
    {"trim", trim, {"chars?"}},
    {"truncate", truncate, {"length?", "killwords?", "end?", "leeway?"}},
    {"upper", changed<upper>},
    {"urlencode", url_encode},
    {"wordcount", word_count},
};

}  // namespace

std::span<const Row> text_filters() { return kRows; }

}  // namespace quern::templates
