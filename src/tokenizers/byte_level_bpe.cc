#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "tokenizers/detail/byte_level.h"
#include "tokenizers/detail/merges.h"
#include "tokenizers/detail/pre_tokenizer.h"
#include "tokenizers/detail/scratch_pool.h"
#include "tokenizers/detail/token_index.h"
#include "tokenizers/detail/word_cache.h"
#include "tokenizers/models.h"

namespace quern::tokenizers {
namespace {

const detail::PreTokenizerRow& find_pre_tokenizer(std::string_view name) {
  if (name.empty()) name = "default";
  std::string known;
  for (const detail::PreTokenizerRow& row : detail::pre_tokenizer_rows()) {
    for (const std::string_view n : row.names) {
      if (n == name) return row;
      known += known.empty() ? "" : ", ";
      known += n;
    }
  }
  throw Error(Code::unsupported, fmt::format("pre-tokenizer '{}' is not supported", name)).hint("supported: " + known);
}

class ByteLevelBpe final : public Tokenizer {
 public:
  explicit ByteLevelBpe(const Spec& spec) : ByteLevelBpe(spec, find_pre_tokenizer(spec.pre_tokenizer)) {}

 private:
  // What one call of encode_text works with; kept for the next one.
  struct Scratch {
    detail::Ends words, other;
    std::vector<Id> symbols;
    detail::Merger merger;
    detail::WordCache cache;

    void trim() {
      constexpr std::size_t kKept = 1 << 20;
      merger.trim();
      if (symbols.capacity() > kKept) symbols = {};
      if (words.capacity() > kKept) words = {}, other = {};
    }
  };

  ByteLevelBpe(const Spec& spec, const detail::PreTokenizerRow& row)
      : Tokenizer(spec), pre_tokenizer_(row), ignore_merges_(row.ignore_merges), index_(spec.tokens.size()), merges_(spec.merges.size()) {
    set_default_bos(row.add_bos);
    read_merges(spec, read_tokens());
  }

  // Returns which tokens are found by the bytes they stand for.
  std::vector<bool> read_tokens() {
    byte_ids_.fill(-1);
    std::array<Id, 256> fallback;
    fallback.fill(-1);
    token_bytes_.bytes.reserve(texts_.bytes.size());
    token_bytes_.ends.reserve(size());
    std::vector<bool> found(size());
    std::string bytes;
    for (std::size_t i = 0; i < size(); ++i) {
      const std::string_view text = texts_[i];
      bytes.clear();
      if (types_[i] == TokenType::byte) {
        const unsigned char value = detail::byte_token_value(i, text);
        fallback[value] = static_cast<Id>(i);
        token_bytes_.add(std::string_view(reinterpret_cast<const char*>(&value), 1));
        continue;
      }
      // A control token's bytes are its text, and no merge may ever lead to it: then text cannot forge it.
      const bool plain = types_[i] != TokenType::control && types_[i] != TokenType::unknown;
      found[i] = plain && !text.empty() && detail::append_spelled_bytes(text, bytes);
      if (types_[i] == TokenType::user_defined && bytes != text) found[i] = false;  // added as text, not in the spelling of bytes
      token_bytes_.add(found[i] ? std::string_view(bytes) : text);
    }
    std::size_t duplicates = 0;
    for (std::size_t i = 0; i < size(); ++i) {
      if (found[i] && !index_.add(token_bytes_[i], static_cast<Id>(i), token_bytes_)) ++duplicates;
    }
    if (duplicates > 0) {
      notes_.push_back(fmt::format("{} tokens have the same text as another; text becomes the last of them", duplicates));
      for (std::size_t i = 0; i < size(); ++i) found[i] = found[i] && find(token_bytes_[i]) == static_cast<Id>(i);
    }
    for (std::size_t b = 0; b < 256; ++b) {
      const char byte = static_cast<char>(b);
      byte_ids_[b] = find(std::string_view(&byte, 1));
      if (byte_ids_[b] < 0) byte_ids_[b] = fallback[b];
    }
    return found;
  }

  void read_merges(const Spec& spec, const std::vector<bool>& found) {
    if (spec.merges.size() >= detail::MergeTable::kNone) throw Error(Code::resource_exhausted, "the vocabulary has 2^32 merges or more");
    std::string both;  // bytes of the product
    std::size_t skipped = 0, first_skipped = 0;
    const auto is = [&](Id id, std::string_view bytes) {
      const auto i = static_cast<std::size_t>(id);
      return i < size() && found[i] && token_bytes_[i] == bytes;
    };
    Id guess = 0;  // a merge mostly makes the same token as the one before, or the next
    for (std::size_t rank = 0; rank < spec.merges.size(); ++rank) {
      const std::string_view merge = spec.merges[rank];
      const std::size_t space = merge.find(' ', 1);
      if (merge.empty() || space == std::string_view::npos || space + 1 == merge.size()) {
        throw Error(Code::data_corrupt,
                    fmt::format("merge {} is '{}' where two tokens with a space between were expected", rank, merge.substr(0, 80)));
      }
      both.clear();
      Id left = -1, right = -1, product = -1;
      if (detail::append_spelled_bytes(merge.substr(0, space), both)) {
        const std::size_t length = both.size();
        if (detail::append_spelled_bytes(merge.substr(space + 1), both)) {
          left = find(std::string_view(both).substr(0, length));
          right = find(std::string_view(both).substr(length));
          product = is(guess, both) ? guess : is(guess + 1, both) ? guess + 1 : find(both);
        }
      }
      if (left < 0 || right < 0 || product < 0) {
        if (skipped++ == 0) first_skipped = rank;
        continue;
      }
      guess = product;
      merges_.add(left, right, {static_cast<std::uint32_t>(rank), product});
    }
    if (skipped > 0) {
      notes_.push_back(fmt::format("{} merges name or make no ordinary token and are skipped; the first is merge {} '{}'", skipped,
                                   first_skipped, spec.merges[first_skipped].substr(0, 80)));
    }
  }

  Id find(std::string_view bytes) const { return index_.find(bytes, token_bytes_); }

  void encode_text(std::string_view text, std::vector<Id>& ids) const override {
    const detail::ScratchPool<Scratch>::Lease scratch(scratch_);
    pre_tokenizer_.split(text, scratch->words, scratch->other);
    std::uint32_t begin = 0;
    for (const std::uint32_t end : scratch->words) {
      encode_word(text.substr(begin, end - begin), *scratch, ids);
      begin = end;
    }
  }

  void encode_word(std::string_view word, Scratch& scratch, std::vector<Id>& ids) const {
    if (word.size() == 1) {
      if (const Id id = byte_ids_[static_cast<unsigned char>(word[0])]; id >= 0) ids.push_back(id);
      return;
    }
    const bool cached = word.size() <= detail::WordCache::kMaxBytes;
    detail::WordCache::Entry* entry = nullptr;
    if (cached && scratch.cache.find(word, entry)) {
      ids.insert(ids.end(), entry->ids, entry->ids + entry->count);
      return;
    }
    scratch.symbols.clear();
    const Id whole = ignore_merges_ ? find(word) : -1;
    if (whole >= 0) {
      scratch.symbols.push_back(whole);
    } else {
      for (const char c : word) {  // a byte that the vocabulary lacks is left out, as the reference does
        if (const Id id = byte_ids_[static_cast<unsigned char>(c)]; id >= 0) scratch.symbols.push_back(id);
      }
      scratch.merger.run(merges_, scratch.symbols);
    }
    if (cached) scratch.cache.fill(*entry, word, scratch.symbols);
    ids.insert(ids.end(), scratch.symbols.begin(), scratch.symbols.end());
  }

  detail::PreTokenizer pre_tokenizer_;
  bool ignore_merges_;
  std::array<Id, 256> byte_ids_;
  detail::TokenIndex index_;
  detail::MergeTable merges_;
  mutable detail::ScratchPool<Scratch> scratch_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_byte_level_bpe(const Spec& spec) { return std::make_unique<ByteLevelBpe>(spec); }

}  // namespace quern::tokenizers
