// SentencePiece's BPE as GGUF's "llama" model has it: the text, spaces included, is one row of characters; neighbours merge into tokens,
// the highest score first. Sources: SentencePiece, Kudo and Richardson 2018; Neural machine translation of rare words, Sennrich et al.
// 2016.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "tokenizers/detail/byte_level.h"
#include "tokenizers/detail/joins.h"
#include "tokenizers/detail/merges.h"
#include "tokenizers/detail/scratch_pool.h"
#include "tokenizers/detail/token_index.h"
#include "tokenizers/detail/utf8.h"
#include "tokenizers/detail/word_cache.h"
#include "tokenizers/models.h"

namespace quern::tokenizers {
namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";
constexpr std::size_t kMaxMerged = 512;  // longer tokens are not merged to, so that looking one up has a bound

class SentencePieceBpe final : public Tokenizer {
 public:
  explicit SentencePieceBpe(const Spec& spec)
      : Tokenizer(spec, {.bos = 1, .eos = 2, .unk = 0}), squeeze_(spec.remove_extra_whitespaces), index_(spec.tokens.size()) {
    space_prefix_ = spec.add_space_prefix.value_or(true);
    set_default_bos(true);
    read_scores(spec);
    read_tokens();
  }

 private:
  /// While a word is merged: a token, or, below 0, -1 - the code point of a character that is no token.
  using Symbol = Id;

  struct Scratch {
    std::string text;
    std::vector<Symbol> symbols;
    std::vector<Id> ids;
    detail::Merger merger;
    detail::WordCache cache;

    void trim() {
      constexpr std::size_t kKept = 1 << 20;
      merger.trim();
      if (text.capacity() > kKept) text = {};
      if (symbols.capacity() > kKept) symbols = {}, ids = {};
    }
  };

  void read_scores(const Spec& spec) {
    if (!spec.scores.empty() && spec.scores.size() != size()) {
      throw Error(Code::data_corrupt, fmt::format("the vocabulary has {} tokens but {} scores", size(), spec.scores.size()));
    }
    for (std::size_t i = 0; i < spec.scores.size(); ++i) {
      if (std::isnan(spec.scores[i])) throw Error(Code::data_corrupt, fmt::format("the score of token {} is not a number", i));
    }
    // The higher the score, the lower the rank; one rank for equal ones.
    ranks_.assign(size(), 0);
    std::vector<std::uint64_t> order(spec.scores.size());  // score above id, so that they sort as numbers do
    for (std::size_t i = 0; i < order.size(); ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(spec.scores[i] + 0.0f);  // no negative zero
      order[i] = std::uint64_t{bits >> 31 ? bits : ~(bits | 1u << 31)} << 32 | i;
    }
    if (!std::is_sorted(order.begin(), order.end())) std::sort(order.begin(), order.end());
    std::uint32_t rank = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (i > 0 && order[i] >> 32 != order[i - 1] >> 32) ++rank;
      ranks_[static_cast<std::uint32_t>(order[i])] = rank;
    }
    if (rank >= detail::Merger::kMaxRank) throw Error(Code::resource_exhausted, "the vocabulary has more different scores than 2^26");
  }

  void read_tokens() {
    byte_ids_.fill(-1);
    token_bytes_.reserve(size(), texts_.bytes.size());
    std::string bytes;
    std::vector<bool> merged(size());  // tokens that text can merge into
    for (std::size_t i = 0; i < size(); ++i) {
      const std::string_view text = texts_[i];
      if (types_[i] == TokenType::byte) {
        const unsigned char value = detail::byte_token_value(i, text);
        byte_ids_[value] = static_cast<Id>(i);
        token_bytes_.add(std::string_view(reinterpret_cast<const char*>(&value), 1));
        continue;
      }
      if (types_[i] == TokenType::control || types_[i] == TokenType::unknown) {  // no text may become one
        token_bytes_.add(text);
        continue;
      }
      bytes.clear();
      detail::append_unescaped(text, bytes);
      token_bytes_.add(bytes);
      // Spaces are spelled U+2581 before anything is merged, so nothing merges into a token with a plain one.
      if (text.empty() || text.size() > kMaxMerged || text.find(' ') != text.npos || detail::valid_prefix(text) != text.size()) continue;
      merged[i] = true;
      longest_ = std::max(longest_, bytes.size());
      joins_.add(bytes);
    }
    if (const std::size_t duplicates = index_.add_all(token_bytes_, merged); duplicates > 0) {
      notes_.push_back(fmt::format("{} tokens have the same text as another; text becomes the last of them", duplicates));
    }
    if (special().unk >= 0 && is_special(static_cast<Id>(special().unk))) unknown_ = static_cast<Id>(special().unk);
    falls_back_ = std::find(byte_ids_.begin(), byte_ids_.end(), -1) == byte_ids_.end();
    for (std::size_t c = 0; c < ascii_.size(); ++c) ascii_[c] = symbol_of(std::string(1, static_cast<char>(c)));
  }

  Symbol symbol_of(std::string_view character) const {
    const Id id = index_.find(character, token_bytes_);
    return id >= 0 ? id : -1 - static_cast<Symbol>(detail::code_point(character.data()));
  }

  /// Writes the bytes of a symbol where there is room for kMaxMerged of them.
  std::size_t put(Symbol symbol, char* out) const {
    if (symbol >= 0) {
      const std::string_view bytes = token_bytes_[static_cast<std::size_t>(symbol)];
      std::memcpy(out, bytes.data(), bytes.size());
      return bytes.size();
    }
    std::string bytes;  // of at most four bytes: on the stack
    detail::append_code_point(static_cast<std::uint32_t>(-1 - symbol), bytes);
    std::memcpy(out, bytes.data(), bytes.size());
    return bytes.size();
  }

  /// For the merger: two symbols become the token of their joint text.
  struct Merges {
    const SentencePieceBpe& owner;

    detail::Merge find(Symbol left, Symbol right) const {
      char both[2 * kMaxMerged];
      std::size_t length = owner.put(left, both);
      length += owner.put(right, both + length);
      if (length > owner.longest_) return {};
      const Id product = owner.index_.find(std::string_view(both, length), owner.token_bytes_);
      if (product < 0) return {};
      return {owner.ranks_[static_cast<std::size_t>(product)], product};
    }
    Symbol product(detail::Merge merge) const { return merge.product; }
  };

  void encode_text(std::string_view text, std::vector<Id>& ids) const override {
    // A U+2581 in the text is a space, also where that makes a token that users define, which GGUF spells with spaces.
    if (!squeeze_ && text.find(kSpace) != text.npos) {
      std::string spaced;
      detail::append_unescaped(text, spaced);
      return encode_valid(spaced, {}, false, ids);
    }
    const detail::ScratchPool<Scratch>::Lease scratch(scratch_);
    const std::size_t first = ids.size();
    normalize(text, scratch->text);
    const std::string_view all = scratch->text;
    {
      detail::IdSink sink(ids);
      for (std::size_t begin = 0; begin < all.size();) {
        const std::size_t end = joins_.piece_end(all, begin);
        encode_word(all.substr(begin, end - begin), *scratch, sink);
        begin = end;
      }
    }
    if (!falls_back_) {  // what is unknown is one token, however long
      const auto unknown = [this](Id a, Id b) { return a == b && a == unknown_; };
      ids.erase(std::unique(ids.begin() + static_cast<std::ptrdiff_t>(first), ids.end(), unknown), ids.end());
    }
  }

  /// The text that is merged: with its prefix, and where spaces are squeezed every U+2581 as the space that it is in a vocabulary.
  void normalize(std::string_view text, std::string& out) const {
    out.clear();
    if (squeeze_) text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    if (text.empty()) return;
    if (space_prefix_) out += ' ';
    if (!squeeze_) return void(out += text);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t space = std::min(text.find(' ', at), text.size() - 1) + 1;
      detail::append_unescaped(text.substr(at, space - at), out);
      at = std::min(text.find_first_not_of(' ', space), text.size());
    }
    while (out.ends_with(' ')) out.pop_back();
  }

  void encode_word(std::string_view word, Scratch& scratch, detail::IdSink& ids) const {
    ids.append(scratch.cache.ids_of(word, scratch.ids, [&](std::vector<Id>& made) {
      scratch.symbols.clear();
      for (std::size_t at = 0; at < word.size();) {
        const std::size_t length = detail::character_length(word[at]);
        scratch.symbols.push_back(length == 1 ? ascii_[static_cast<unsigned char>(word[at])] : symbol_of(word.substr(at, length)));
        at += length;
      }
      scratch.merger.run(Merges{*this}, scratch.symbols);
      for (const Symbol symbol : scratch.symbols) {
        symbol >= 0 ? made.push_back(symbol) : append_fallback(static_cast<std::uint32_t>(-1 - symbol), made);
      }
    }));
  }

  /// A character that is no token: its bytes, or where the vocabulary lacks one of them the unknown token, or where it lacks that nothing.
  void append_fallback(std::uint32_t code, std::vector<Id>& ids) const {
    std::string bytes;
    detail::append_code_point(code == ' ' ? 0x2581 : code, bytes);
    const auto id = [&](char byte) { return byte_ids_[static_cast<unsigned char>(byte)]; };
    if (std::all_of(bytes.begin(), bytes.end(), [&](char byte) { return id(byte) >= 0; })) {
      for (const char byte : bytes) ids.push_back(id(byte));
    } else if (unknown_ >= 0) {
      ids.push_back(unknown_);
    }
  }

  bool squeeze_;             // drop extra spaces
  bool falls_back_ = false;  // every byte is a token
  Id unknown_ = -1;
  std::size_t longest_ = 0;  // bytes of the longest token that text can merge into
  std::vector<std::uint32_t> ranks_;
  std::array<Id, 256> byte_ids_;
  std::array<Symbol, 128> ascii_;
  detail::TokenIndex index_;  // by token_bytes_
  detail::Joins joins_;
  mutable detail::ScratchPool<Scratch> scratch_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_sentence_piece_bpe(const Spec& spec) { return std::make_unique<SentencePieceBpe>(spec); }

}  // namespace quern::tokenizers
