#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tokenizers/detail/regex.h"
#include "tokenizers/detail/scanners.h"

namespace quern::tokenizers::detail {

/// What becomes of the matches of a step of a pre-tokenizer.
enum class Behaviour : std::uint8_t { removed, isolated, merged_with_previous, merged_with_next, contiguous };

/// The steps of a pre-tokenizer, each named after that of tokenizer.json.
namespace cutters {
struct ByteLevel {
  bool add_prefix_space, use_regex;
  bool spells = true;  // bytes as characters
};
struct Whitespace {};
struct WhitespaceSplit {};
struct Bert {};
struct Metaspace {
  std::string mark;  // one character
  enum class Prepend : std::uint8_t { first, never, always } prepend;
  bool split;
};
struct Punctuation {
  Behaviour behaviour;
};
struct Digits {
  bool individual;
};
struct Split {
  std::variant<std::string, Regex> pattern;
  Behaviour behaviour;
  bool invert;
};
/// A pattern with a scanner of its own, isolated.
struct Scan {
  Scanner scanner;
};
struct Delimiter {
  std::string character;
};
struct UnicodeScripts {};
struct FixedLength {
  std::size_t length;
};
}  // namespace cutters

/// Cuts text into the words that a model turns into tokens one by one.
class PieceCutter {
 public:
  using Step = std::variant<cutters::ByteLevel, cutters::Whitespace, cutters::WhitespaceSplit, cutters::Bert, cutters::Metaspace,
                            cutters::Punctuation, cutters::Digits, cutters::Split, cutters::Scan, cutters::Delimiter,
                            cutters::UnicodeScripts, cutters::FixedLength>;
  struct Piece {
    std::uint32_t begin, end;
  };
  /// The pieces are parts of `text`, in order.
  struct Pieces {
    std::string_view text = {};
    std::vector<Piece> pieces = {};
    // Memory of the steps.
    std::string a = {}, b = {};
    std::vector<Piece> other = {};
    Ends ends = {}, more_ends = {};
  };

  void add(Step step) { steps_.push_back(std::move(step)); }
  bool empty() const { return steps_.empty(); }
  /// Whether spelling bytes as characters is the last step and done once.
  bool ends_in_bytes() const;
  /// Pieces are bytes from now on, not their spelling. Where ends_in_bytes().
  void drop_spelling() { std::get<cutters::ByteLevel>(steps_.back()).spells = false; }

  /// Replaces `out.text` and `out.pieces`. `at_start`: the text begins where the whole input does. Errors: as Regex.
  void cut(std::string_view text, bool at_start, Pieces& out) const;

 private:
  std::vector<Step> steps_;
};

}  // namespace quern::tokenizers::detail
