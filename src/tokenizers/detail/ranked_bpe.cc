#include "tokenizers/detail/ranked_bpe.h"

#include <fmt/format.h>

#include "base/error.h"

namespace quern::tokenizers::detail {

RankedBpe::RankedBpe(const Spec& spec, const PreTokenizerRow& row)
    : Tokenizer(spec),
      pre_tokenizer_(row.patterns),
      ignore_merges_(row.ignore_merges),
      index_(spec.tokens.size()),
      merges_(spec.merges.size()) {
  set_default_bos(row.add_bos);
}

void RankedBpe::Scratch::trim() {
  constexpr std::size_t kKept = 1 << 20;
  merger.trim();
  if (symbols.capacity() > kKept) symbols = {}, ids = {};
  if (words.capacity() > kKept) words = {}, other = {};
  if (text.capacity() > 4 * kKept) text = {};
}

void RankedBpe::index_tokens(std::vector<bool>& found) {
  std::size_t duplicates = 0;
  for (std::size_t i = 0; i < size(); ++i) {
    if (found[i] && !index_.add(token_bytes_[i], static_cast<Id>(i), token_bytes_)) ++duplicates;
  }
  if (duplicates == 0) return;
  notes_.push_back(fmt::format("{} tokens have the same text as another; text becomes the last of them", duplicates));
  for (std::size_t i = 0; i < size(); ++i) found[i] = found[i] && find(token_bytes_[i]) == static_cast<Id>(i);
}

void RankedBpe::read_merges(const Spec& spec, const std::vector<bool>& found) {
  if (spec.merges.size() >= MergeTable::kNone) throw Error(Code::resource_exhausted, "the vocabulary has 2^32 merges or more");
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
    if (append_bytes(merge.substr(0, space), both)) {
      const std::size_t length = both.size();
      if (append_bytes(merge.substr(space + 1), both)) {
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

void RankedBpe::encode_text(std::string_view text, std::vector<Id>& ids) const {
  const ScratchPool<Scratch>::Lease scratch(scratch_);
  pre_tokenizer_.split(text, scratch->words, scratch->other);
  std::uint32_t begin = 0;
  for (const std::uint32_t end : scratch->words) {
    encode_word(text.substr(begin, end - begin), *scratch, ids);
    begin = end;
  }
}

void RankedBpe::encode_word(std::string_view word, Scratch& scratch, std::vector<Id>& ids) const {
  if (word.size() <= WordCache::kMaxBytes) {
    WordCache::Entry* entry = nullptr;
    if (scratch.cache.find(word, entry)) {
      ids.insert(ids.end(), entry->ids, entry->ids + entry->count);
      return;
    }
    encode_new_word(word, scratch);
    WordCache::fill(*entry, word, scratch.ids);
  } else {
    encode_new_word(word, scratch);
  }
  ids.insert(ids.end(), scratch.ids.begin(), scratch.ids.end());
}

void RankedBpe::encode_new_word(std::string_view word, Scratch& scratch) const {
  scratch.ids.clear();
  if (const Id whole = ignore_merges_ ? find(word) : -1; whole >= 0) {
    scratch.ids.push_back(whole);
    return;
  }
  scratch.symbols.clear();
  begin_word(word, scratch.symbols);
  scratch.merger.run(merges_, scratch.symbols);
  end_word(scratch.symbols, scratch.ids);
}

}  // namespace quern::tokenizers::detail
