#include "tokenizers/detail/ranked_bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <future>
#include <thread>

#include "base/error.h"

namespace quern::tokenizers::detail {

RankedBpe::RankedBpe(const Spec& spec, const PreTokenizerRow& row)
    : Tokenizer(spec),
      pre_tokenizer_(row.patterns),
      ignore_merges_(row.ignore_merges),
      index_(spec.tokens.size()),
      merges_(spec.tokens.size(), spec.merges.size()) {
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
  constexpr std::size_t kAhead = 16;  // what is added soon is fetched already
  std::array<std::size_t, kAhead> hashes{};
  for (std::size_t i = 0; i < size() + kAhead; ++i) {
    std::size_t& hash = hashes[i % kAhead];
    if (i >= kAhead && found[i - kAhead] && !index_.add(token_bytes_[i - kAhead], hash, static_cast<Id>(i - kAhead), token_bytes_))
      ++duplicates;
    if (i < size() && found[i]) index_.prefetch(hash = TokenIndex::hash_of(token_bytes_[i]));
  }
  if (duplicates == 0) return;
  notes_.push_back(fmt::format("{} tokens have the same text as another; text becomes the last of them", duplicates));
  for (std::size_t i = 0; i < size(); ++i) found[i] = found[i] && find(token_bytes_[i]) == static_cast<Id>(i);
}

// In blocks whose lookups wait for memory together: one after the other they would take most of the time that loading takes.
void RankedBpe::resolve(std::span<const std::string_view> merges, std::size_t first_rank, const std::vector<bool>& found,
                        std::span<Resolved> out) const {
  constexpr std::size_t kBlock = 32;
  struct Half {
    std::size_t begin = 0, end = 0, hash = 0;  // in `bytes`
  };
  std::array<std::array<Half, 2>, kBlock> block;
  std::string bytes;
  const auto is = [&](Id id, std::string_view text) {
    const auto i = static_cast<std::size_t>(id);
    return i < size() && found[i] && TokenIndex::equal(token_bytes_[i], text);
  };
  Id product = 0;  // a merge mostly makes the same token as the one before, or the next
  for (std::size_t first = 0; first < merges.size(); first += kBlock) {
    const std::size_t rows = std::min(kBlock, merges.size() - first);
    bytes.clear();
    for (std::size_t i = 0; i < rows; ++i) {
      const std::string_view merge = merges[first + i];
      const std::size_t space = merge.find(' ', 1);
      if (merge.empty() || space == std::string_view::npos || space + 1 == merge.size()) {
        throw Error(Code::data_corrupt, fmt::format("merge {} is '{}' where two tokens with a space between were expected",
                                                    first_rank + first + i, merge.substr(0, 80)));
      }
      const std::size_t begin = bytes.size();
      const bool left = append_bytes(merge.substr(0, space), bytes);
      const std::size_t middle = bytes.size();
      if (!left || !append_bytes(merge.substr(space + 1), bytes)) {
        bytes.resize(begin);
        block[i] = {};
        continue;
      }
      block[i] = {Half{begin, middle}, Half{middle, bytes.size()}};
    }
    const auto text_of = [&](const Half& half) { return std::string_view(bytes).substr(half.begin, half.end - half.begin); };
    const auto each = [&](auto&& f) {
      for (std::size_t i = 0; i < rows; ++i) f(block[i][0]), f(block[i][1]);
    };
    each([&](Half& half) { index_.prefetch(half.hash = TokenIndex::hash_of(text_of(half))); });
    each([&](Half& half) {
      if (const Id id = index_.guess(half.hash); id >= 0) token_bytes_.prefetch_end(static_cast<std::size_t>(id));
    });
    each([&](Half& half) {
      if (const Id id = index_.guess(half.hash); id >= 0) token_bytes_.prefetch(static_cast<std::size_t>(id));
    });
    for (std::size_t i = 0; i < rows; ++i) {
      const auto& [left, right] = block[i];
      if (left.begin == right.end) continue;  // skipped
      const std::string_view both = std::string_view(bytes).substr(left.begin, right.end - left.begin);
      if (!is(product, both)) product = is(product + 1, both) ? product + 1 : find(both);
      const Resolved resolved{index_.find(text_of(left), left.hash, token_bytes_), index_.find(text_of(right), right.hash, token_bytes_),
                              product};
      if (resolved.left >= 0 && resolved.right >= 0 && product >= 0) out[first + i] = resolved;
    }
  }
}

void RankedBpe::read_merges(const Spec& spec, const std::vector<bool>& found) {
  constexpr std::size_t kMany = 1 << 16, kAhead = 16;
  const std::span<const std::string_view> merges = spec.merges;
  std::vector<Resolved> resolved(merges.size());
  const std::size_t half = merges.size() < kMany ? merges.size() : merges.size() / 2;
  const std::span<Resolved> out = resolved;
  // The second half by another thread.
  std::future<void> other;
  if (half < merges.size()) other = std::async(std::launch::async, [&] { resolve(merges.subspan(half), half, found, out.subspan(half)); });
  resolve(merges.first(half), 0, found, out.first(half));
  std::size_t skipped = 0, first_skipped = 0;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    if (rank == half) other.get();
    if (rank + kAhead < (rank < half ? half : merges.size())) merges_.prefetch(out[rank + kAhead].left, out[rank + kAhead].right);
    const auto [left, right, product] = out[rank];
    if (left >= 0) {
      merges_.add(left, right, static_cast<std::uint32_t>(rank), product);
    } else if (skipped++ == 0) {
      first_skipped = rank;
    }
  }
  if (skipped > 0) {
    notes_.push_back(fmt::format("{} merges name or make no ordinary token and are skipped; the first is merge {} '{}'", skipped,
                                 first_skipped, spec.merges[first_skipped].substr(0, 80)));
  }
}

void RankedBpe::encode_text(std::string_view text, std::vector<Id>& ids) const {
  const ScratchPool<Scratch>::Lease scratch(scratch_);
  pre_tokenizer_.split(text, scratch->words, scratch->other);
  IdSink sink(ids);
  std::uint32_t begin = 0;
  for (const std::uint32_t end : scratch->words) {
    encode_word(text.substr(begin, end - begin), *scratch, sink);
    begin = end;
  }
}

void RankedBpe::encode_text_parallel(std::string_view text, unsigned threads, std::vector<Id>& ids) const {
  const ScratchPool<Scratch>::Lease cut(scratch_);
  pre_tokenizer_.split(text, cut->words, cut->other);
  const std::span<const std::uint32_t> ends = cut->words;
  threads = static_cast<unsigned>(std::clamp<std::size_t>(ends.size() / 1024, 1, threads));
  std::vector<std::vector<Id>> parts(threads);
  std::vector<std::exception_ptr> failures(threads);
  // A part is the words that end in an equal share of the text.
  const auto share = [&](unsigned part) {
    const auto end = static_cast<std::uint32_t>(text.size() * part / threads);
    return part == threads ? ends.size() : static_cast<std::size_t>(std::lower_bound(ends.begin(), ends.end(), end) - ends.begin());
  };
  const auto work = [&](unsigned part) noexcept {
    try {
      const ScratchPool<Scratch>::Lease scratch(scratch_);
      IdSink sink(parts[part]);
      const std::size_t first = share(part), last = share(part + 1);
      std::uint32_t begin = first > 0 ? ends[first - 1] : 0;
      for (std::size_t i = first; i < last; ++i) {
        encode_word(text.substr(begin, ends[i] - begin), *scratch, sink);
        begin = ends[i];
      }
    } catch (...) {
      failures[part] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (unsigned part = 1; part < threads; ++part) others.emplace_back(work, part);
    work(0);
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  for (const std::vector<Id>& part : parts) ids.insert(ids.end(), part.begin(), part.end());
}

void RankedBpe::encode_word(std::string_view word, Scratch& scratch, IdSink& ids) const {
  ids.append(scratch.cache.ids_of(word, scratch.ids, [&](std::vector<Id>& made) {
    if (const Id whole = ignore_merges_ ? find(word) : -1; whole >= 0) {
      made.push_back(whole);
      return;
    }
    scratch.symbols.clear();
    begin_word(word, scratch.symbols);
    scratch.merger.run(merges_, scratch.symbols);
    end_word(scratch.symbols, made);
  }));
}

}  // namespace quern::tokenizers::detail
