#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace quern::tokenizers::detail {

/// Which pairs of tokens merge, into what, and how urgently (rank 0 first): an open-addressing hash table of 16 bytes a slot.
class MergeTable {
 public:
  static constexpr std::uint32_t kNone = 0xFFFFFFFFu;
  struct Merge {
    std::uint32_t rank = kNone;
    std::int32_t product = -1;
  };

  explicit MergeTable(std::size_t merges);
  /// The first merge added for a pair stays.
  void add(std::int32_t left, std::int32_t right, Merge merge);
  /// The last merge set for a pair stays.
  void set(std::int32_t left, std::int32_t right, Merge merge);
  Merge find(std::int32_t left, std::int32_t right) const {
    const std::uint64_t key = key_of(left, right);
    for (std::size_t i = slot_of(key);; i = (i + 1) & mask_) {
      if (slots_[i].key == key) return slots_[i].merge;
      if (slots_[i].key == kEmpty) return {};
    }
  }
  /// Calls each(left, right) for all pairs, in no order.
  template <class Each>
  void for_each(Each each) const {
    for (const Slot& slot : slots_)
      if (slot.key != kEmpty) each(static_cast<std::int32_t>(slot.key >> 32), static_cast<std::int32_t>(slot.key));
  }

 private:
  static constexpr std::uint64_t kEmpty = ~0ull;  // no pair: ids are not negative
  struct Slot {
    std::uint64_t key = kEmpty;
    Merge merge;
  };
  static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
  }
  std::size_t slot_of(std::uint64_t key) const { return static_cast<std::size_t>(key * 0x9E3779B97F4A7C15ull >> shift_); }

  std::vector<Slot> slots_;
  std::size_t mask_;
  int shift_;
};

/// Applies merges to a word, always the most urgent and among equals the leftmost, until none applies: O(n log n) in the word's symbols.
/// `Merges` says by find(left, right) what two symbols become, as MergeTable does. Not for concurrent use; keeps its memory from word to
/// word.
class Merger {
 public:
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
  static constexpr std::size_t kShortWord = 40;  // up to here, looking through all pairs for the most urgent beats a heap
  static constexpr std::size_t kKeptSymbols = 1 << 16;

  struct Node {
    std::int32_t id;
    std::uint32_t previous, next;
    std::uint32_t rank;  // of the merge with the next symbol
  };

  template <class Merges>
  void run_short(const Merges& merges, std::vector<std::int32_t>& symbols) {
    pairs_.clear();
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) pairs_.push_back(merges.find(symbols[i], symbols[i + 1]));
    while (!pairs_.empty()) {
      std::size_t best = 0;
      for (std::size_t i = 1; i < pairs_.size(); ++i) {
        if (pairs_[i].rank < pairs_[best].rank) best = i;
      }
      if (pairs_[best].rank == MergeTable::kNone) return;
      symbols[best] = pairs_[best].product;
      symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
      pairs_.erase(pairs_.begin() + static_cast<std::ptrdiff_t>(best));
      if (best > 0) pairs_[best - 1] = merges.find(symbols[best - 1], symbols[best]);
      if (best < pairs_.size()) pairs_[best] = merges.find(symbols[best], symbols[best + 1]);
    }
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
      const std::uint32_t rank = last ? MergeTable::kNone : merges.find(symbols[i], symbols[i + 1]).rank;
      nodes_[i] = {symbols[i], i == 0 ? kEnd : i - 1, last ? kEnd : i + 1, rank};
      if (rank != MergeTable::kNone) heap_.push_back(entry(rank, i));
    }
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
    const auto refresh = [&](std::uint32_t position) {
      Node& node = nodes_[position];
      node.rank = node.next == kEnd ? MergeTable::kNone : merges.find(node.id, nodes_[node.next].id).rank;
      if (node.rank == MergeTable::kNone) return;
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
      left.id = merges.find(left.id, right.id).product;
      left.next = right.next;
      right.rank = MergeTable::kNone;
      if (left.next != kEnd) nodes_[left.next].previous = position;
      refresh(position);
      if (left.previous != kEnd) refresh(left.previous);
    }
    symbols.clear();
    for (std::uint32_t i = 0; i != kEnd; i = nodes_[i].next) symbols.push_back(nodes_[i].id);
  }

  std::vector<MergeTable::Merge> pairs_;
  std::vector<Node> nodes_;
  std::vector<std::uint64_t> heap_;  // rank << 32 | position of the left symbol
};

}  // namespace quern::tokenizers::detail
