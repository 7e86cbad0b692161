#pragma once

#include <bitset>
#include <cstddef>
#include <string>
#include <string_view>

#include "tokenizers/detail/utf8.h"

namespace quern::tokenizers::detail {

/// Where a text without words may be cut all the same: no token has characters on both sides of a border that is not here, so what lies
/// between such borders merges alone. A border is the last byte of a character and the first of the next.
class Joins {
 public:
  /// Adds the borders inside a token, which is valid UTF-8 and not empty.
  void add(std::string_view token) {
    for (std::size_t at = character_length(token[0]); at < token.size(); at += character_length(token[at])) {
      joined_.set(border(token[at - 1], token[at]));
    }
  }
  /// Whether the border between the characters that end and begin with these bytes is inside some token.
  bool joins(char before, char after) const { return joined_.test(border(before, after)); }
  /// The end of the piece of valid text that begins at `at`.
  std::size_t piece_end(std::string_view text, std::size_t at) const {
    for (at += character_length(text[at]); at < text.size(); at += character_length(text[at])) {
      if (!joins(text[at - 1], text[at])) break;
    }
    return at;
  }

 private:
  static std::size_t border(char before, char after) {
    return std::size_t{static_cast<unsigned char>(before)} << 8 | static_cast<unsigned char>(after);
  }
  std::bitset<1 << 16> joined_;
};

/// Appends `text` with every U+2581, which is how vocabularies spell a space, as a space.
void append_unescaped(std::string_view text, std::string& out);

}  // namespace quern::tokenizers::detail
