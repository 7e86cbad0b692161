#include "tokenizers/detail/json_reader.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "base/error.h"
#include "tokenizers/detail/utf8.h"

namespace quern::tokenizers::detail {

void JsonReader::fail(std::string_view what) const {
  throw Error(Code::data_corrupt, fmt::format("the JSON text is malformed: {}", what)).in(fmt::format("byte {}", offset()));
}

void JsonReader::fail_expected(char c) const { fail(fmt::format("'{}' was expected", c)); }

void JsonReader::fail_depth() const { fail(fmt::format("it is nested more than {} deep", kMaxDepth)); }

JsonReader::Kind JsonReader::other_kind() {
  switch (const char c = *p_) {
    case 't':
    case 'f': return Kind::boolean;
    case 'n': return Kind::null;
    default:
      if (c != '-' && (c < '0' || c > '9')) fail("a value was expected");
      return Kind::number;
  }
}

std::uint32_t JsonReader::hex4() {
  std::uint32_t value = 0;
  if (end_ - p_ < 4 || std::from_chars(p_, p_ + 4, value, 16).ptr != p_ + 4) fail("\\u needs four hexadecimal digits");
  p_ += 4;
  return value;
}

void JsonReader::unescape(std::string& out) {
  if (++p_ == end_) fail("it ends within a string");
  switch (*p_++) {
    case '"': out += '"'; return;
    case '\\': out += '\\'; return;
    case '/': out += '/'; return;
    case 'b': out += '\b'; return;
    case 'f': out += '\f'; return;
    case 'n': out += '\n'; return;
    case 'r': out += '\r'; return;
    case 't': out += '\t'; return;
    case 'u': break;
    default: --p_, fail("an unknown escape in a string");
  }
  std::uint32_t code = hex4();
  if (code >= 0xD800 && code < 0xE000) {
    std::uint32_t low = 0;
    if (code < 0xDC00 && end_ - p_ >= 6 && p_[0] == '\\' && p_[1] == 'u') {
      const char* before = p_;
      p_ += 2;
      low = hex4();
      if (low < 0xDC00 || low >= 0xE000) p_ = before, low = 0;
    }
    code = low ? 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00) : 0xFFFD;
  }
  append_code_point(code, out);
}

std::string_view JsonReader::rest_of_string(const char* start, std::string& buffer) {
  buffer.assign(start, p_);
  for (;;) {
    if (p_ == end_) fail("it ends within a string");
    if (*p_ == '"') return ++p_, buffer;
    if (*p_ != '\\') fail("a control character in a string");
    unescape(buffer);
    const char* from = p_;
    p_ = plain_end(p_, end_);
    buffer.append(from, p_);
  }
}

std::string JsonReader::string() {
  std::string buffer;
  return std::string(string(buffer));
}

double JsonReader::number() {
  if (kind() != Kind::number) fail("a number was expected");
  double value = 0;
  const auto [end, error] = std::from_chars(p_, end_, value);
  if (error != std::errc() || !std::isfinite(value)) fail("a malformed number");
  p_ = end;
  return value;
}

std::int64_t JsonReader::integer(std::int64_t low, std::int64_t high) {
  if (kind() != Kind::number) fail("a whole number was expected");
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(p_, end_, value);
  if (error != std::errc() || (end < end_ && (*end == '.' || *end == 'e' || *end == 'E'))) fail("a whole number was expected");
  if (value < low || value > high) fail(fmt::format("{} is not within {} to {}", value, low, high));
  p_ = end;
  return value;
}

void JsonReader::word(std::string_view rest) {
  if (static_cast<std::size_t>(end_ - p_) < rest.size() || std::string_view(p_, rest.size()) != rest) fail("a value was expected");
  p_ += rest.size();
}

bool JsonReader::boolean() {
  if (kind() != Kind::boolean) fail("true or false was expected");
  const bool value = *p_ == 't';
  word(value ? "true" : "false");
  return value;
}

bool JsonReader::null() {
  if (kind() != Kind::null) return false;
  word("null");
  return true;
}

void JsonReader::skip() {
  std::string buffer;
  switch (kind()) {
    case Kind::object: object([&](std::string_view) { skip(); }); break;
    case Kind::array: array([&] { skip(); }); break;
    case Kind::string: string(buffer); break;
    case Kind::number: number(); break;
    case Kind::boolean: boolean(); break;
    case Kind::null: null(); break;
  }
}

void JsonReader::finish() {
  skip_white();
  if (p_ < end_) fail("there is more after its end");
}

}  // namespace quern::tokenizers::detail
