#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tokenizers/detail/charsmap.h"
#include "tokenizers/detail/double_array.h"
#include "tokenizers/detail/normal_forms.h"
#include "tokenizers/detail/regex.h"

namespace quern::tokenizers::detail {

/// The steps of a normalizer, each named after that of tokenizer.json.
namespace normalizers {
struct Lowercase {};
struct StripAccents {};
struct Nmt {};
struct ByteLevel {};
struct Bert {
  bool clean_text, handle_chinese_chars, strip_accents, lowercase;
};
struct Prepend {
  std::string text;
};
struct Strip {
  bool left, right;
};
/// Of a plain text, or of the matches of a pattern.
struct Replace {
  std::variant<std::string, Regex> pattern;
  std::string content;
};
/// As SentencePiece normalises: what its charsmap replaces, then white space.
struct SentencePiece {
  std::vector<Charsmap> charsmap;  // none or one
  DoubleArray user_defined;        // these texts stay as they are
  bool dummy_prefix, squeeze, escape, suffix;
};
}  // namespace normalizers

/// What is done to text before it is cut into words.
class Normalizer {
 public:
  using Step =
      std::variant<NormalForm, normalizers::Lowercase, normalizers::StripAccents, normalizers::Nmt, normalizers::ByteLevel,
                   normalizers::Bert, normalizers::Prepend, normalizers::Strip, normalizers::Replace, Charsmap, normalizers::SentencePiece>;

  void add(Step step) { steps_.push_back(std::move(step)); }
  bool empty() const { return steps_.empty(); }

  struct Buffers {
    std::string a, b;
  };
  /// The normalised text: `text` itself where nothing changes, else one of the buffers, whose memory is reused. `at_start`: whether the
  /// text's first character is the input's; becomes false where that is removed. Errors: resource_exhausted (patterns; a text that grows
  /// past 1 GiB).
  std::string_view run(std::string_view text, Buffers& buffers, bool& at_start) const;

 private:
  std::vector<Step> steps_;
};

/// The matches of a text in a text, from left to right, none overlapping.
template <class Found>
void find_all(std::string_view text, std::string_view what, Found found) {
  if (what.empty()) return;
  for (std::size_t at = text.find(what); at != text.npos; at = text.find(what, at + what.size())) found(at, at + what.size());
}

/// GPT-2's spelling of a byte as a character, as UTF-8.
std::string_view spelled_byte(unsigned char byte);

}  // namespace quern::tokenizers::detail
