// BPE in which two symbols merge where their joint text is a token, the most urgent token first, whatever the symbols: SentencePiece's, and
// that of tiktoken. Source: SentencePiece, Kudo and Richardson 2018.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "tokenizers/detail/double_array.h"
#include "tokenizers/detail/joins.h"
#include "tokenizers/detail/scratch_pool.h"
#include "tokenizers/detail/utf8.h"
#include "tokenizers/detail/word_cache.h"
#include "tokenizers/detail/word_model.h"

namespace quern::tokenizers::detail {
namespace {

using Id = std::int32_t;

constexpr std::size_t kMaxMerged = 1024;  // longer tokens are not merged to, so that looking one up has a bound

class ScoredBpeModel final : public WordModel {
 public:
  /// While a word is merged: a token, or, below 0, -1 - the code point of a character that is no token.
  using Symbol = Id;

  ScoredBpeModel(Vocabulary vocabulary, std::vector<std::uint32_t> ranks, const ScoredBpeOptions& options)
      : vocabulary_(std::move(vocabulary)),
        ranks_(std::move(ranks)),
        unknown_(options.unknown),
        bytes_mode_(options.bytes),
        kinds_(vocabulary_.size()) {
    for (const Id id : options.hidden) kinds_[static_cast<std::size_t>(id)] = Kind::hidden;
    for (const Id id : options.whole) kinds_[static_cast<std::size_t>(id)] = Kind::whole;
    PageVector<DoubleArray::Key> whole;
    for (const Id id : options.whole) whole.emplace_back(vocabulary_[static_cast<std::size_t>(id)], id);
    has_whole_ = !whole.empty();
    whole_ = DoubleArray(std::move(whole));
    for (std::size_t id = 0; id < vocabulary_.size(); ++id) {
      const std::string_view text = vocabulary_[id];
      if (kinds_[id] == Kind::hidden || text.size() > kMaxMerged) continue;
      longest_ = std::max(longest_, text.size());
      if (!bytes_mode_ && !text.empty()) joins_.add(text);
    }
    for (std::size_t b = 0; b < 256; ++b) {
      const char byte = static_cast<char>(b);
      constexpr std::string_view kHex = "0123456789ABCDEF";
      const char spelled[] = {'<', '0', 'x', kHex[b >> 4], kHex[b & 15], '>'};
      bytes_[b] = vocabulary_.find(bytes_mode_ ? std::string_view(&byte, 1) : std::string_view(spelled, 6));
    }
    falls_back_ = options.byte_fallback && std::find(bytes_.begin(), bytes_.end(), -1) == bytes_.end();
    for (std::size_t c = 0; c < ascii_.size(); ++c) {
      const char character = static_cast<char>(c);
      ascii_[c] = symbol_of(std::string_view(&character, 1));
    }
  }

  void encode(std::string_view text, std::span<const PieceCutter::Piece> pieces, std::vector<Id>& ids) const override {
    const ScratchPool<Scratch>::Lease scratch(scratch_);
    if (bytes_mode_) {
      IdSink sink(ids);
      for (const PieceCutter::Piece piece : pieces) sink.append(encode_word(text.substr(piece.begin, piece.end - piece.begin), *scratch));
      return;
    }
    for (const PieceCutter::Piece piece : pieces) encode_piece(text.substr(piece.begin, piece.end - piece.begin), *scratch, ids);
  }

 private:
  enum class Kind : std::uint8_t { normal, hidden, whole };

  struct Scratch {
    std::vector<Symbol> symbols;
    std::vector<Id> ids;
    Merger merger;
    WordCache cache;

    void trim() {
      constexpr std::size_t kKept = 1 << 20;
      merger.trim();
      if (symbols.capacity() > kKept) symbols = {}, ids = {};
    }
  };

  Symbol symbol_of(std::string_view character) const {
    const Id id = vocabulary_.find(character);
    return id >= 0 && kinds_[static_cast<std::size_t>(id)] != Kind::hidden ? id : -1 - static_cast<Symbol>(code_point(character.data()));
  }

  /// Writes the bytes of a symbol where there is room for kMaxMerged of them.
  std::size_t put(Symbol symbol, char* out) const {
    if (symbol >= 0) {
      const std::string_view bytes = vocabulary_[static_cast<std::size_t>(symbol)];
      std::memcpy(out, bytes.data(), bytes.size());
      return bytes.size();
    }
    std::string bytes;  // of at most four bytes: on the stack
    append_code_point(static_cast<std::uint32_t>(-1 - symbol), bytes);
    std::memcpy(out, bytes.data(), bytes.size());
    return bytes.size();
  }

  /// For the merger.
  struct Merges {
    const ScoredBpeModel& owner;

    Merge find(Symbol left, Symbol right) const {
      const auto is_whole = [&](Symbol s) { return s >= 0 && owner.kinds_[static_cast<std::size_t>(s)] == Kind::whole; };
      if (owner.has_whole_ && (is_whole(left) || is_whole(right))) return {};
      char both[2 * kMaxMerged];
      std::size_t length = owner.put(left, both);
      length += owner.put(right, both + length);
      if (length > owner.longest_) return {};
      const Id product = owner.vocabulary_.find(std::string_view(both, length));
      if (product < 0 || owner.kinds_[static_cast<std::size_t>(product)] == Kind::hidden) return {};
      return {owner.ranks_[static_cast<std::size_t>(product)], product};
    }
    Id product(Merge merge) const { return merge.product; }
  };

  void encode_piece(std::string_view piece, Scratch& scratch, std::vector<Id>& ids) const {
    const std::size_t first = ids.size();
    // No token has characters on both sides of a boundary that joins_ lacks, so the words between them merge alone.
    for (std::size_t begin = 0; begin < piece.size();) {
      const std::size_t end = joins_.piece_end(piece, begin);
      const auto made = encode_word(piece.substr(begin, end - begin), scratch);
      ids.insert(ids.end(), made.begin(), made.end());
      begin = end;
    }
    if (falls_back_) return;  // else what is unknown is one token, however long
    const auto unknown = [this](Id a, Id b) { return a == b && a == unknown_; };
    ids.erase(std::unique(ids.begin() + static_cast<std::ptrdiff_t>(first), ids.end(), unknown), ids.end());
  }

  /// The ids are valid until the next call.
  std::span<const Id> encode_word(std::string_view word, Scratch& scratch) const {
    return scratch.cache.ids_of(word, scratch.ids, [&](std::vector<Id>& made) {
      std::vector<Symbol>& symbols = scratch.symbols;
      symbols.clear();
      if (const Id all = bytes_mode_ ? vocabulary_.find(word) : -1; all >= 0) return made.push_back(all);
      bytes_mode_ ? add_bytes(word, symbols) : add_characters(word, symbols);
      scratch.merger.run(Merges{*this}, symbols);
      for (const Symbol symbol : symbols)
        symbol >= 0 ? made.push_back(symbol) : append_fallback(static_cast<std::uint32_t>(-1 - symbol), made);
    });
  }

  void add_bytes(std::string_view word, std::vector<Symbol>& symbols) const {
    for (const char byte : word) symbols.push_back(bytes_[static_cast<unsigned char>(byte)]);
  }

  void add_characters(std::string_view word, std::vector<Symbol>& symbols) const {
    for (std::size_t at = 0; at < word.size();) {
      const std::size_t length = character_length(word[at]);
      std::size_t taken = 0;
      const Id whole = has_whole_ ? longest_whole(word.substr(at), taken) : -1;
      symbols.push_back(whole >= 0    ? whole
                        : length == 1 ? ascii_[static_cast<unsigned char>(word[at])]
                                      : symbol_of(word.substr(at, length)));
      at += whole >= 0 ? taken : length;
    }
  }

  Id longest_whole(std::string_view text, std::size_t& length) const {
    std::uint32_t node = DoubleArray::kRoot;
    Id best = -1;
    for (std::size_t at = 0; at < text.size() && whole_.step(node, text[at]);) {
      ++at;
      if (whole_.value(node) >= 0) best = whole_.value(node), length = at;
    }
    return best;
  }

  /// A character that is no token: its bytes, or the unknown token, or where there is none nothing.
  void append_fallback(std::uint32_t code, std::vector<Id>& ids) const {
    if (!falls_back_) {
      if (unknown_ >= 0) ids.push_back(unknown_);
      return;
    }
    std::string bytes;
    append_code_point(code, bytes);
    for (const char byte : bytes) ids.push_back(bytes_[static_cast<unsigned char>(byte)]);
  }

  Vocabulary vocabulary_;
  std::vector<std::uint32_t> ranks_;
  Id unknown_;
  bool bytes_mode_, falls_back_ = false, has_whole_ = false;
  std::vector<Kind> kinds_;
  DoubleArray whole_;
  std::size_t longest_ = 0;
  std::array<Id, 256> bytes_;
  std::array<Symbol, 128> ascii_;
  Joins joins_;
  mutable ScratchPool<Scratch> scratch_;
};

}  // namespace

std::vector<std::uint32_t> ranks_of(std::span<const double> scores) {
  std::vector<std::uint32_t> order(scores.size()), ranks(scores.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::uint32_t>(i);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return scores[a] > scores[b]; });
  std::uint32_t rank = 0;  // equal scores share one
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && scores[order[i]] != scores[order[i - 1]]) ++rank;
    ranks[order[i]] = rank;
  }
  return ranks;
}

std::unique_ptr<WordModel> make_scored_bpe_model(Vocabulary vocabulary, std::vector<std::uint32_t> ranks, ScoredBpeOptions options) {
  return std::make_unique<ScoredBpeModel>(std::move(vocabulary), std::move(ranks), options);
}

}  // namespace quern::tokenizers::detail
