#pragma once

#include <cstdint>

namespace quern::tokenizers::detail {

/// What Hugging Face `tokenizers` takes a code point for, as flags. Its parts know several versions of Unicode; these tables were asked of
/// the library itself (make_hugging_face_tables.py).
enum HuggingFaceClass : std::uint8_t {
  kWordCharacter = 1,    ///< \w of its pre-tokenizer "Whitespace" and of single_word
  kPunctuationMark = 2,  ///< of "Punctuation" and "BertPreTokenizer"
  kNumeric = 4,          ///< of "Digits"
  kCombining = 8,        ///< removed by "StripAccents"
  kNonSpacing = 16,      ///< removed by "BertNormalizer" with strip_accents
  kControl = 32,         ///< removed by "BertNormalizer" with clean_text
  kExtends = 64,         ///< belongs to the grapheme before it
  kPrepends = 128,       ///< belongs to the grapheme after it
};

std::uint8_t hugging_face_class(std::uint32_t code);

/// Number of the script, where Hiragana, Katakana and Han are one; 0 for characters that go with any.
std::uint8_t hugging_face_script(std::uint32_t code);

}  // namespace quern::tokenizers::detail
