#include "tokenizers/detail/merges.h"

#include <bit>

namespace quern::tokenizers::detail {
MergeTable::MergeTable(std::size_t merges)
    : slots_(std::bit_ceil(merges * 2 + 2)), mask_(slots_.size() - 1), shift_(64 - std::countr_zero(slots_.size())) {}

void MergeTable::add(std::int32_t left, std::int32_t right, Merge merge) {
  const std::uint64_t key = key_of(left, right);
  std::size_t i = slot_of(key);
  while (slots_[i].key != kEmpty && slots_[i].key != key) i = (i + 1) & mask_;
  if (slots_[i].key == kEmpty) slots_[i] = {key, merge};
}

void MergeTable::set(std::int32_t left, std::int32_t right, Merge merge) {
  const std::uint64_t key = key_of(left, right);
  std::size_t i = slot_of(key);
  while (slots_[i].key != kEmpty && slots_[i].key != key) i = (i + 1) & mask_;
  slots_[i] = {key, merge};
}

}  // namespace quern::tokenizers::detail
