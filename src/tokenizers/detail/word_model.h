#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizers/detail/merge_reader.h"
#include "tokenizers/detail/merges.h"
#include "tokenizers/detail/piece_cutter.h"
#include "tokenizers/detail/strings.h"
#include "tokenizers/detail/token_index.h"

namespace quern::tokenizers::detail {

/// The tokens of a model by id; ids that no token has are empty.
class Vocabulary {
 public:
  Vocabulary() : index_(0) {}
  /// `tokens` by id. Ids without a token, by `present`, are not found; nor is any before index(), which
  /// `indexed` calls.
  Vocabulary(std::span<const std::string_view> tokens, std::vector<bool> present, bool indexed = true);

  std::size_t size() const { return texts_.size(); }
  std::size_t count() const { return count_; }
  std::string_view operator[](std::size_t id) const { return texts_[id]; }
  bool has(std::size_t id) const { return id < size() && present_[id]; }
  std::int32_t find(std::string_view text) const { return index_.find(text, texts_); }
  /// For at most `most` merges; calls index().
  MergeReader merge_reader(std::size_t most) {
    return {texts_, index_, present_, most, [this] { index(); }};
  }
  /// Lets find() find the tokens.
  void index();
  /// Makes the tokens the bytes that they spell as GPT-2 does; false, with nothing changed, where one does not.
  bool to_bytes();

 private:
  Strings texts_;
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
