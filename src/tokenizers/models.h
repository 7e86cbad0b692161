#pragma once

#include <memory>

#include "tokenizers/tokenizer.h"

namespace quern::tokenizers {

/// Byte-level BPE (GPT-2 and after): text is cut into words by the pre-tokenizer, a word's bytes are merged by rank.
/// Errors: as make_tokenizer.
std::unique_ptr<Tokenizer> make_byte_level_bpe(const Spec& spec);

/// BPE over characters by a list of merges (Gemma 4); a character without a token becomes byte tokens. Errors: as make_tokenizer.
std::unique_ptr<Tokenizer> make_character_bpe(const Spec& spec);

/// SentencePiece's BPE (Llama 1 and 2, Mistral, Gemma): characters are merged by the score of what they become; a character without a
/// token becomes byte tokens. Errors: as make_tokenizer.
std::unique_ptr<Tokenizer> make_sentence_piece_bpe(const Spec& spec);

/// SentencePiece's Unigram (T5, XLM-R): the cut of a text with the highest sum of scores. Errors: as make_tokenizer.
std::unique_ptr<Tokenizer> make_unigram(const Spec& spec);

/// WordPiece (BERT): words by white space and punctuation, each the longest tokens from its front. Errors: as make_tokenizer.
std::unique_ptr<Tokenizer> make_word_piece(const Spec& spec);

/// RWKV: the longest token at each place. Errors: as make_tokenizer.
std::unique_ptr<Tokenizer> make_rwkv(const Spec& spec);

}  // namespace quern::tokenizers
