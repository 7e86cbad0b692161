#include "kvcache/block_table.h"

#include <limits>
#include <utility>

#include "base/error.h"

namespace quern::kvcache {

BlockTable::BlockTable(BlockPool& pool, std::int64_t block_tokens, std::int64_t max_blocks)
    : pool_(&pool), block_tokens_(block_tokens), max_blocks_(max_blocks) {
  QUERN_ASSERT(block_tokens > 0 && max_blocks >= 0);
  if (pool.blocks() > std::numeric_limits<std::int32_t>::max() / block_tokens)
    throw Error(Code::resource_exhausted, "a cache of " + std::to_string(pool.blocks()) + " blocks of " + std::to_string(block_tokens) +
                                              " tokens has more than 2^31 slots");
  blocks_.reserve(static_cast<std::size_t>(max_blocks));
}

BlockTable::BlockTable(BlockTable&& other) noexcept
    : pool_(other.pool_),
      block_tokens_(other.block_tokens_),
      max_blocks_(other.max_blocks_),
      tokens_(std::exchange(other.tokens_, 0)),
      gone_(std::exchange(other.gone_, 0)),
      blocks_(std::move(other.blocks_)) {
  other.blocks_.clear();
}

/// The next token would be written into a block that another sequence reads.
bool BlockTable::shares_last() const { return tokens_ % block_tokens_ != 0 && pool_->references(blocks_.back()) > 1; }

std::int64_t BlockTable::blocks_needed(std::int64_t count) const {
  if (count == 0) return 0;
  const std::int64_t after = (tokens_ + count + block_tokens_ - 1) / block_tokens_;
  return after - static_cast<std::int64_t>(blocks_.size()) + (shares_last() ? 1 : 0);
}

bool BlockTable::append(std::int64_t count, std::optional<BlockCopy>& copy) {
  copy.reset();
  QUERN_ASSERT(count >= 0);
  if (count > max_blocks_ * block_tokens_ - tokens_ || blocks_needed(count) > pool_->free_blocks()) return false;
  if (count == 0) return true;
  if (shares_last()) {
    const std::int32_t own = *pool_->allocate();
    copy = BlockCopy{blocks_.back(), own, static_cast<std::int32_t>(tokens_ % block_tokens_)};
    pool_->release(blocks_.back());
    blocks_.back() = own;
  }
  tokens_ += count;
  while (static_cast<std::int64_t>(blocks_.size()) * block_tokens_ < tokens_) blocks_.push_back(*pool_->allocate());
  return true;
}

void BlockTable::begin_with(std::span<const std::int32_t> blocks) {
  QUERN_ASSERT(blocks_.empty() && static_cast<std::int64_t>(blocks.size()) <= max_blocks_);
  for (const std::int32_t block : blocks) {
    if (block == kGone)
      ++gone_;
    else
      pool_->add_reference(block);
    blocks_.push_back(block);
  }
  tokens_ = static_cast<std::int64_t>(blocks.size()) * block_tokens_;
}

void BlockTable::give_back_before(std::int64_t index) {
  QUERN_ASSERT(index * block_tokens_ <= tokens_);
  for (; gone_ < index; ++gone_) pool_->release(std::exchange(blocks_[static_cast<std::size_t>(gone_)], kGone));
}

void BlockTable::replace(std::int64_t index, std::int32_t block) {
  pool_->add_reference(block);
  pool_->release(std::exchange(blocks_[static_cast<std::size_t>(index)], block));
}

void BlockTable::truncate(std::int64_t count) {
  QUERN_ASSERT(count >= 0 && count <= tokens_);
  tokens_ = count;
  while ((static_cast<std::int64_t>(blocks_.size()) - 1) * block_tokens_ >= count && !blocks_.empty()) {
    if (blocks_.back() == kGone)
      --gone_;
    else
      pool_->release(blocks_.back());
    blocks_.pop_back();
  }
}

BlockTable BlockTable::fork() const {
  BlockTable other(*pool_, block_tokens_, max_blocks_);
  other.begin_with(blocks_);
  other.tokens_ = tokens_;
  return other;
}

}  // namespace quern::kvcache
