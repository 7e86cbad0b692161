#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tokenizers/detail/regex.h"
#include "tokenizers/detail/scanners.h"

namespace quern::tokenizers::detail {

/// A step of a pre-tokenizer: a scanner, or a pattern (as Oniguruma reads it).
using Step = std::variant<Scanner, std::string_view>;

/// What a name in GGUF's tokenizer.ggml.pre means.
struct PreTokenizerRow {
  std::vector<std::string_view> names;
  std::vector<Step> steps;     ///< In order, each cutting the pieces of the one before.
  bool ignore_merges = false;  ///< A word that is a token is that token, whatever the merges say.
  bool add_bos = false;        ///< Where the file does not say.
};

/// All rows that this build knows.
std::span<const PreTokenizerRow> pre_tokenizer_rows();

/// Cuts text into the words that merges stay within.
class PreTokenizer {
 public:
  explicit PreTokenizer(const PreTokenizerRow& row);

  /// Replaces `ends` by the words of `text`; `scratch` is only for its memory.
  void split(std::string_view text, Ends& ends, Ends& scratch) const;

 private:
  std::vector<std::variant<Scanner, Regex>> steps_;
};

}  // namespace quern::tokenizers::detail
