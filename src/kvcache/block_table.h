#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kvcache/block_pool.h"

namespace quern::kvcache {

/// Keys and values that must be copied before a step writes: the first `tokens` of block `from` to block `to`, in every layer.
struct BlockCopy {
  std::int32_t from, to;
  std::int32_t tokens;
};

/// The blocks of one sequence, in the order of its tokens. Sequences may share blocks (fork); a block that is shared is never written: the
/// sequence that wants to gets one of its own. Gives its blocks back when destroyed. Allocates nothing after construction.
class BlockTable {
 public:
  BlockTable(BlockPool& pool, std::int64_t block_tokens, std::int64_t max_blocks);
  ~BlockTable() { clear(); }
  BlockTable(const BlockTable&) = delete;
  BlockTable& operator=(const BlockTable&) = delete;
  BlockTable(BlockTable&& other) noexcept;
  BlockTable& operator=(BlockTable&&) = delete;

  static constexpr std::int32_t kGone = -1;  ///< in the place of a block that was given back before its time

  /// Tokens that have a place, or had one.
  std::int64_t tokens() const { return tokens_; }
  std::span<const std::int32_t> blocks() const { return blocks_; }

  /// How many free blocks it takes to add `count` tokens.
  std::int64_t blocks_needed(std::int64_t count) const;
  /// Makes places for `count` more tokens, or changes nothing and returns false: too few blocks are free, or the sequence would have more
  /// than max_blocks. `copy` is set when the last block was shared and the new tokens go into a copy of it, which the caller must make
  /// first.
  bool append(std::int64_t count, std::optional<BlockCopy>& copy);
  /// Gives back the blocks before number `index`. Never all that has been begun: what is written next may be in a block's middle.
  void give_back_before(std::int64_t index);
  /// Blocks from the first on that are gone.
  std::int64_t gone() const { return gone_; }
  /// An empty sequence begins with the tokens of these full blocks, which it shares with others. The first ones may be gone.
  void begin_with(std::span<const std::int32_t> blocks);
  /// Block `index` is given back for another one in use that holds the same.
  void replace(std::int64_t index, std::int32_t block);
  /// Where the keys and values of the token at `position` lie: block * block_tokens + offset.
  std::int32_t slot(std::int64_t position) const {
    return static_cast<std::int32_t>(blocks_[static_cast<std::size_t>(position / block_tokens_)] * block_tokens_ +
                                     position % block_tokens_);
  }
  /// Forgets all tokens from `count` on.
  void truncate(std::int64_t count);
  void clear() { truncate(0); }
  /// A sequence of the same tokens, which shares all blocks.
  BlockTable fork() const;

 private:
  bool shares_last() const;

  BlockPool* pool_;
  std::int64_t block_tokens_, max_blocks_, tokens_ = 0, gone_ = 0;
  std::vector<std::int32_t> blocks_;
};

}  // namespace quern::kvcache
