#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <unordered_set>
#include <vector>

#include "engine/detail/sequence.h"
#include "engine/detail/step_cost.h"
#include "kvcache/block_pool.h"
#include "kvcache/disk_store.h"
#include "kvcache/prefix_tree.h"

namespace quern::engine::detail {

/// The batcher's side of the cache on disk. Blocks are written as they become known to the tree, and read back for a request that waits,
/// before it is admitted: they join the tree, where the request finds them as if they had never left. A block that is being written or
/// read has one reference more until that has ended; no step waits for it. On the batcher's thread.
///
/// It is also where requests that were sent back are swapped to: their full blocks are written like all others, and read again if they had
/// to go and reading takes less time than computing them.
class DiskTier {
 public:
  /// The bytes of a block of the cache.
  using Memory = std::function<std::span<std::byte>(std::int32_t block)>;
  DiskTier(kvcache::DiskStore& store, kvcache::BlockPool& pool, kvcache::PrefixTree& tree, std::int64_t block_tokens, Memory memory);

  /// What was read joins the tree, and what is written is let go.
  void collect();
  /// Whether `sequence`, of which the tree knows `known` blocks, had better wait: blocks that follow are being read, or now will be, into
  /// free blocks.
  bool fetch(Sequence& sequence, std::span<const std::int32_t> known, const StepCost& cost);
  /// `sequence` is admitted, with `blocks` blocks from the cache.
  void used(Sequence& sequence, std::int64_t blocks);
  /// Block `index` of the sequence has become known as `block`.
  void add(Sequence& sequence, std::int64_t index, std::int32_t block);
  /// Hands out what is to be written, some blocks at a time.
  void write();
  /// Writes what is left, for at most so long.
  void finish(double seconds);

  /// Blocks that only reading and writing keeps busy.
  std::int64_t busy_blocks() const;
  kvcache::DiskStore::Statistics statistics() const { return store_.statistics(); }

 private:
  struct Item {
    std::int32_t block;
    bool good;
  };
  /// What is read for one request.
  struct Load {
    std::vector<std::int32_t> before = {};  // the blocks that it follows
    std::vector<kvcache::BlockKey> keys = {};
    std::vector<std::int32_t> tokens = {};
    std::uint64_t partition = 0;
    std::vector<Item> items = {};
    std::size_t left = 0;
  };

  void name_blocks(Sequence& sequence, std::int64_t blocks) const;
  void settle(Load& load);

  kvcache::DiskStore& store_;
  kvcache::BlockPool& pool_;
  kvcache::PrefixTree& tree_;
  const std::int64_t block_tokens_;
  const Memory memory_;
  struct Unwritten {
    kvcache::BlockKey key;
    std::int64_t depth;
    bool queued;  // stands in queue_, perhaps for what the block held before
    bool wanted;  // `key` is what it holds now, as long as the tree knows it, and the disk may lack that
  };
  std::vector<Unwritten> of_block_;
  std::vector<std::int32_t> queue_;  // a ring of blocks to be written, each there at most once
  std::size_t first_ = 0, queued_ = 0;
  std::vector<std::int32_t> writing_;
  std::vector<Load> loads_;
  std::unordered_set<kvcache::BlockKey, kvcache::BlockKeyHash> loading_;
  std::vector<kvcache::DiskStore::Done> done_;
};

}  // namespace quern::engine::detail
