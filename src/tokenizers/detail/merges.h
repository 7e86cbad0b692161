#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/page_memory.h"

namespace quern::tokenizers::detail {

/// A pair of symbols that becomes one: rank 0 is the most urgent. `product` is for the table that gave it.
struct Merge {
  static constexpr std::uint32_t kNone = 0xFFFFFFFFu;
  std::uint32_t rank = kNone;
  std::int32_t product = -1;
};

/// A merge by ids; all -1: none.
struct ResolvedMerge {
  std::int32_t left = -1, right = -1, product = -1;
};

/// Which pairs of tokens merge, into what, and how urgently: an open-addressing hash table of 8 bytes a slot, each both ids and the rank.
/// Small on purpose: looking pairs up is what encoding new words takes its time for, and a miss of the cache costs more than all the rest.
class MergeTable {
 public:
  enum class Which { first, last };
  /// `merges` by rank, of tokens with ids below `tokens`; of several of one pair one stays, as `which` says. Errors: resource_exhausted for
  /// more than some two million tokens.
  MergeTable(std::size_t tokens, std::span<const ResolvedMerge> merges, Which which);

  Merge find(std::int32_t left, std::int32_t right) const {
    if ((left | right) < 0) return {};  // no tokens
    const std::uint64_t key = key_of(left, right);
    for (std::size_t i = slot_of(key);; i = (i + 1) & mask_) {
      const std::uint64_t slot = slots_[i];
      if (slot >> rank_bits_ == key) return {static_cast<std::uint32_t>(slot & rank_mask_), -1};
      if (slot == kEmpty) return {};
    }
  }
  /// Whether the token is half of some pair.
  bool is_half(std::int32_t id) const { return static_cast<std::size_t>(id) < halves_.size() && halves_[static_cast<std::size_t>(id)]; }
  std::int32_t product(Merge merge) const { return products_[merge.rank]; }

 private:
  static constexpr std::uint64_t kEmpty = ~0ull;  // no slot: those use 63 bits at most
  std::uint64_t key_of(std::int32_t left, std::int32_t right) const {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << id_bits_ | static_cast<std::uint32_t>(right);
  }
  std::size_t slot_of(std::uint64_t key) const { return static_cast<std::size_t>(key * 0x9E3779B97F4A7C15ull >> shift_); }

  int id_bits_, rank_bits_, shift_;
  std::uint64_t rank_mask_;
  PageVector<std::uint64_t> slots_;
  std::size_t mask_;
  PageVector<std::int32_t> products_;  // by rank
  std::vector<bool> halves_;           // by id
};

/// Applies merges to a word, always the most urgent and among equals the leftmost, until none applies: O(n log n) in the word's symbols.
/// `Merges` says by find(left, right) and product(merge) what two symbols become, as MergeTable does; its ranks are below kMaxRank. Not for
/// concurrent use, and always for the same merges; keeps its memory from word to word.
class Merger {
 public:
  static constexpr std::uint32_t kMaxRank = 1u << 26;

  /// Replaces `symbols` by the merged ones.
  template <class Merges>
  void run(const Merges& merges, std::vector<std::int32_t>& symbols) {
    if (symbols.size() < 2) return;
    symbols.size() <= kShortWord ? run_short(merges, symbols) : run_long(merges, symbols);
  }
  /// Gives back memory that an unusually long word took.
  void trim() {
    if (nodes_.capacity() > kKeptSymbols) nodes_ = {};
    if (heap_.capacity() > kKeptSymbols) heap_ = {};
  }

 private:
  static constexpr std::size_t kShortWord = 48;  // up to here, looking through all pairs for the most urgent beats a heap
  static constexpr std::size_t kKeptSymbols = 1 << 16;

  struct Node {
    std::int32_t id;
    std::uint32_t previous, next;
    std::uint32_t rank;  // of the merge with the next symbol
  };

  // A pair's key is its rank and, below that, the place of its left symbol: the least key is the leftmost of the most urgent.
  template <class Merges>
  void run_short(const Merges& merges, std::vector<std::int32_t>& symbols) {
    constexpr std::uint32_t kPlaceBits = 6, kPlaces = 1u << kPlaceBits, kNoKey = 0xFFFFFFFFu;
    static_assert(kShortWord < kPlaces && std::uint64_t{kMaxRank} << kPlaceBits <= 1ull << 32);
    const auto count = static_cast<std::uint32_t>(symbols.size());
    alignas(64) std::uint32_t keys[kPlaces];
    std::int32_t products[kPlaces];  // as Merge::product
    std::uint8_t next[kPlaces], previous[kPlaces];
    std::int32_t* symbol = symbols.data();
    const std::uint32_t padded = (count + 7) & ~7u;
    bool any = false;
    const auto look_up = [&](std::uint32_t left, std::uint32_t right) {
      const std::uint64_t pair = std::uint64_t{static_cast<std::uint32_t>(symbol[left])} << 32 | static_cast<std::uint32_t>(symbol[right]);
      Known& known = known_[pair * 0x9E3779B97F4A7C15ull >> (64 - kKnownBits)];
      if (known.pair != pair) known = {pair, merges.find(symbol[left], symbol[right])};
      const Merge merge = known.merge;
      keys[left] = merge.rank == Merge::kNone ? kNoKey : merge.rank << kPlaceBits | left;
      products[left] = merge.product;
      any |= merge.rank != Merge::kNone;
    };
    for (std::uint32_t i = 0; i + 1 < count; ++i) {
      look_up(i, i + 1);
      next[i] = static_cast<std::uint8_t>(i + 1), previous[i + 1] = static_cast<std::uint8_t>(i);
    }
    if (!any) return;
    for (std::uint32_t i = count - 1; i < padded; ++i) keys[i] = kNoKey;
    next[count - 1] = static_cast<std::uint8_t>(count);
    previous[0] = 0;
    for (;;) {
      std::uint32_t best = kNoKey;
      for (std::uint32_t i = 0; i < padded; ++i) best = std::min(best, keys[i]);
      if (best == kNoKey) break;
      const std::uint32_t left = best & (kPlaces - 1), right = next[left], after = next[right];
      symbol[left] = merges.product({best >> kPlaceBits, products[left]});
      keys[right] = keys[left] = kNoKey;
      next[left] = static_cast<std::uint8_t>(after);
      if (after < count) {
        previous[after] = static_cast<std::uint8_t>(left);
        look_up(left, after);
      }
      if (left > 0) look_up(previous[left], left);
    }
    std::uint32_t kept = 0;
    for (std::uint32_t i = 0; i < count; i = next[i]) symbol[kept++] = symbol[i];
    symbols.resize(kept);
  }

  template <class Merges>
  void run_long(const Merges& merges, std::vector<std::int32_t>& symbols) {
    constexpr std::uint32_t kEnd = 0xFFFFFFFFu;
    const auto count = static_cast<std::uint32_t>(symbols.size());
    nodes_.resize(count);
    heap_.clear();
    const auto entry = [](std::uint32_t rank, std::uint32_t position) { return std::uint64_t{rank} << 32 | position; };
    for (std::uint32_t i = 0; i < count; ++i) {
      const bool last = i + 1 == count;
      const std::uint32_t rank = last ? Merge::kNone : merges.find(symbols[i], symbols[i + 1]).rank;
      nodes_[i] = {symbols[i], i == 0 ? kEnd : i - 1, last ? kEnd : i + 1, rank};
      if (rank != Merge::kNone) heap_.push_back(entry(rank, i));
    }
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
    const auto refresh = [&](std::uint32_t position) {
      Node& node = nodes_[position];
      node.rank = node.next == kEnd ? Merge::kNone : merges.find(node.id, nodes_[node.next].id).rank;
      if (node.rank == Merge::kNone) return;
      heap_.push_back(entry(node.rank, position));
      std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
    };
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      const std::uint64_t top = heap_.back();
      heap_.pop_back();
      const auto position = static_cast<std::uint32_t>(top);
      Node& left = nodes_[position];
      if (left.rank != top >> 32) continue;  // the pair that this entry was for is no more
      Node& right = nodes_[left.next];
      left.id = merges.product(merges.find(left.id, right.id));
      left.next = right.next;
      right.rank = Merge::kNone;
      if (left.next != kEnd) nodes_[left.next].previous = position;
      refresh(position);
      if (left.previous != kEnd) refresh(left.previous);
    }
    symbols.clear();
    for (std::uint32_t i = 0; i != kEnd; i = nodes_[i].next) symbols.push_back(nodes_[i].id);
  }

  struct Known {
    std::uint64_t pair = ~0ull;
    Merge merge;
  };
  static constexpr int kKnownBits = 13;                                          // 128 KiB
  std::vector<Known> known_ = std::vector<Known>(std::size_t{1} << kKnownBits);  // pairs looked up lately, merging or not
  std::vector<Node> nodes_;
  std::vector<std::uint64_t> heap_;  // rank << 32 | position of the left symbol
};

}  // namespace quern::tokenizers::detail
