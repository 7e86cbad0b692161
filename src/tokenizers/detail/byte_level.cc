#include "tokenizers/detail/byte_level.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/error.h"

namespace quern::tokenizers::detail {
namespace {

constexpr std::uint32_t kSpellings = 0x100 + 68;  // 68 bytes do not print: 0x00-0x20, 0x7f-0xa0, 0xad

constexpr bool prints(std::uint32_t byte) { return (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD); }

// Byte that each code point spells, or -1.
constexpr auto kByteOf = [] {
  std::array<std::int16_t, kSpellings> bytes{};
  std::uint32_t next = 0x100;
  for (std::uint32_t b = 0; b < 256; ++b) {
    if (prints(b)) {
      bytes[b] = static_cast<std::int16_t>(b);
    } else {
      bytes[b] = -1;
      bytes[next++] = static_cast<std::int16_t>(b);
    }
  }
  return bytes;
}();

}  // namespace

std::size_t spelled_bytes(std::string_view text, char* out) {
  const char *p = text.data(), *const end = p + text.size();
  char* to = out;
  while (p < end) {
    const auto lead = static_cast<unsigned char>(*p);
    std::uint32_t code = lead;
    if (lead >= 0x80) {
      if (lead < 0xC2 || lead >= 0xC6 || end - p < 2 || (static_cast<unsigned char>(p[1]) & 0xC0) != 0x80) return kNotSpelled;
      code = (lead & 0x1Fu) << 6 | (static_cast<unsigned char>(p[1]) & 0x3Fu);
      if (code >= kSpellings) return kNotSpelled;
      ++p;
    }
    if (kByteOf[code] < 0) return kNotSpelled;
    *to++ = static_cast<char>(kByteOf[code]);
    ++p;
  }
  return static_cast<std::size_t>(to - out);
}

bool append_spelled_bytes(std::string_view text, std::string& out) {
  const std::size_t before = out.size();
  out.resize(before + text.size());
  const std::size_t size = spelled_bytes(text, out.data() + before);
  out.resize(size == kNotSpelled ? before : before + size);
  return size != kNotSpelled;
}

unsigned char byte_token_value(std::size_t id, std::string_view text) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>' || digit(text[3]) < 0 || digit(text[4]) < 0) {
    throw Error(Code::data_corrupt, fmt::format("byte token {} is '{}' where '<0x00>' to '<0xFF>' was expected", id, text.substr(0, 40)));
  }
  return static_cast<unsigned char>(digit(text[3]) * 16 + digit(text[4]));
}

}  // namespace quern::tokenizers::detail
