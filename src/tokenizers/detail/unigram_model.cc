// Unigram: of all ways to cut a word into tokens the one with the highest sum of scores, by the Viterbi algorithm. Source: Subword
// regularization, Kudo 2018.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "tokenizers/detail/double_array.h"
#include "tokenizers/detail/joins.h"
#include "tokenizers/detail/scratch_pool.h"
#include "tokenizers/detail/utf8.h"
#include "tokenizers/detail/word_cache.h"
#include "tokenizers/detail/word_model.h"

namespace quern::tokenizers::detail {
namespace {

using Id = std::int32_t;

constexpr std::size_t kMaxToken = 4096;  // longer tokens are not looked for, so that a text takes linear time

/// `Sum`: float or double, what sums of scores are kept in.
template <class Sum>
class UnigramModel final : public WordModel {
 public:
  UnigramModel(const Vocabulary& vocabulary, std::vector<double> scores, const UnigramOptions& options)
      : scores_(std::move(scores)), unknown_(options.unknown), unknown_score_(static_cast<Sum>(options.unknown_score)) {
    PageVector<DoubleArray::Key> keys;
    keys.reserve(vocabulary.size());
    std::vector<bool> hidden(vocabulary.size());
    for (const Id id : options.hidden)
      if (static_cast<std::size_t>(id) < hidden.size()) hidden[static_cast<std::size_t>(id)] = true;
    for (std::size_t id = 0; id < vocabulary.size(); ++id) {
      const std::string_view text = vocabulary[id];
      if (!vocabulary.has(id) || hidden[id] || text.empty() || text.size() > kMaxToken) continue;
      keys.emplace_back(text, static_cast<Id>(id));
      joins_.add(text);
    }
    trie_ = DoubleArray(std::move(keys));
    falls_back_ = options.byte_fallback;
    for (std::size_t b = 0; b < 256 && falls_back_; ++b) bytes_[b] = vocabulary.find(fmt::format("<0x{:02X}>", b));
  }

  void encode(std::string_view text, std::span<const PieceCutter::Piece> pieces, std::vector<Id>& ids) const override {
    const typename ScratchPool<Scratch>::Lease scratch(scratch_);
    for (const PieceCutter::Piece piece : pieces) {
      const std::string_view word = text.substr(piece.begin, piece.end - piece.begin);
      const auto known = scratch->cache.ids_of(word, scratch->made, [&](std::vector<Id>& made) { encode_word(word, *scratch, made); });
      ids.insert(ids.end(), known.begin(), known.end());
    }
  }

 private:
  /// The best way to cut the text up to a place.
  struct Node {
    Sum sum;
    std::uint32_t length;  // of its last token; 0: none yet
    Id id;
  };
  struct Scratch {
    std::vector<Node> nodes;
    std::vector<Id> made, path;
    WordCache cache;

    void trim() {
      constexpr std::size_t kKept = 1 << 16;
      if (nodes.capacity() > kKept) nodes = {};
      if (made.capacity() > kKept) made = {};
      if (path.capacity() > kKept) path = {};
    }
  };

  void encode_word(std::string_view word, Scratch& scratch, std::vector<Id>& ids) const {
    std::vector<Node>& nodes = scratch.nodes;
    nodes.clear();
    nodes.push_back({0, 0, -1});
    std::size_t origin = 0;        // place that nodes[0] stands for: every way goes through it
    std::size_t unknown_from = 0;  // start of the unknown characters before `origin`
    for (std::size_t at = 0; at < word.size();) {
      const std::size_t mine = at - origin;
      if (sizeof(Sum) == sizeof(float)) rebase(nodes, mine);
      const Sum sum = nodes[mine].sum;
      const std::size_t width = character_length(word[at]);
      bool single = false;
      std::uint32_t node = DoubleArray::kRoot;
      for (std::size_t end = at; end < word.size() && trie_.step(node, word[end]);) {
        ++end;
        const Id id = trie_.value(node);
        if (id < 0) continue;
        single = single || end - at == width;
        offer(nodes, end - origin, static_cast<Sum>(scores_[static_cast<std::size_t>(id)]) + sum, end - at, id);
      }
      if (!single) {
        if (unknown_ < 0) throw Error(Code::data_corrupt, "the text has a character that is no token, and the vocabulary no unknown token");
        offer(nodes, mine + width, unknown_score_ + sum, width, unknown_);
      }
      at += width;
      // No token reaches across here: what is before is settled, and its nodes are no more needed.
      if (at == word.size() || !joins_.joins(word[at - 1], word[at])) {
        const Sum settled = nodes[at - origin].sum;
        flush(word, origin, at, unknown_from, scratch, ids);
        nodes.clear();
        nodes.push_back({settled, 0, -1});
        origin = at;
      }
    }
    end_unknown(word, unknown_from, word.size(), ids);
  }

  /// Sums of float lose what they add when they are large: the library starts them anew then.
  static void rebase(std::vector<Node>& nodes, std::size_t from) {
    const Sum offset = nodes[from].sum;
    if (std::abs(offset) <= 100'000) return;
    for (std::size_t i = from; i < nodes.size(); ++i)
      if (i == from || nodes[i].length != 0) nodes[i].sum -= offset;
  }

  static void offer(std::vector<Node>& nodes, std::size_t at, Sum sum, std::size_t length, Id id) {
    if (at >= nodes.size()) nodes.resize(at + 1, {0, 0, -1});
    if (nodes[at].length != 0 && !(sum > nodes[at].sum)) return;
    nodes[at] = {sum, static_cast<std::uint32_t>(length), id};
  }

  void flush(std::string_view word, std::size_t origin, std::size_t end, std::size_t& unknown_from, Scratch& scratch,
             std::vector<Id>& ids) const {
    const std::vector<Node>& nodes = scratch.nodes;
    std::vector<Id>& path = scratch.path;  // places where the tokens of the best way end, from back to front
    path.clear();
    for (std::size_t at = end - origin; at > 0; at -= nodes[at].length) path.push_back(static_cast<Id>(at));
    std::size_t begin = origin;
    for (auto it = path.rbegin(); it != path.rend(); ++it) {
      const std::size_t token_end = origin + static_cast<std::size_t>(*it);
      const Id id = nodes[static_cast<std::size_t>(*it)].id;
      if (id != unknown_) {
        end_unknown(word, unknown_from, begin, ids);
        ids.push_back(id);
        unknown_from = token_end;
      }
      begin = token_end;
    }
  }

  /// Unknown characters in a row are one token, or their bytes.
  void end_unknown(std::string_view word, std::size_t begin, std::size_t end, std::vector<Id>& ids) const {
    if (begin == end) return;
    const std::string_view text = word.substr(begin, end - begin);
    if (const Id id = trie_.find(text); id >= 0) return ids.push_back(id);  // the unknown token's own text
    const auto byte_id = [&](char byte) { return bytes_[static_cast<unsigned char>(byte)]; };
    if (falls_back_ && std::all_of(text.begin(), text.end(), [&](char byte) { return byte_id(byte) >= 0; })) {
      for (const char byte : text) ids.push_back(byte_id(byte));
    } else {
      ids.push_back(unknown_);
    }
  }

  DoubleArray trie_;
  std::vector<double> scores_;
  Id unknown_;
  Sum unknown_score_;
  bool falls_back_ = false;
  std::array<Id, 256> bytes_{};
  Joins joins_;
  mutable ScratchPool<Scratch> scratch_;
};

}  // namespace

std::unique_ptr<WordModel> make_unigram_model(Vocabulary vocabulary, std::vector<double> scores, UnigramOptions options) {
  if (scores.size() != vocabulary.size())
    throw Error(Code::data_corrupt, fmt::format("the vocabulary has {} tokens but {} scores", vocabulary.size(), scores.size()));
  if (!std::all_of(scores.begin(), scores.end(), [](double score) { return std::isfinite(score); }))
    throw Error(Code::data_corrupt, "a token's score is not a number");
  if (options.unknown >= static_cast<std::int32_t>(vocabulary.size()))
    throw Error(Code::data_corrupt,
                fmt::format("the unknown token is {} where the vocabulary has {} tokens", options.unknown, vocabulary.size()));
  if (options.single_precision) return std::make_unique<UnigramModel<float>>(vocabulary, std::move(scores), options);
  return std::make_unique<UnigramModel<double>>(vocabulary, std::move(scores), options);
}

}  // namespace quern::tokenizers::detail
