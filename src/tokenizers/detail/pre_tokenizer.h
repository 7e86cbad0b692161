#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "tokenizers/detail/known_patterns.h"

namespace quern::tokenizers::detail {

/// What a name in GGUF's tokenizer.ggml.pre means.
struct PreTokenizerRow {
  std::vector<std::string_view> names;
  std::vector<std::string_view> patterns;  ///< In order, each cutting the pieces of the one before; as Oniguruma reads them.
  bool ignore_merges = false;              ///< A word that is a token is that token, whatever the merges say.
  bool add_bos = false;                    ///< Where the file does not say.
  bool characters = false;                 ///< The vocabulary spells text as it is, not in GPT-2's spelling of bytes; bytes are "<0xHH>".
  bool spaces_escaped = false;             ///< Of these, one that spells a space U+2581.
  bool composes = false;                   ///< Text comes into normal form C first, as in the models' own tokenizers.
};

/// All rows that this build knows.
std::span<const PreTokenizerRow> pre_tokenizer_rows();
/// The row of a name; none: "default". Errors: unsupported, with the names that there are.
const PreTokenizerRow& find_pre_tokenizer(std::string_view name);

/// Cuts text into the words that merges stay within.
class PreTokenizer {
 public:
  explicit PreTokenizer(std::span<const std::string_view> patterns);

  /// Replaces `ends` by the words of `text`; `scratch` is only for its memory.
  void split(std::string_view text, Ends& ends, Ends& scratch) const;

 private:
  std::vector<Splitter> steps_;
};

}  // namespace quern::tokenizers::detail
