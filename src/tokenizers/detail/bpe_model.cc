// BPE as tokenizer.json has it. Source: Neural machine translation of rare words with subword units, Sennrich et al. 2016.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "tokenizers/detail/joins.h"
#include "tokenizers/detail/scratch_pool.h"
#include "tokenizers/detail/utf8.h"
#include "tokenizers/detail/word_cache.h"
#include "tokenizers/detail/word_model.h"

namespace quern::tokenizers::detail {
namespace {

using Id = std::int32_t;

class BpeModel final : public WordModel {
 public:
  BpeModel(Vocabulary vocabulary, MergeTable merges, const BpeOptions& options)
      : vocabulary_(std::move(vocabulary)), merges_(std::move(merges)), options_(options) {
    if (!options.unknown.empty()) unknown_ = vocabulary_.find(options.unknown);
    std::size_t found = 0;
    for (std::size_t b = 0; b < 256; ++b) {
      const char byte = static_cast<char>(b);
      bytes_[b] = options.bytes           ? vocabulary_.find(std::string_view(&byte, 1))
                  : options.byte_fallback ? vocabulary_.find(fmt::format("<0x{:02X}>", b))
                                          : -1;
      found += bytes_[b] >= 0;
    }
    for (std::size_t c = 0; c < ascii_.size(); ++c) {
      const char character = static_cast<char>(c);
      ascii_[c] = vocabulary_.find(std::string_view(&character, 1));
    }
    // A character that is left out brings its neighbours together, so there a cut would change what merges.
    cuts_ =
        !options.bytes && options.prefix.empty() && options.suffix.empty() && (found == 256 || (found == 0 && !options.unknown.empty()));
    // Nor where merges begin with what is no character's token.
    const auto is_half = [this](Id id) { return id >= 0 && merges_.is_half(id); };
    cuts_ = cuts_ && !is_half(unknown_) && !is_half(vocabulary_.find("")) && std::none_of(bytes_.begin(), bytes_.end(), is_half);
    for (std::size_t id = 0; id < vocabulary_.size() && cuts_; ++id)
      if (const std::string_view token = vocabulary_[id]; !token.empty()) joins_.add(token);
  }

  void encode(std::string_view text, std::span<const PieceCutter::Piece> pieces, std::vector<Id>& ids) const override {
    const ScratchPool<Scratch>::Lease scratch(scratch_);
    for (const PieceCutter::Piece piece : pieces) encode_piece(text.substr(piece.begin, piece.end - piece.begin), *scratch, ids);
  }

 private:
  struct Scratch {
    std::vector<Id> symbols;
    std::string buffer;
    Merger merger;
    WordCache cache;

    void trim() {
      constexpr std::size_t kKept = 1 << 20;
      merger.trim();
      if (symbols.capacity() > kKept) symbols = {};
    }
  };

  void encode_piece(std::string_view piece, Scratch& scratch, std::vector<Id>& ids) const {
    if (options_.bytes && piece.size() == 1) {
      if (const Id id = bytes_[static_cast<unsigned char>(piece[0])]; id >= 0) ids.push_back(id);
      return;
    }
    if (!cuts_ || piece.size() <= WordCache::kMaxBytes) return encode_word(piece, ids.size(), scratch, ids);
    if (options_.ignore_merges) {
      if (const Id id = vocabulary_.find(piece); id >= 0) return ids.push_back(id);
    }
    // Nothing merges across a boundary that joins_ lacks, so the parts between them merge alone.
    const std::size_t first = ids.size();
    for (std::size_t begin = 0; begin < piece.size();) {
      const std::size_t end = joins_.piece_end(piece, begin);
      encode_word(piece.substr(begin, end - begin), first, scratch, ids);
      begin = end;
    }
  }

  // `first`: where the ids of the piece begin, of which the word is a part.
  void encode_word(std::string_view word, std::size_t first, Scratch& scratch, std::vector<Id>& ids) const {
    auto made = scratch.cache.ids_of(word, scratch.symbols, [&](std::vector<Id>& symbols) {
      if (const Id whole = options_.ignore_merges ? vocabulary_.find(word) : -1; whole >= 0) {
        symbols.push_back(whole);
        return;
      }
      options_.bytes ? add_bytes(word, symbols) : add_characters(word, scratch);
      scratch.merger.run(merges_, symbols);
    });
    // What is unknown is one token, however long.
    if (options_.fuse_unknown && ids.size() > first && !made.empty() && made[0] == unknown_ && ids.back() == unknown_)
      made = made.subspan(1);
    ids.insert(ids.end(), made.begin(), made.end());
  }

  void add_bytes(std::string_view word, std::vector<Id>& symbols) const {
    for (const char c : word) {  // a byte that the vocabulary lacks is left out, as the library does
      if (const Id id = bytes_[static_cast<unsigned char>(c)]; id >= 0) symbols.push_back(id);
    }
  }

  void add_characters(std::string_view word, Scratch& scratch) const {
    std::vector<Id>& symbols = scratch.symbols;
    bool pending = false;  // an unknown token that has not been added: later ones join it
    const bool plain = options_.prefix.empty() && options_.suffix.empty();
    for (std::size_t at = 0; at < word.size();) {
      const std::size_t end = at + character_length(word[at]);
      std::string_view character = word.substr(at, end - at);
      if (!plain) {
        scratch.buffer.clear();
        if (at > 0) scratch.buffer += options_.prefix;
        scratch.buffer += character;
        if (end == word.size()) scratch.buffer += options_.suffix;
        character = scratch.buffer;
      }
      at = end;
      const Id id = plain && character.size() == 1 ? ascii_[static_cast<unsigned char>(character[0])] : vocabulary_.find(character);
      if (id >= 0) {
        if (std::exchange(pending, false)) symbols.push_back(unknown_);
        symbols.push_back(id);
        continue;
      }
      const auto byte_id = [&](char byte) { return bytes_[static_cast<unsigned char>(byte)]; };
      if (options_.byte_fallback && std::all_of(character.begin(), character.end(), [&](char byte) { return byte_id(byte) >= 0; })) {
        for (const char byte : character) symbols.push_back(byte_id(byte));
        continue;
      }
      if (options_.unknown.empty()) continue;
      if (unknown_ < 0) throw Error(Code::data_corrupt, fmt::format("the unknown token '{}' is not in the vocabulary", options_.unknown));
      if (pending && !options_.fuse_unknown) symbols.push_back(unknown_);
      pending = true;
    }
    if (pending) symbols.push_back(unknown_);
  }

  Vocabulary vocabulary_;
  MergeTable merges_;
  BpeOptions options_;
  Id unknown_ = -1;
  bool cuts_ = false;          // long pieces may be cut where nothing merges
  std::array<Id, 256> bytes_;  // of bytes: their tokens, or those that characters without one fall back to
  std::array<Id, 128> ascii_;
  Joins joins_;
  mutable ScratchPool<Scratch> scratch_;
};

}  // namespace

std::unique_ptr<WordModel> make_bpe_model(Vocabulary vocabulary, MergeTable merges, const BpeOptions& options) {
  return std::make_unique<BpeModel>(std::move(vocabulary), std::move(merges), options);
}

}  // namespace quern::tokenizers::detail
