#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace quern::tokenizers::detail {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

/// Length of the longest prefix that is whole, valid UTF-8.
std::size_t valid_prefix(std::string_view bytes);

/// Appends `bytes`, each maximal subpart of an ill-formed sequence as one U+FFFD (Unicode 16, section 3.9, table 3-8). Returns the number
/// of bytes taken: all, or with `keep_incomplete` all but a last sequence that later bytes could still complete.
std::size_t append_replaced(std::string_view bytes, bool keep_incomplete, std::string& out);

/// Code point at `p` of text known to be valid.
inline std::uint32_t code_point(const char* p) {
  const auto byte = [p](int i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(p[i])); };
  if (byte(0) < 0x80) return byte(0);
  if (byte(0) < 0xE0) return (byte(0) & 0x1F) << 6 | (byte(1) & 0x3F);
  if (byte(0) < 0xF0) return (byte(0) & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
  return (byte(0) & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
}

/// Bytes of the character that starts with `lead` in valid text.
inline std::uint32_t character_length(char lead) {
  const auto b = static_cast<unsigned char>(lead);
  return b < 0x80 ? 1 : b < 0xE0 ? 2 : b < 0xF0 ? 3 : 4;
}

void append_code_point(std::uint32_t code, std::string& out);

}  // namespace quern::tokenizers::detail
