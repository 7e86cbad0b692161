#pragma once

#include <cstdint>

namespace quern::tokenizers::detail {

/// Classes of a code point, as flags; Unicode 16.0 whatever the system's libraries know. A titlecase letter counts as upper.
enum CharClass : std::uint8_t {
  kLetter = 1,
  kNumber = 2,
  kSpace = 4,  ///< White_Space
  kMark = 8,
  kPunctuation = 16,
  kSymbol = 32,
  kLower = 64,
  kUpper = 128,
};

/// Two-level table: flags of code point c are blocks[index[c >> 8] << 8 | (c & 255)]. The first block is that of c < 256.
struct CharTable {
  const std::uint16_t* index;
  const std::uint8_t* blocks;

  std::uint8_t operator[](std::uint32_t code) const { return blocks[std::uint32_t{index[code >> 8]} << 8 | (code & 255)]; }
};

/// Built at the first call (under a millisecond).
const CharTable& char_table();

}  // namespace quern::tokenizers::detail
