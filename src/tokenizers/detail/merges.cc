#include "tokenizers/detail/merges.h"

#include <bit>

#include "base/error.h"

namespace quern::tokenizers::detail {

MergeTable::MergeTable(std::size_t tokens, std::span<const ResolvedMerge> merges, Which which)
    : id_bits_(std::bit_width(tokens)),
      rank_bits_(std::bit_width(merges.size())),
      shift_(64 - std::bit_width(std::bit_ceil(merges.size() + merges.size() / 3 + 2) - 1)),
      rank_mask_((std::uint64_t{1} << rank_bits_) - 1),
      halves_(tokens) {
  if (2 * id_bits_ + rank_bits_ > 63 || merges.size() >= Merger::kMaxRank)
    throw Error(Code::resource_exhausted, "the vocabulary has more tokens and merges than a tokenizer can hold: some two millions");
  slots_.assign(std::size_t{1} << (64 - shift_), kEmpty);
  mask_ = slots_.size() - 1;
  products_.reserve(merges.size());
  constexpr std::size_t kAhead = 16;  // what is set soon is fetched already
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    if (rank + kAhead < merges.size()) {
      const ResolvedMerge& soon = merges[rank + kAhead];
      __builtin_prefetch(&slots_[slot_of(key_of(soon.left, soon.right))], 1);
    }
    const auto [left, right, product] = merges[rank];
    products_.push_back(product);
    if (left < 0) continue;
    halves_[static_cast<std::size_t>(left)] = halves_[static_cast<std::size_t>(right)] = true;
    const std::uint64_t key = key_of(left, right);
    std::size_t i = slot_of(key);
    while (slots_[i] != kEmpty && slots_[i] >> rank_bits_ != key) i = (i + 1) & mask_;
    if (which == Which::last || slots_[i] == kEmpty) slots_[i] = key << rank_bits_ | rank;
  }
}

}  // namespace quern::tokenizers::detail
