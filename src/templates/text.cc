#include "templates/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>

namespace quern::templates {
namespace {

// Length of the well-formed sequence at `pos`, 0 if there is none.
std::size_t sequence_length(std::string_view t, std::size_t pos) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(t[i]); };
  const unsigned lead = byte(pos);
  if (lead < 0x80) return 1;
  const std::size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || pos + size > t.size()) return 0;
  for (std::size_t i = 1; i < size; ++i)
    if ((byte(pos + i) & 0xc0) != 0x80) return 0;
  const unsigned second = byte(pos + 1);
  if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f) || (lead == 0xf0 && second < 0x90) ||
      (lead == 0xf4 && second > 0x8f))
    return 0;
  return size;
}

bool contains_code_point(std::string_view chars, char32_t c) {
  count_work(chars.size());
  for (std::size_t i = 0; i < chars.size();)
    if (next_code_point(chars, i) == c) return true;
  return false;
}

template <typename Drop>
std::pair<std::size_t, std::size_t> strip_if(std::string_view text, bool left, bool right, Drop drop) {
  std::size_t begin = 0, end = text.size();
  while (left && begin < end) {
    std::size_t next = begin;
    if (!drop(next_code_point(text, next))) break;
    begin = next;
  }
  while (right && end > begin) {
    const std::size_t start = previous_start(text, end);
    std::size_t at = start;
    if (!drop(next_code_point(text, at))) break;
    end = start;
  }
  return {begin, end};
}

}  // namespace

std::size_t find_text(std::string_view text, std::string_view what, std::size_t from) {
  if (from > text.size()) return text.npos;
  if (what.empty()) return from;
  const void* found = ::memmem(text.data() + from, text.size() - from, what.data(), what.size());  // two-way search: linear
  return found == nullptr ? text.npos : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

std::size_t find_last_text(std::string_view text, std::string_view what) {
  const std::size_t found = find_text(reversed(text), reversed(what));
  return found == text.npos ? found : text.size() - found - what.size();
}

std::string reversed(std::string_view text) { return {text.rbegin(), text.rend()}; }

char32_t next_code_point(std::string_view t, std::size_t& pos) {
  const auto byte = [&](std::size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(t[i])); };
  const char32_t lead = byte(pos);
  if (lead < 0x80) return ++pos, lead;
  if (lead < 0xe0) return pos += 2, (lead & 0x1f) << 6 | (byte(pos - 1) & 0x3f);
  if (lead < 0xf0) return pos += 3, (lead & 0x0f) << 12 | (byte(pos - 2) & 0x3f) << 6 | (byte(pos - 1) & 0x3f);
  pos += 4;
  return (lead & 0x07) << 18 | (byte(pos - 3) & 0x3f) << 12 | (byte(pos - 2) & 0x3f) << 6 | (byte(pos - 1) & 0x3f);
}

void append_code_point(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xc0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    if (c >= 0xd800 && c < 0xe000) c = 0xfffd;
    out += static_cast<char>(0xe0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (c & 0x3f));
  } else if (c < 0x110000) {
    out += static_cast<char>(0xf0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 0x3f));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (c & 0x3f));
  } else {
    out += "\xef\xbf\xbd";
  }
}

std::size_t code_points(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

std::size_t byte_offset(std::string_view text, std::size_t n) {
  std::size_t pos = 0;
  for (; pos < text.size(); ++pos)
    if ((text[pos] & 0xc0) != 0x80 && n-- == 0) break;
  return pos;
}

std::size_t previous_start(std::string_view text, std::size_t end) {
  while (--end > 0 && (text[end] & 0xc0) == 0x80) {
  }
  return end;
}

bool is_valid_utf8(std::string_view text) {
  for (std::size_t pos = 0; pos < text.size();) {
    const std::size_t size = sequence_length(text, pos);
    if (size == 0) return false;
    pos += size;
  }
  return true;
}

std::string to_valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t pos = 0; pos < text.size();) {
    const std::size_t size = sequence_length(text, pos);
    if (size == 0) {
      out += "\xef\xbf\xbd";
      ++pos;
    } else {
      out += text.substr(pos, size);
      pos += size;
    }
  }
  return out;
}

bool is_space(char32_t c) {
  return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x1f) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

std::pair<std::size_t, std::size_t> strip(std::string_view text, bool left, bool right) { return strip_if(text, left, right, is_space); }

std::pair<std::size_t, std::size_t> strip(std::string_view text, std::string_view chars, bool left, bool right) {
  return strip_if(text, left, right, [&](char32_t c) { return contains_code_point(chars, c); });
}

std::string html_escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '\'': out += "&#39;"; break;
      case '"': out += "&#34;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, value, std::chars_format::scientific).ptr;
  std::string text(digits, end);
  const std::size_t e = text.find('e');
  const int exponent = std::atoi(text.c_str() + e + 1);
  if (exponent < -4 || exponent >= 16) return text;  // to_chars writes the exponent as Python does: a sign and two digits or more
  std::string out = text[0] == '-' ? "-" : "";
  std::string mantissa = text.substr(out.size(), e - out.size());
  if (mantissa.size() > 1) mantissa.erase(1, 1);
  const int count = static_cast<int>(mantissa.size());
  if (exponent < 0) return out + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + mantissa;
  if (exponent >= count - 1) return out + mantissa + std::string(static_cast<std::size_t>(exponent - count + 1), '0') + ".0";
  return out + mantissa.substr(0, static_cast<std::size_t>(exponent) + 1) + "." + mantissa.substr(static_cast<std::size_t>(exponent) + 1);
}

namespace {

void append_escape(std::string& out, char32_t c) {
  static constexpr char kHex[] = "0123456789abcdef";
  const int width = c < 0x100 ? 2 : c < 0x10000 ? 4 : 8;
  out += width == 2 ? "\\x" : width == 4 ? "\\u" : "\\U";
  for (int shift = (width - 1) * 4; shift >= 0; shift -= 4) out += kHex[c >> shift & 15];
}

}  // namespace

std::string string_repr(std::string_view text) {
  const char quote = text.find('\'') != text.npos && text.find('"') == text.npos ? '"' : '\'';
  std::string out(1, quote);
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t start = i;
    const char32_t c = next_code_point(text, i);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (is_printable(c)) {
      out += text.substr(start, i - start);
    } else {
      append_escape(out, c);
    }
  }
  return out += quote;
}

std::string ascii(std::string_view repr) {
  std::string out;
  for (std::size_t i = 0; i < repr.size();) {
    const char32_t c = next_code_point(repr, i);
    c < 0x80 ? void(out += static_cast<char>(c)) : append_escape(out, c);
  }
  return out;
}

void Writer::check_room(std::size_t bytes) const {
  if (bytes > limit_ - text_.size())
    throw Error(Code::resource_exhausted, "the template's text is longer than " + std::to_string(limit_) + " bytes");
}

void Writer::change_origin(bool untrusted) {
  if (!text_.empty()) spans_.push_back({end(), untrusted_});
  untrusted_ = untrusted;
}

std::vector<Span> Writer::spans() const {
  std::vector<Span> all = spans_;
  if (!text_.empty()) all.push_back({end(), untrusted_});
  return all;
}

void Writer::add(const String& s, std::size_t from, std::size_t to) {
  const std::string_view view = s.view();
  if (s.span_count == 0) return add(view.substr(from, to - from), s.untrusted);
  std::size_t begin = 0;
  for (std::uint32_t i = 0; i < s.span_count; begin = s.spans[i++].end) {
    const std::size_t first = std::max(begin, from), last = std::min<std::size_t>(s.spans[i].end, to);
    if (first < last) add(view.substr(first, last - first), s.spans[i].untrusted);
  }
}

void Writer::add_repeated(const String& s, std::size_t times) {
  if (s.size == 0) return;
  if (times > limit_ / s.size) check_room(limit_ + 1);
  check_room(times * s.size);
  heap_.require(times * s.size);  // before the first byte is written
  while (times-- > 0) add(s);
}

bool Writer::any_untrusted() const {
  if (!spans_.empty()) return true;  // of two origins
  return untrusted_ && !text_.empty();
}

Value Writer::take(bool markup) {
  char* bytes = heap_.array<char>(text_.size());
  std::copy(text_.begin(), text_.end(), bytes);
  String* s = heap_.make<String>();
  *s = {bytes, static_cast<std::uint32_t>(text_.size()), 0, nullptr, untrusted_ && !text_.empty()};
  if (!spans_.empty()) {
    Span* spans = heap_.array<Span>(spans_.size() + 1);
    *std::copy(spans_.begin(), spans_.end(), spans) = {end(), untrusted_};
    s->spans = spans;
    s->span_count = static_cast<std::uint32_t>(spans_.size() + 1);
    s->untrusted = spans[0].untrusted;
  }
  return Value::of(s, markup);
}

bool any_untrusted(const String& s) {
  if (s.span_count == 0) return s.untrusted;
  return std::any_of(s.spans, s.spans + s.span_count, [](const Span& span) { return span.untrusted; });
}

Value substring(Heap& heap, const Value& value, std::size_t from, std::size_t to) {
  const String& s = *value.string;
  if (from == 0 && to == s.size) return value;
  String* part = heap.make<String>();
  *part = {s.data + from, static_cast<std::uint32_t>(to - from), 0, nullptr, s.untrusted};
  if (s.span_count != 0) {
    Span* spans = heap.array<Span>(s.span_count);
    std::uint32_t count = 0, begin = 0;
    for (std::uint32_t i = 0; i < s.span_count; begin = s.spans[i++].end)
      if (std::max<std::size_t>(begin, from) < std::min<std::size_t>(s.spans[i].end, to))
        spans[count++] = {static_cast<std::uint32_t>(std::min<std::size_t>(s.spans[i].end, to) - from), s.spans[i].untrusted};
    part->untrusted = count != 0 && spans[0].untrusted;
    if (count > 1) {
      part->spans = spans;
      part->span_count = count;
    }
  }
  return Value::of(part, value.markup);
}

}  // namespace quern::templates
