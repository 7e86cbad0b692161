#include "tokenizers/detail/json_reader.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "tokenizers/detail/utf8.h"

namespace quern::tokenizers::detail {

void JsonReader::fail(std::string_view what) const {
  throw Error(Code::data_corrupt, fmt::format("the JSON text is malformed: {}", what)).in(fmt::format("byte {}", offset()));
}

void JsonReader::fail_expected(char c) const { fail(fmt::format("'{}' was expected", c)); }

JsonReader::Kind JsonReader::kind() {
  switch (const char c = peek()) {
    case '{': return Kind::object;
    case '[': return Kind::array;
    case '"': return Kind::string;
    case 't':
    case 'f': return Kind::boolean;
    case 'n': return Kind::null;
    default:
      if (c != '-' && (c < '0' || c > '9')) fail("a value was expected");
      return Kind::number;
  }
}

void JsonReader::open(char bracket) {
  expect(bracket);
  if (++depth_ > kMaxDepth) fail(fmt::format("it is nested more than {} deep", kMaxDepth));
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

namespace {

/// Where a string's plain part ends: a quote, a backslash, a control character, or the end of the text. Eight bytes at a time.
const char* plain_end(const char* p, const char* end) {
  constexpr std::uint64_t kOnes = 0x0101010101010101u, kHigh = 0x8080808080808080u;
  static_assert(std::endian::native == std::endian::little);
  for (; end - p >= 8; p += 8) {
    std::uint64_t word;
    std::memcpy(&word, p, 8);
    const auto zeros = [&](std::uint64_t w) { return (w - kOnes) & ~w; };  // high bit set in the first byte that is 0, none before it
    const std::uint64_t found = (zeros(word ^ kOnes * '"') | zeros(word ^ kOnes * '\\') | ((word - kOnes * 0x20) & ~word)) & kHigh;
    if (found != 0) return p + std::countr_zero(found) / 8;
  }
  while (p < end && *p != '"' && *p != '\\' && static_cast<unsigned char>(*p) >= 0x20) ++p;
  return p;
}

}  // namespace

std::string_view JsonReader::string(std::string& buffer) {
  expect('"');
  const char* start = p_;
  bool copied = false;
  for (;;) {
    const char* from = p_;
    p_ = plain_end(p_, end_);
    if (p_ == end_) fail("it ends within a string");
    if (static_cast<unsigned char>(*p_) < 0x20) fail("a control character in a string");
    if (*p_ == '"' && !copied) return {start, static_cast<std::size_t>(p_++ - start)};
    if (!copied) buffer.clear(), copied = true;
    buffer.append(from, p_);
    if (*p_ == '"') return ++p_, buffer;
    unescape(buffer);
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
  while (p_ < end_ && (*p_ == ' ' || *p_ == '\n' || *p_ == '\r' || *p_ == '\t')) ++p_;
  if (p_ < end_) fail("there is more after its end");
}

}  // namespace quern::tokenizers::detail
