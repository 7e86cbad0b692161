#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "tokenizers/detail/scanners.h"

namespace quern::tokenizers::detail {

/// Whose rules a pattern follows, where they differ: ^ and $ (every line for Oniguruma, the whole text for Rust), x{2,3}+ (repeated for
/// Oniguruma, possessive for Rust), (?m), \w.
enum class RegexSyntax : std::uint8_t {
  oniguruma,  ///< tokenizer.json
  rust,       ///< tiktoken and tekken files
};

/// A pattern of a pre-tokenizer: classes with \p{category or script}, \s \d \w \h, POSIX names, nesting, negation and &&; groups, (?i) and
/// other flags; greedy, lazy and possessive quantifiers and counted repeats; look-ahead, look-behind of bounded width, atomic groups;
/// anchors and \b. No back references. Matching is leftmost-first, as backtracking engines do it, in time linear in the text for all but
/// patterns with nested possessive parts or loops over nothing, where an error comes before the time gets out of hand.
/// Immutable; any number of threads may match at once.
class Regex {
 public:
  /// Errors: data_corrupt (malformed, with the place), unsupported (back references and the like), resource_exhausted (too large).
  explicit Regex(std::string_view pattern, RegexSyntax syntax = RegexSyntax::oniguruma);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  /// Finds the matches in a text one after the other.
  class Matches {
   public:
    /// `text` is valid UTF-8 of less than 4 GiB and, like the pattern, outlives this.
    Matches(const Regex& regex, std::string_view text);
    ~Matches();
    Matches(const Matches&) = delete;
    Matches& operator=(const Matches&) = delete;

    /// The next match: it begins at or after the end of the one before, and is empty only where that did not end. False when there is none.
    /// Errors: resource_exhausted when the text takes too many steps or too much memory.
    bool next();
    std::uint32_t begin() const { return begin_; }
    std::uint32_t end() const { return end_; }

   private:
    struct State;
    std::unique_ptr<State> state_;
    std::uint32_t begin_ = 0, end_ = 0;
  };

  /// Cuts the pieces of `in` at both ends of every match, as scanners do. Errors: as Matches::next().
  void split(std::string_view text, const Ends& in, Ends& out) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quern::tokenizers::detail
