#include "tokenizers/detail/merges.h"

#include <bit>

#include "base/error.h"

namespace quern::tokenizers::detail {

MergeTable::MergeTable(std::size_t tokens, std::size_t merges)
    : id_bits_(std::bit_width(tokens)),
      rank_bits_(std::bit_width(merges)),
      shift_(64 - std::bit_width(std::bit_ceil(merges + merges / 3 + 2) - 1)),
      rank_mask_((std::uint64_t{1} << rank_bits_) - 1) {
  if (2 * id_bits_ + rank_bits_ > 63 || merges >= Merger::kMaxRank)
    throw Error(Code::resource_exhausted, "the vocabulary has more tokens and merges than a tokenizer can hold: some two millions");
  slots_.assign(std::size_t{1} << (64 - shift_), kEmpty);
  mask_ = slots_.size() - 1;
  products_.assign(merges, -1);
}

void MergeTable::add(std::int32_t left, std::int32_t right, std::uint32_t rank, std::int32_t product) {
  const std::uint64_t key = key_of(left, right);
  std::size_t i = slot_of(key);
  for (; slots_[i] != kEmpty; i = (i + 1) & mask_) {
    if (slots_[i] >> rank_bits_ == key) return;
  }
  slots_[i] = key << rank_bits_ | rank;
  products_[rank] = product;
}

void MergeTable::set(std::int32_t left, std::int32_t right, std::uint32_t rank, std::int32_t product) {
  const std::uint64_t key = key_of(left, right);
  std::size_t i = slot_of(key);
  while (slots_[i] != kEmpty && slots_[i] >> rank_bits_ != key) i = (i + 1) & mask_;
  slots_[i] = key << rank_bits_ | rank;
  products_[rank] = product;
}

}  // namespace quern::tokenizers::detail
