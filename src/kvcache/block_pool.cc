#include "kvcache/block_pool.h"

#include <limits>

#include "base/error.h"

namespace quern::kvcache {

BlockPool::BlockPool(std::int64_t blocks) {
  if (blocks < 0 || blocks > std::numeric_limits<std::int32_t>::max())
    throw Error(Code::invalid_argument, "a cache of " + std::to_string(blocks) + " blocks").hint("between 0 and 2^31 - 1 are possible");
  references_.resize(static_cast<std::size_t>(blocks), 0);
  kept_.resize(references_.size(), false);
  free_.reserve(references_.size());
  for (std::int64_t b = blocks; b-- > 0;) free_.push_back(static_cast<std::int32_t>(b));
}

std::optional<std::int32_t> BlockPool::allocate() {
  if (free_.empty()) return std::nullopt;
  const std::int32_t block = free_.back();
  free_.pop_back();
  references_[static_cast<std::size_t>(block)] = 1;
  return block;
}

void BlockPool::require_in_use(std::int32_t block) const { QUERN_ASSERT(block >= 0 && block < blocks() && references(block) > 0); }

void BlockPool::add_reference(std::int32_t block) {
  require_in_use(block);
  const auto b = static_cast<std::size_t>(block);
  if (++references_[b] == 2 && kept_[b]) --idle_;
}

void BlockPool::release(std::int32_t block) {
  require_in_use(block);
  const auto b = static_cast<std::size_t>(block);
  if (--references_[b] == 0) free_.push_back(block);
  if (references_[b] == 1 && kept_[b]) ++idle_;
}

void BlockPool::keep(std::int32_t block) {
  require_in_use(block);
  QUERN_ASSERT(!kept_[static_cast<std::size_t>(block)]);
  add_reference(block);
  kept_[static_cast<std::size_t>(block)] = true;
}

void BlockPool::drop(std::int32_t block) {
  QUERN_ASSERT(kept_[static_cast<std::size_t>(block)]);
  if (references(block) == 1) --idle_;
  kept_[static_cast<std::size_t>(block)] = false;
  release(block);
}

}  // namespace quern::kvcache
