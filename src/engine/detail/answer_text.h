#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizers/tokenizer.h"

namespace quern::engine::detail {

/// The text of an answer while its tokens come: complete characters, up to a stop string. Text is held back only while a stop string may
/// have begun in it. Of several stop strings the one that is complete first counts, of those that end together the longest; so the answer
/// does not depend on how the text was cut into tokens.
class AnswerText {
 public:
  AnswerText(const tokenizers::Tokenizer& tokenizer, std::vector<std::string> stops);

  /// Takes one token; true when a stop string is complete. Nothing may follow then but take().
  bool push(std::int32_t id) { return add(decoder_.push(id)); }
  /// Takes the end of the answer: what was held back is text now, and half a character becomes U+FFFD. True as for push().
  bool finish();

  /// Whether some text is held back for a stop string.
  bool holds() const { return held_ > 0; }
  /// Text that may be shown and was not taken yet.
  std::string take();
  bool has_text() const { return text_.size() > held_; }
  /// The stop string that was found, or nothing.
  std::string_view stop_text() const { return found_ == kNone ? std::string_view() : std::string_view(stops_[found_].text); }

 private:
  struct Stop {
    std::string text;
    std::vector<std::uint32_t> fallback;  // by length of a match: the next shorter one that ends at the same byte (Knuth, Morris, Pratt)
    std::uint32_t matched = 0;
  };
  static constexpr std::size_t kNone = ~std::size_t{0};
  bool add(std::string_view text);

  tokenizers::StreamDecoder decoder_;
  std::vector<Stop> stops_;
  std::string text_;      // not taken yet
  std::size_t held_ = 0;  // bytes at its end that may begin a stop string
  std::size_t found_ = kNone;
};

}  // namespace quern::engine::detail
