#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizers/detail/merges.h"
#include "tokenizers/detail/pre_tokenizer.h"
#include "tokenizers/detail/scratch_pool.h"
#include "tokenizers/detail/token_index.h"
#include "tokenizers/detail/word_cache.h"
#include "tokenizers/tokenizer.h"

namespace quern::tokenizers::detail {

/// What the models with a list of merges share: words of a pre-tokenizer, tokens by their bytes, merges by rank, and a cache of words.
/// A model fills token_bytes_ and index_, calls read_merges(), and says what a word's first symbols are.
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

  /// The bytes that a token's text stands for. False, with nothing appended, when it stands for none.
  virtual bool append_bytes(std::string_view text, std::string& out) const = 0;
  /// Appends the symbols that the merging of a word begins with.
  virtual void begin_word(std::string_view word, std::vector<Symbol>& symbols) const = 0;
  /// Appends the tokens of merged symbols.
  virtual void end_word(const std::vector<Symbol>& symbols, std::vector<Id>& ids) const = 0;

  /// Indexes tokens by token_bytes_: `found` says which; cleared for those that have the bytes of a later one.
  void index_tokens(std::vector<bool>& found);
  /// Errors: data_corrupt, resource_exhausted.
  void read_merges(const Spec& spec, const std::vector<bool>& found);
  Id find(std::string_view bytes) const { return index_.find(bytes, token_bytes_); }

  void encode_text(std::string_view text, std::vector<Id>& ids) const override;
  /// Words are cut by one thread and merged by all.
  void encode_text_parallel(std::string_view text, unsigned threads, std::vector<Id>& ids) const override;
  void encode_word(std::string_view word, Scratch& scratch, IdSink& ids) const;

  /// Of a merge; all -1: one that is skipped.
  struct Resolved {
    Id left = -1, right = -1, product = -1;
  };
  /// Looks up some merges, the first of which has rank `first_rank`. By several threads at a time.
  void resolve(std::span<const std::string_view> merges, std::size_t first_rank, const std::vector<bool>& found,
               std::span<Resolved> out) const;

  PreTokenizer pre_tokenizer_;
  bool ignore_merges_;
  TokenIndex index_;  // by token_bytes_
  MergeTable merges_;
  mutable ScratchPool<Scratch> scratch_;
};

}  // namespace quern::tokenizers::detail
