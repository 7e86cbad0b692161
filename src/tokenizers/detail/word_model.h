#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizers/detail/merges.h"
#include "tokenizers/detail/piece_cutter.h"
#include "tokenizers/detail/token_index.h"

namespace quern::tokenizers::detail {

/// The tokens of a model by id; ids that no token has are empty.
class Vocabulary {
 public:
  Vocabulary() : index_(0) {}
  /// `tokens` by id. Ids without a token, by `present`, are not found.
  Vocabulary(std::span<const std::string_view> tokens, const std::vector<bool>& present);

  std::size_t size() const { return ends_.size(); }
  std::size_t count() const { return count_; }
  std::string_view operator[](std::size_t id) const {
    const std::uint32_t begin = id ? ends_[id - 1] : 0;
    return std::string_view(bytes_).substr(begin, ends_[id] - begin);
  }
  bool has(std::size_t id) const { return id < size() && present_[id]; }
  std::int32_t find(std::string_view text) const { return index_.find(text, *this); }
  // For many at a time: prefetch() gives the hash for the others, which are called one after the other for all of them.
  std::size_t prefetch(std::string_view text) const {
    const std::size_t hash = TokenIndex::hash_of(text);
    index_.prefetch(hash);
    return hash;
  }
  void prefetch_end(std::size_t hash) const {
    if (const std::int32_t id = index_.guess(hash); id >= 0) __builtin_prefetch(&ends_[static_cast<std::size_t>(id)]);
  }
  void prefetch_bytes(std::size_t hash) const {
    if (const std::int32_t id = index_.guess(hash); id >= 0) __builtin_prefetch((*this)[static_cast<std::size_t>(id)].data());
  }
  std::int32_t find(std::string_view text, std::size_t hash) const { return index_.find(text, hash, *this); }
  /// Whether every token is in GPT-2's spelling of bytes; and makes them those bytes.
  bool spells_bytes() const;
  void to_bytes();

 private:
  void index();

  std::string bytes_;
  std::vector<std::uint32_t> ends_;
  std::vector<bool> present_;
  std::size_t count_ = 0;
  TokenIndex index_;
};

/// Turns words into tokens. Immutable; any number of threads may encode at once.
class WordModel {
 public:
  virtual ~WordModel();
  /// Appends the ids of the pieces, each on its own.
  virtual void encode(std::string_view text, std::span<const PieceCutter::Piece> pieces, std::vector<std::int32_t>& ids) const = 0;
};

struct BpeOptions {
  bool bytes = false;  ///< Words are bytes, and tokens too: the vocabulary is one after to_bytes().
  bool fuse_unknown = false, byte_fallback = false, ignore_merges = false;
  std::string unknown = {}, prefix = {}, suffix = {};  ///< Empty: none.
};
/// Errors: data_corrupt (an unknown token that is not in the vocabulary).
std::unique_ptr<WordModel> make_bpe_model(Vocabulary vocabulary, MergeTable merges, const BpeOptions& options);

struct ScoredBpeOptions {
  bool bytes = false;  ///< Words and tokens are bytes, all 256 of them tokens; a word that is a token is that token.
  std::int32_t unknown = -1;
  bool byte_fallback = false;
  std::vector<std::int32_t> hidden = {};  ///< Tokens that text does not become.
  std::vector<std::int32_t> whole = {};   ///< Tokens that are taken first, the longest at each place, and merge with nothing.
};
/// `ranks` by id, the most urgent lowest.
std::unique_ptr<WordModel> make_scored_bpe_model(Vocabulary vocabulary, std::vector<std::uint32_t> ranks, ScoredBpeOptions options);
/// The higher the score, the lower the rank.
std::vector<std::uint32_t> ranks_of(std::span<const double> scores);

struct WordPieceOptions {
  std::string unknown = "[UNK]", prefix = "##";
  std::size_t max_characters = 100;
};
/// Errors: data_corrupt (an unknown token that is not in the vocabulary).
std::unique_ptr<WordModel> make_word_piece_model(Vocabulary vocabulary, const WordPieceOptions& options);
/// Whole words, others are `unknown`. Errors: as make_word_piece_model.
std::unique_ptr<WordModel> make_word_level_model(Vocabulary vocabulary, const std::string& unknown);

struct UnigramOptions {
  std::int32_t unknown = -1;
  bool byte_fallback = false;
  bool single_precision = false;  ///< Sums of scores are float, as SentencePiece has them, not double.
  double unknown_score = 0;
  std::vector<std::int32_t> hidden = {};  ///< Tokens that text does not become.
};
/// `scores` by id. Errors: data_corrupt.
std::unique_ptr<WordModel> make_unigram_model(Vocabulary vocabulary, std::vector<double> scores, UnigramOptions options);

}  // namespace quern::tokenizers::detail
