#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace quern::engine::detail {

/// Guesses how a text goes on by where its last words stood before: what followed them then may follow again. Answers that quote, edit or
/// sum up their prompt repeat much of it. Remembers the last place of every three tokens in a row.
/// Source: prompt lookup decoding, Saxena 2023.
class PromptLookup {
 public:
  /// Takes memory for a text of so many tokens; nothing is allocated after that.
  void reserve(std::int64_t tokens);
  /// Appends up to `most` tokens to `guess`: what followed the place where the last three tokens of `text` stood before, and, where that
  /// reaches the end of the text, on round the loop. `text` only ever grows between calls.
  void guess(std::span<const std::int32_t> text, std::int64_t most, std::vector<std::int32_t>& guess);

 private:
  static constexpr std::int64_t kWords = 3;

  std::size_t place_of(std::span<const std::int32_t> text, std::int64_t end) const;

  std::vector<std::int32_t> last_;  // by hash of three tokens: where they end, the latest; 0: nowhere
  std::int64_t known_ = kWords;     // ends of three tokens below this are in last_
};

}  // namespace quern::engine::detail
