#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/detail/past_answers.h"
#include "engine/detail/suffix_automaton.h"

namespace quern::engine::detail {

/// Guesses how a text goes on by where its end stood before, in itself or in past answers: what followed there may follow again. Answers
/// that quote, edit or sum up their prompt repeat much of it, and questions are asked twice.
/// Source: prompt lookup decoding, Saxena 2023; with the longest end that stood before in place of a fixed number of tokens.
class PromptLookup {
 public:
  /// A place where the text's end stood, and what followed.
  struct Place {
    std::int64_t matched = 0;  // tokens of the end; 0: there is no such place, and nothing follows
    bool past = false;         // of an answer that was given before
    std::span<const std::int32_t> following = {};
    /// Appends up to `most` tokens that followed, and, where that reaches the end of the text itself, on round the loop.
    void copy(std::int64_t most, std::vector<std::int32_t>& guess) const;
  };
  /// Where the longest end stood, and a place that goes on otherwise, of the longest that there is. `text` only grows from call to call;
  /// `past`: answers of requests with the same cache partition; null: none. Valid until either changes.
  std::array<Place, 2> find(std::span<const std::int32_t> text, const PastAnswers* past, std::uint64_t partition);

 private:
  SuffixAutomaton pieces_;  // of the text
  PastAnswers::Reader reader_;
  bool given_up_ = false;  // there was no memory for it
};

}  // namespace quern::engine::detail
