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
#include "kvcache/window_parts.h"

namespace quern::engine::detail {

/// The batcher's side of the cache on disk. Blocks are written as they become known to the tree, and read back for a request that waits,
/// before it is admitted: they join the tree, where the request finds them as if they had never left. A block that is being written or
/// read has one reference more until that has ended; no step waits for it. On the batcher's thread.
///
/// What layers with a window have of a block is a file of its own, whose name follows from the block's. It is written when it is still
/// there at its turn, and read where the request will see it.
///
/// It is also where requests that were sent back are swapped to: their full blocks are written like all others, and read again if they had
/// to go and reading takes less time than computing them.
class DiskTier {
 public:
  /// The bytes of a block of the cache.
  using Memory = std::function<std::span<std::byte>(std::int32_t block)>;
  /// `parts` and their memory: of layers that see a window, or null.
  DiskTier(kvcache::DiskStore& store, kvcache::BlockPool& pool, kvcache::PrefixTree& tree, std::int64_t block_tokens, Memory memory,
           kvcache::WindowParts* parts = nullptr, Memory window_memory = {});

  /// What was read joins the tree, and what is written is let go.
  void collect();
  /// Whether `sequence`, of which the tree knows `known` blocks and which can begin with `usable` of them, had better wait: what it lacks
  /// to begin with more is being read, or now will be, into free blocks.
  bool fetch(Sequence& sequence, std::span<const std::int32_t> known, std::size_t usable, const StepCost& cost);
  /// `sequence` is admitted, with `blocks` blocks from the cache.
  void used(Sequence& sequence, std::int64_t blocks);
  /// Block `index` of the sequence has become known as `block`, or what layers with a window have of it.
  void add(Sequence& sequence, std::int64_t index, std::int32_t block);
  /// Hands out what is to be written, some blocks at a time.
  void write();
  /// Writes what is left, for at most so long.
  void finish(double seconds);

  bool busy() const { return !writing_.empty() || !loads_.empty(); }
  /// Blocks that only reading and writing keeps busy.
  std::int64_t busy_blocks() const;
  std::int64_t busy_window_blocks() const;
  kvcache::DiskStore::Statistics statistics() const { return store_.statistics(); }

 private:
  /// A file that is read.
  struct Item {
    kvcache::BlockKey key;
    std::size_t index;  // of the block in its sequence
    std::int32_t ticket;
    bool good = false;
  };
  /// What is read for one request.
  struct Load {
    std::vector<std::int32_t> before = {};  // the blocks that it follows, all that the tree knew
    std::vector<std::int32_t> pinned = {};  // tickets of what must stay until it is read
    std::vector<std::int32_t> tokens = {};  // from the first block that is read on
    std::uint64_t partition = 0;
    std::vector<Item> blocks = {}, parts = {};
    std::size_t left = 0;
  };
  /// What a sequence could begin with if some files were read: `end` blocks.
  struct Reach {
    std::size_t end, first_part;  // of layers with a window, blocks [first_part, end) are needed
  };

  void name_blocks(Sequence& sequence, std::int64_t blocks) const;
  Reach reach(std::span<const std::int32_t> known, std::span<const kvcache::BlockKey> keys) const;
  void list_missing(Load& load, std::span<const kvcache::BlockKey> keys, const Reach& reach) const;
  void begin_reading(Load& load);
  bool write_one(const kvcache::BlockKey& key, std::int64_t depth, std::int32_t ticket);
  void settle(Load& load);

  // A ticket is a block, or, from the number of blocks on, one of layers with a window.
  std::int32_t part_ticket(std::int32_t part) const { return static_cast<std::int32_t>(pool_.blocks()) + part; }
  bool is_part(std::int32_t ticket) const { return ticket >= pool_.blocks(); }
  std::int32_t number(std::int32_t ticket) const { return is_part(ticket) ? ticket - part_ticket(0) : ticket; }
  kvcache::BlockPool& pool_of(std::int32_t ticket) const { return is_part(ticket) ? parts_->pool() : pool_; }
  std::span<std::byte> memory_of(std::int32_t ticket) const { return is_part(ticket) ? window_memory_(number(ticket)) : memory_(ticket); }

  kvcache::DiskStore& store_;
  kvcache::BlockPool& pool_;
  kvcache::PrefixTree& tree_;
  const std::int64_t block_tokens_;
  const Memory memory_;
  kvcache::WindowParts* const parts_;
  const Memory window_memory_;
  struct Unwritten {
    kvcache::BlockKey key;
    std::int64_t depth;
    bool queued;  // stands in queue_, perhaps for what the block held before
    bool wanted;  // `key` is what it holds now, as long as the tree knows it, and the disk may lack that
  };
  std::vector<Unwritten> of_block_;
  std::vector<std::int32_t> queue_;  // a ring of blocks to be written, each there at most once
  std::size_t first_ = 0, queued_ = 0;
  std::vector<std::int32_t> writing_;  // tickets
  std::vector<Load> loads_;
  std::unordered_set<kvcache::BlockKey, kvcache::BlockKeyHash> loading_;
  std::vector<kvcache::DiskStore::Done> done_;
};

}  // namespace quern::engine::detail
