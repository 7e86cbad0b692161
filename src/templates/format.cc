#include <algorithm>
#include <cmath>
#include <cstdio>

#include "templates/big_integer.h"
#include "templates/operators.h"

// Python's two ways to format: '%' and format specifications.
namespace quern::templates {
namespace {

constexpr std::int64_t kMaxWidth = 1 << 20;

[[noreturn]] void fail(std::string message) { throw Error(Code::invalid_argument, std::move(message)); }

struct Spec {
  std::string fill = " ";
  bool fill_given = false, zero = false;  // zero: a '0' before the width asked for '='
  char align = 0;                         // < > ^ =, 0 = by type
  char sign = '-';
  bool sign_given = false, no_negative_zero = false;
  bool alternate = false;
  std::int64_t width = 0;
  char grouping = 0;  // , or _
  std::int64_t precision = -1;
  char type = 0;
};

std::int64_t read_number(std::string_view text, std::size_t& pos) {
  std::int64_t n = 0;
  for (; pos < text.size() && text[pos] >= '0' && text[pos] <= '9'; ++pos) {
    n = n * 10 + (text[pos] - '0');
    if (n > kMaxWidth) throw Error(Code::resource_exhausted, "a width or precision in a format is too large");
  }
  return n;
}

std::string float_digits(double d, char type, std::int64_t precision, bool alternate) {
  if (precision > 1000) throw Error(Code::resource_exhausted, "a precision in a format is too large");
  if (std::isnan(d) || std::isinf(d)) {
    std::string word = std::isnan(d) ? "nan" : d < 0 ? "-inf" : "inf";
    if (type == 'F' || type == 'E' || type == 'G')
      for (char& c : word) c = static_cast<char>(std::toupper(c));
    return word;
  }
  const char form[] = {'%', alternate ? '#' : '.', alternate ? '.' : '*', alternate ? '*' : type, alternate ? type : '\0', '\0'};
  char buffer[1500];
  std::snprintf(buffer, sizeof buffer, form, static_cast<int>(precision < 0 ? 6 : precision), d);
  return buffer;
}

std::string in_base(const BigInteger& i, unsigned base, bool capital) {
  std::string out = i.digits(base);
  if (capital)
    for (char& c : out) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

std::string group_digits(const std::string& digits, char separator, std::size_t every) {
  std::size_t whole = 0;
  while (whole < digits.size() && std::isxdigit(static_cast<unsigned char>(digits[whole]))) ++whole;
  std::string out;
  for (std::size_t i = 0; i < whole; ++i) {
    if (i != 0 && (whole - i) % every == 0) out += separator;
    out += digits[i];
  }
  return out + digits.substr(whole);
}

// With separators; where zeros fill up to the width they are part of the number.
std::string grouped(std::string body, const Spec& s, std::size_t every, std::size_t before) {
  if (s.fill == "0" && s.align == '=') {
    std::size_t whole = 0;
    while (whole < body.size() && std::isxdigit(static_cast<unsigned char>(body[whole]))) ++whole;
    const std::size_t rest = before + body.size() - whole, width = static_cast<std::size_t>(s.width);
    std::size_t wanted = width > rest ? (width - rest) * every / (every + 1) : 0;
    while (wanted != 0 && wanted + (wanted - 1) / every + rest < width) ++wanted;
    if (wanted > whole) body.insert(0, wanted - whole, '0');
  }
  return group_digits(body, s.grouping, every);
}

// sign and prefix | body, widened to the specification.
std::string pad_number(bool negative, const std::string& prefix, const std::string& body, const Spec& s) {
  const std::string sign = negative ? "-" : s.sign == '+' ? "+" : s.sign == ' ' ? " " : "";
  const std::size_t size = sign.size() + prefix.size() + body.size();
  const std::size_t room = static_cast<std::size_t>(s.width) > size ? static_cast<std::size_t>(s.width) - size : 0;
  const auto fill = [&](std::size_t n) {
    std::string out;
    while (n-- > 0) out += s.fill;
    return out;
  };
  switch (s.align ? s.align : '>') {
    case '<': return sign + prefix + body + fill(room);
    case '^': return fill(room / 2) + sign + prefix + body + fill(room - room / 2);
    case '=': return sign + prefix + fill(room) + body;
    default: return fill(room) + sign + prefix + body;
  }
}

void write_padded(Writer& out, const Value& text, const Spec& s) {
  const std::string_view view = text.text();
  const std::size_t end = s.precision < 0 ? view.size() : byte_offset(view, static_cast<std::size_t>(s.precision));
  const std::size_t size = code_points(view.substr(0, end));
  const std::size_t room = static_cast<std::size_t>(s.width) > size ? static_cast<std::size_t>(s.width) - size : 0;
  const std::size_t before = s.align == '>' ? room : s.align == '^' ? room / 2 : 0;
  for (std::size_t i = 0; i < before; ++i) out.add(s.fill);
  out.add(*text.string, 0, end);
  for (std::size_t i = before; i < room; ++i) out.add(s.fill);
}

std::string format_integer(const BigInteger& i, const Spec& s) {
  std::string body, prefix;
  switch (s.type) {
    case 'x':
    case 'X':
      body = in_base(i, 16, s.type == 'X');
      prefix = s.type == 'X' ? "0X" : "0x";
      break;
    case 'o':
      body = in_base(i, 8, false);
      prefix = "0o";
      break;
    case 'b':
      body = in_base(i, 2, false);
      prefix = "0b";
      break;
    default: body = i.digits();
  }
  const std::string_view shown_prefix = s.alternate ? std::string_view(prefix) : std::string_view();
  if (s.grouping) body = grouped(body, s, prefix.empty() ? 3 : 4, (i.negative() || s.sign != '-') + shown_prefix.size());
  return pad_number(i.negative(), std::string(shown_prefix), body, s);
}

std::string format_real(double d, const Spec& s) {
  std::string body;
  if (s.type == 0 && s.precision < 0)
    body = float_repr(d);
  else if (s.type == '%')
    body = float_digits(d * 100, 'f', s.precision, s.alternate) + "%";
  else
    body = float_digits(d, s.type == 0 || s.type == 'n' ? 'g' : s.type, s.precision, s.alternate);
  if (s.type == 0 && s.precision >= 0 && body.find_first_not_of("-0123456789") == body.npos) body += ".0";
  bool negative = body[0] == '-';
  if (negative) body.erase(0, 1);
  if (s.no_negative_zero && body.find_first_of("123456789in") == body.npos) negative = false;
  if (s.grouping) body = grouped(body, s, 3, negative || s.sign != '-');
  return pad_number(negative, "", body, s);
}

// `otherwise`: the type where none is given.
Spec parse_spec(std::string_view text, char otherwise) {
  Spec s;
  std::size_t pos = 0;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  const std::size_t second = text.empty() ? 0 : byte_offset(text, 1);
  if (second != 0 && second < text.size() && is_align(text[second])) {
    s.fill = text.substr(0, second);
    s.fill_given = true;
    s.align = text[second];
    pos = second + 1;
  } else if (!text.empty() && is_align(text[0])) {
    s.align = text[pos++];
  }
  if (pos < text.size() && (text[pos] == '+' || text[pos] == '-' || text[pos] == ' ')) s.sign = text[pos++], s.sign_given = true;
  if (pos < text.size() && text[pos] == 'z') s.no_negative_zero = true, ++pos;
  if (pos < text.size() && text[pos] == '#') s.alternate = true, ++pos;
  if (pos < text.size() && text[pos] == '0') {
    ++pos;
    if (s.fill_given) {
    } else if (!s.align) {
      s.align = '=', s.fill = "0", s.zero = true;
    } else {
      s.fill = "0";
    }
  }
  s.width = read_number(text, pos);
  if (pos < text.size() && (text[pos] == ',' || text[pos] == '_')) s.grouping = text[pos++];
  if (s.grouping && pos < text.size() && (text[pos] == ',' || text[pos] == '_'))
    fail(text[pos] == s.grouping ? "Cannot specify '" + std::string(1, s.grouping) + "' with '" + s.grouping + "'."
                                 : "Cannot specify both ',' and '_'.");
  if (pos < text.size() && text[pos] == '.') {
    const std::size_t start = ++pos;
    s.precision = read_number(text, pos);
    if (pos == start) fail("Format specifier missing precision");
  }
  if (pos < text.size()) s.type = text[pos++];
  if (pos != text.size()) fail("Invalid format specifier");
  if (s.grouping) {
    const char type = s.type ? s.type : otherwise;
    const bool allowed = std::string_view("defgEG%F").find(type) != std::string_view::npos || type == 0 ||
                         (s.grouping == '_' && std::string_view("boxX").find(type) != std::string_view::npos);
    if (!allowed) fail("Cannot specify '" + std::string(1, s.grouping) + "' with '" + type + "'.");
  }
  return s;
}

char32_t code_point_of(const Value& v) {
  if (v.is(Kind::real)) fail("%c requires int or char");
  if (v.is(Kind::big)) fail("Python int too large to convert to C int");
  const std::int64_t c = as_index(v);
  if (c < 0 || c >= 0x110000) fail("%c arg not in range(0x110000)");
  return static_cast<char32_t>(c);
}

[[noreturn]] void fail_character(std::string_view text, std::size_t pos) {
  pos = text[pos] == '\0' || (text[pos] & 0xc0) != 0x80 ? pos : previous_start(text, pos + 1);
  std::size_t next = pos;
  const char32_t c = next_code_point(text, next);
  char code[16];
  std::snprintf(code, sizeof code, "0x%x", static_cast<unsigned>(c));
  fail("unsupported format character '" + (c > 31 && c < 127 ? std::string(1, static_cast<char>(c)) : std::string("?")) + "' (" + code +
       ") at index " + std::to_string(code_points(text.substr(0, pos))));
}

// One conversion of a '%' format.
struct Conversion {
  Spec spec;
  bool zero = false, left = false;
};

void write_conversion(Writer& out, const Value& v, Conversion c, Heap& heap, bool escape) {
  Spec& s = c.spec;
  s.align = c.left ? '<' : '>';
  const bool number = v.is_number() || v.is(Kind::big);
  switch (s.type) {
    case 's':
    case 'r':
    case 'a': {
      Writer text(heap);
      s.type == 's' ? write_str(text, v) : write_repr(text, v);
      Value value = text.take();
      if (s.type == 'a') value = make_string(heap, ascii(value.text()), any_untrusted(*value.string));
      if (escape && !v.markup) value = make_string(heap, html_escape(value.text()), any_untrusted(*value.string));
      return write_padded(out, value, s);
    }
    case 'c': {
      std::string one;
      s.precision = -1;
      if (number)
        append_code_point(one, code_point_of(v));
      else if (v.is(Kind::string) && code_points(v.text()) == 1)
        return write_padded(out, v, s);
      else
        fail("%c requires int or char");
      return write_padded(out, make_string(heap, one), s);
    }
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o': {
      if (v.is(Kind::undefined)) fail_undefined(v);
      const bool decimal = s.type == 'd' || s.type == 'i' || s.type == 'u';
      if (!number || (v.is(Kind::real) && !decimal))
        fail("%" + std::string(1, s.type) + " format: a" + (decimal ? " real number" : "n integer") + " is required, not " +
             std::string(type_name(v)));
      if (v.is(Kind::real) && std::isnan(v.real)) fail("cannot convert float NaN to integer");
      if (v.is(Kind::real) && std::isinf(v.real)) fail("cannot convert float infinity to integer");
      const BigInteger i = v.is(Kind::real) ? BigInteger::truncated(v.real) : BigInteger::of(v);
      if (decimal) s.type = 'd';
      std::string body = in_base(i, s.type == 'd' ? 10 : s.type == 'o' ? 8 : 16, s.type == 'X');
      if (s.precision > static_cast<std::int64_t>(body.size())) body.insert(0, static_cast<std::size_t>(s.precision) - body.size(), '0');
      if (c.zero && !c.left) s.align = '=', s.fill = "0";
      const std::string prefix = !s.alternate || s.type == 'd' ? "" : s.type == 'o' ? "0o" : s.type == 'x' ? "0x" : "0X";
      return out.add(pad_number(i.negative(), prefix, body, s));
    }
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G': {
      if (v.is(Kind::undefined)) fail_undefined(v);
      if (!number) fail("must be real number, not " + std::string(type_name(v)));
      std::string body = float_digits(as_real(v), s.type, s.precision, s.alternate);
      const bool negative = body[0] == '-';
      if (negative) body.erase(0, 1);
      if (c.zero && !c.left) s.align = '=', s.fill = "0";
      return out.add(pad_number(negative, "", body, s));
    }
    default: throw Error(Code::internal, "a conversion that was not checked");
  }
}

}  // namespace

void write_formatted(Writer& out, const Value& v, std::string_view text) {
  if (text.empty()) return write_str(out, v);
  if (!v.is(Kind::string) && !v.is_number() && !v.is(Kind::big))
    fail("unsupported format string passed to " + std::string(type_name(v)) + ".__format__");
  const Spec s = parse_spec(text, v.is(Kind::string) ? 's' : v.is(Kind::real) ? '\0' : 'd');
  if (v.is(Kind::string)) {
    if (s.type && s.type != 's') fail("Unknown format code '" + std::string(1, s.type) + "' for object of type 'str'");
    if (s.sign_given) fail(s.sign == ' ' ? "Space not allowed in string format specifier" : "Sign not allowed in string format specifier");
    if (s.no_negative_zero) fail("Negative zero coercion (z) not allowed in string format specifier");
    if (s.alternate) fail("Alternate form (#) not allowed in string format specifier");
    if (s.align == '=' && !s.zero) fail("'=' alignment not allowed in string format specifier");
    return write_padded(out, v, s);
  }
  static constexpr std::string_view kReal = "eEfFgGn%", kInteger = "dxXobnc";
  if (v.is(Kind::real) || (s.type && kReal.find(s.type) != kReal.npos && s.type != 'n')) {
    if (s.type && kReal.find(s.type) == kReal.npos) fail("Unknown format code '" + std::string(1, s.type) + "' for object of type 'float'");
    return out.add(format_real(as_real(v), s));
  }
  if (s.type && kInteger.find(s.type) == kInteger.npos)
    fail("Unknown format code '" + std::string(1, s.type) + "' for object of type 'int'");
  if (s.precision >= 0) fail("Precision not allowed in integer format specifier");
  if (s.no_negative_zero) fail("Negative zero coercion (z) not allowed in integer format specifier");
  if (s.type == 'c') {
    if (s.sign_given) fail("Sign not allowed with integer format specifier 'c'");
    if (s.alternate) fail("Alternate form (#) not allowed with integer format specifier 'c'");
    const std::int64_t c = as_index(v);
    if (c < 0 || c >= 0x110000) fail("%c arg not in range(0x110000)");
    std::string one;
    append_code_point(one, static_cast<char32_t>(c));
    return out.add(pad_number(false, "", one, s));
  }
  out.add(format_integer(BigInteger::of(v), s));
}

Value format_percent(Heap& heap, const Value& format, const Value& args) {
  const std::string_view text = format.text();
  const bool tuple = args.is(Kind::list) && (args.list->type == Sequence::tuple || args.list->type == Sequence::group);
  std::size_t next = 0, pos = 0;
  const auto take = [&]() -> Value {
    if (tuple) {
      if (next >= args.list->size) fail("not enough arguments for format string");
      return args.list->at(next++);
    }
    if (next++ != 0) fail("not enough arguments for format string");
    return args;
  };
  Writer out(heap);
  while (pos < text.size()) {
    const std::size_t percent = std::min(text.find('%', pos), text.size());
    out.add(*format.string, pos, percent);
    if (percent == text.size()) break;
    pos = percent + 1;
    if (pos < text.size() && text[pos] == '%') {
      out.add(*format.string, pos, pos + 1);
      ++pos;
      continue;
    }
    Conversion c;
    Value keyed = Value::of(Kind::absent);
    if (pos < text.size() && text[pos] == '(') {
      const std::size_t close = text.find(')', pos);
      if (close == text.npos) fail("incomplete format key");
      if (!args.is(Kind::dict)) fail("format requires a mapping");
      const Value* found = args.dict->find(text.substr(pos + 1, close - pos - 1));
      if (!found) fail("the format's key '" + std::string(text.substr(pos + 1, close - pos - 1)) + "' is missing");
      keyed = *found;
      next = 1;
      pos = close + 1;
    }
    for (; pos < text.size(); ++pos) {
      if (text[pos] == '-')
        c.left = true;
      else if (text[pos] == '0')
        c.zero = true;
      else if (text[pos] == '+')
        c.spec.sign = '+';
      else if (text[pos] == ' ')
        c.spec.sign = c.spec.sign == '+' ? '+' : ' ';
      else if (text[pos] == '#')
        c.spec.alternate = true;
      else
        break;
    }
    const auto number = [&]() -> std::int64_t {
      if (pos >= text.size() || text[pos] != '*') return read_number(text, pos);
      ++pos;
      const std::int64_t n = as_index(take());
      if (n > kMaxWidth || n < -kMaxWidth) throw Error(Code::resource_exhausted, "a width or precision in a format is too large");
      return n;
    };
    c.spec.width = number();
    if (c.spec.width < 0) c.left = true, c.spec.width = -c.spec.width;
    if (pos < text.size() && text[pos] == '.') ++pos, c.spec.precision = std::max<std::int64_t>(0, number());
    if (pos < text.size() && (text[pos] == 'l' || text[pos] == 'h' || text[pos] == 'L')) ++pos;
    if (pos >= text.size()) fail("incomplete format");
    c.spec.type = text[pos++];
    const Value argument = keyed.given() ? keyed : take();
    if (std::string_view("sracdiuxXoeEfFgG").find(c.spec.type) == std::string_view::npos) fail_character(text, pos - 1);
    write_conversion(out, argument, c, heap, format.markup);
  }
  const bool all_used = tuple ? next >= args.list->size
                              : next != 0 || args.is(Kind::dict) || args.is(Kind::undefined) ||
                                    (args.is(Kind::list) && (args.list->type == Sequence::list || args.list->type == Sequence::range));
  if (!all_used) fail("not all arguments converted during string formatting");
  return out.take(format.markup);
}

}  // namespace quern::templates
