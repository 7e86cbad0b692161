// WordPiece: the longest token that a word begins with, then the longest continuing one, and so on; a word that does not come out is
// unknown. Source: Japanese and Korean voice search, Schuster and Nakajima 2012; BERT, Devlin et al. 2018.
#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "tokenizers/detail/double_array.h"
#include "tokenizers/detail/utf8.h"
#include "tokenizers/detail/word_model.h"

namespace quern::tokenizers::detail {
namespace {

using Id = std::int32_t;

DoubleArray trie_of(const Vocabulary& vocabulary) {
  PageVector<DoubleArray::Key> keys;
  keys.reserve(vocabulary.size());
  for (std::size_t id = 0; id < vocabulary.size(); ++id)
    if (vocabulary.has(id)) keys.emplace_back(vocabulary[id], static_cast<Id>(id));
  return DoubleArray(std::move(keys));
}

class WordPieceModel final : public WordModel {
 public:
  WordPieceModel(const Vocabulary& vocabulary, const WordPieceOptions& options) : trie_(trie_of(vocabulary)), options_(options) {
    unknown_ = trie_.find(options.unknown);
    continues_ = trie_.walk(continuing_, options.prefix);
  }

  void encode(std::string_view text, std::span<const PieceCutter::Piece> pieces, std::vector<Id>& ids) const override {
    for (const PieceCutter::Piece piece : pieces) {
      const std::size_t first = ids.size();
      if (encode_word(text.substr(piece.begin, piece.end - piece.begin), ids)) continue;
      ids.resize(first);
      if (unknown_ < 0) throw Error(Code::data_corrupt, fmt::format("the unknown token '{}' is not in the vocabulary", options_.unknown));
      ids.push_back(unknown_);
    }
  }

 private:
  bool encode_word(std::string_view word, std::vector<Id>& ids) const {
    std::size_t characters = 0;
    for (const char c : word) characters += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    if (characters > options_.max_characters) return false;
    for (std::size_t begin = 0; begin < word.size();) {
      if (begin > 0 && !continues_) return false;
      std::uint32_t node = begin > 0 ? continuing_ : DoubleArray::kRoot;
      Id best = -1;
      std::size_t end = begin;
      for (std::size_t at = begin; at < word.size() && trie_.step(node, word[at]);) {
        ++at;
        const bool whole = at == word.size() || (static_cast<unsigned char>(word[at]) & 0xC0) != 0x80;
        if (whole && trie_.value(node) >= 0) best = trie_.value(node), end = at;
      }
      if (best < 0) return false;
      ids.push_back(best);
      begin = end;
    }
    return true;
  }

  DoubleArray trie_;
  WordPieceOptions options_;
  Id unknown_ = -1;
  std::uint32_t continuing_ = DoubleArray::kRoot;  // where continuing tokens begin
  bool continues_ = false;                         // there are some
};

class WordLevelModel final : public WordModel {
 public:
  WordLevelModel(Vocabulary vocabulary, const std::string& unknown)
      : vocabulary_(std::move(vocabulary)), unknown_(vocabulary_.find(unknown)) {}

  void encode(std::string_view text, std::span<const PieceCutter::Piece> pieces, std::vector<Id>& ids) const override {
    for (const PieceCutter::Piece piece : pieces) {
      Id id = vocabulary_.find(text.substr(piece.begin, piece.end - piece.begin));
      if (id < 0) id = unknown_;
      if (id < 0) throw Error(Code::data_corrupt, "the text has a word that is no token, and the vocabulary no unknown token");
      ids.push_back(id);
    }
  }

 private:
  Vocabulary vocabulary_;
  Id unknown_;
};

}  // namespace

std::unique_ptr<WordModel> make_word_piece_model(Vocabulary vocabulary, const WordPieceOptions& options) {
  return std::make_unique<WordPieceModel>(vocabulary, options);
}

std::unique_ptr<WordModel> make_word_level_model(Vocabulary vocabulary, const std::string& unknown) {
  return std::make_unique<WordLevelModel>(std::move(vocabulary), unknown);
}

}  // namespace quern::tokenizers::detail
