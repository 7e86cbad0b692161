#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "tokenizers/detail/char_set.h"
#include "tokenizers/detail/regex.h"

namespace quern::tokenizers::detail {

/// A pattern as a tree.
struct RegexNode {
  enum class Kind : std::uint8_t {
    empty,        // matches nothing, always
    set,          // one character of `set`
    concat,       // children in order
    alternate,    // the first child that leads to a match
    repeat,       // children[0], min to max times
    atomic,       // children[0], never tried again once matched
    look_ahead,   // children[0] must match here (`negated`: must not)
    look_behind,  // children[0] must match up to here
    text_begin,
    text_end,
    text_end_or_line_feed,  // the end, or before a line feed that is the last character
    line_begin,
    line_end,
    word_boundary,  // `negated`: no boundary
  };
  static constexpr std::uint32_t kUnbounded = 0xFFFFFFFFu;

  Kind kind = Kind::empty;
  bool negated = false;
  bool lazy = false;
  std::uint32_t min = 0, max = 0;
  CharSet set;
  std::vector<std::unique_ptr<RegexNode>> children;
};

/// Errors: as Regex.
std::unique_ptr<RegexNode> parse_regex(std::string_view pattern, RegexSyntax syntax);

}  // namespace quern::tokenizers::detail
