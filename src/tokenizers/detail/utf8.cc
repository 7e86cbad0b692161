#include "tokenizers/detail/utf8.h"

#include <cstring>

namespace quern::tokenizers::detail {
namespace {

enum class Kind { valid, invalid, incomplete };

struct Step {
  Kind kind;
  std::size_t length;
};

// The well-formed sequence at p, or the maximal subpart of an ill-formed one.
Step step(const unsigned char* p, const unsigned char* end) {
  const unsigned char lead = *p;
  if (lead < 0x80) return {Kind::valid, 1};
  if (lead < 0xC2 || lead > 0xF4) return {Kind::invalid, 1};
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  unsigned char low = 0x80, high = 0xBF;  // of the second byte: no overlong forms, no surrogates, nothing above U+10FFFF
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  for (std::size_t i = 1; i < length; ++i) {
    if (p + i == end) return {Kind::incomplete, i};
    if (p[i] < low || p[i] > high) return {Kind::invalid, i};
    low = 0x80, high = 0xBF;
  }
  return {Kind::valid, length};
}

const unsigned char* skip_ascii(const unsigned char* p, const unsigned char* end) {
  while (end - p >= 8) {
    std::uint64_t word;
    std::memcpy(&word, p, 8);
    if (word & 0x8080808080808080u) break;
    p += 8;
  }
  return p;
}

}  // namespace

std::size_t valid_prefix(std::string_view bytes) {
  const auto* begin = reinterpret_cast<const unsigned char*>(bytes.data());
  const auto* end = begin + bytes.size();
  const auto* p = begin;
  while (p < end) {
    if (*p < 0x80) {
      p = skip_ascii(p, end);
      if (p == end) break;
    }
    const Step s = step(p, end);
    if (s.kind != Kind::valid) break;
    p += s.length;
  }
  return static_cast<std::size_t>(p - begin);
}

std::size_t append_replaced(std::string_view bytes, bool keep_incomplete, std::string& out) {
  const auto* end = reinterpret_cast<const unsigned char*>(bytes.data()) + bytes.size();
  std::size_t taken = 0;
  while (taken < bytes.size()) {
    const std::string_view rest = bytes.substr(taken);
    const std::size_t good = valid_prefix(rest);
    out.append(rest.substr(0, good));
    taken += good;
    if (taken == bytes.size()) break;
    const Step s = step(reinterpret_cast<const unsigned char*>(bytes.data()) + taken, end);
    if (s.kind == Kind::incomplete && keep_incomplete) break;
    out.append(kReplacement);
    taken += s.length;
  }
  return taken;
}

void append_code_point(std::uint32_t code, std::string& out) {
  const auto push = [&out](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    push(code);
  } else if (code < 0x800) {
    push(0xC0 | code >> 6), push(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    push(0xE0 | code >> 12), push(0x80 | (code >> 6 & 0x3F)), push(0x80 | (code & 0x3F));
  } else {
    push(0xF0 | code >> 18), push(0x80 | (code >> 12 & 0x3F)), push(0x80 | (code >> 6 & 0x3F)), push(0x80 | (code & 0x3F));
  }
}

}  // namespace quern::tokenizers::detail
