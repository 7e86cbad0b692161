#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
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
  Merge find(std::int32_t left, std::int32_t right) const {
    const std::uint64_t key = key_of(left, right);
    for (std::size_t i = slot_of(key);; i = (i + 1) & mask_) {
      if (slots_[i].key == key) return slots_[i].merge;
      if (slots_[i].key == kEmpty) return {};
    }
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
/// Not for concurrent use; keeps its memory from word to word.
class Merger {
 public:
  /// Replaces `symbols` by the merged ones.
  void run(const MergeTable& merges, std::vector<std::int32_t>& symbols);
  /// Gives back memory that an unusually long word took.
  void trim();

 private:
  struct Node {
    std::int32_t id;
    std::uint32_t previous, next;
    std::uint32_t rank;  // of the merge with the next symbol
  };
  void run_short(const MergeTable& merges, std::vector<std::int32_t>& symbols);
  void run_long(const MergeTable& merges, std::vector<std::int32_t>& symbols);

  std::vector<MergeTable::Merge> pairs_;
  std::vector<Node> nodes_;
  std::vector<std::uint64_t> heap_;  // rank << 32 | position of the left symbol
};

}  // namespace quern::tokenizers::detail
