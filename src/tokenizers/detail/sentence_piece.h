#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tokenizers/tokenizer.h"

namespace quern::tokenizers::detail {

/// What a SentencePiece model says beside its pieces.
struct SentencePieceRules {
  bool unigram = true;  ///< Else BPE.
  bool dummy_prefix = true, remove_extra_whitespaces = true, escape_whitespaces = true, whitespace_as_suffix = false;
  bool byte_fallback = false;
  std::string_view charsmap = {};            ///< precompiled_charsmap; empty: none.
  std::string unknown_surface = " \u2047 ";  ///< How the unknown token is shown.
};

/// Text as the library encodes and decodes it, but that control tokens may be parsed and are shown where the caller asks for it.
/// `spec`: pieces, scores, types. Errors: data_corrupt.
std::unique_ptr<Tokenizer> make_sentence_piece(const Spec& spec, const SentencePieceRules& rules);

/// A .model file, a serialised ModelProto. Errors: data_corrupt, unsupported (word and character models).
std::unique_ptr<Tokenizer> read_sentence_piece_file(std::string_view bytes, Spec spec);

}  // namespace quern::tokenizers::detail
