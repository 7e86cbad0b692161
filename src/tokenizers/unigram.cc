// SentencePiece's Unigram as GGUF's "t5" model has it (T5, XLM-R and the embedding models after it).
#include <algorithm>

#include "tokenizers/detail/sentence_piece.h"
#include "tokenizers/models.h"

namespace quern::tokenizers {

std::unique_ptr<Tokenizer> make_unigram(const Spec& spec) {
  const auto byte = static_cast<std::int32_t>(TokenType::byte);
  Spec own = spec;
  if (own.special.unk < 0) own.special.unk = 2;  // T5's, where the file does not say
  return detail::make_sentence_piece(own, {.unigram = true,
                                           .dummy_prefix = spec.add_space_prefix.value_or(true),
                                           .remove_extra_whitespaces = spec.remove_extra_whitespaces,
                                           .byte_fallback = std::count(spec.types.begin(), spec.types.end(), byte) == 256,
                                           .charsmap = spec.precompiled_charsmap});
}

}  // namespace quern::tokenizers
