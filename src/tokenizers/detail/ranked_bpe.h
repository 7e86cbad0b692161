#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizers/detail/merge_reader.h"
#include "tokenizers/detail/merges.h"
#include "tokenizers/detail/pre_tokenizer.h"
#include "tokenizers/detail/scratch_pool.h"
#include "tokenizers/detail/token_index.h"
#include "tokenizers/detail/word_cache.h"
#include "tokenizers/tokenizer.h"

namespace quern::tokenizers::detail {

/// What the models with a list of merges share: words of a pre-tokenizer, tokens by their bytes, merges by rank, and a cache of words.
/// A model calls read_vocabulary(), and says what tokens stand for and what a word's first symbols are.
class RankedBpe : public Tokenizer {
 protected:
  RankedBpe(const Spec& spec, const PreTokenizerRow& row);

  /// While a word is merged: a token, or below 0 what is none.
  using Symbol = Id;

  // What one call of encode_text works with; kept for the next one.
  struct Scratch {
    Ends words, other;
    std::vector<Symbol> symbols;
    std::vector<Id> ids;
    std::string text;
    Merger merger;
    WordCache cache;
    void trim();
  };

  /// Appends the bytes of text that an ordinary token stands for; false: there is no such text.
  virtual bool append_bytes(std::size_t id, std::string& out) = 0;
  /// Appends the symbols that the merging of a word begins with.
  virtual void begin_word(std::string_view word, std::vector<Symbol>& symbols) const = 0;
  /// Appends the tokens of merged symbols.
  virtual void end_word(const std::vector<Symbol>& symbols, std::vector<Id>& ids) const = 0;

  /// Fills token_bytes_, index_, merges_ and, with the tokens of type byte, byte_ids_. Errors: data_corrupt, resource_exhausted.
  void read_vocabulary(const Spec& spec);
  Id find(std::string_view bytes) const { return index_.find(bytes, token_bytes_); }

  void encode_text(std::string_view text, std::vector<Id>& ids) const override;
  /// Words are cut by one thread and merged by all.
  void encode_text_parallel(std::string_view text, unsigned threads, std::vector<Id>& ids) const override;
  void encode_word(std::string_view word, Scratch& scratch, IdSink& ids) const;

  PreTokenizer pre_tokenizer_;
  bool ignore_merges_, composes_;
  std::array<Id, 256> byte_ids_;
  TokenIndex index_;  // by token_bytes_
  MergeTable merges_;
  mutable ScratchPool<Scratch> scratch_;

 private:
  /// The text in the form in which it is cut; valid until the scratch is used again.
  std::string_view composed(std::string_view text, Scratch& scratch) const;
  /// Returns which tokens text may become.
  std::vector<bool> read_tokens();
  PageVector<ResolvedMerge> read_merges(const Spec& spec, const TokenIndex& spelled, const std::vector<bool>& found);
};

}  // namespace quern::tokenizers::detail
