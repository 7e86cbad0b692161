#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvcache/block_pool.h"
#include "kvcache/use_order.h"
#include "kvcache/window_parts.h"

namespace quern::kvcache {

/// What the cache still knows of sequences that ended or go on elsewhere: a tree of full blocks, each under the block of the tokens before
/// it, so that a new sequence can begin with the blocks of one that begins alike. The tree is one user of each of its blocks; a block that
/// only the tree uses is idle, and is given back when somebody needs room, the longest unused leaf first; those that are held for a time
/// go last. Nothing but the constructor allocates. Not for concurrent use.
/// Source: RadixAttention, Zheng et al. 2023 (SGLang), here with whole blocks as edges.
class PrefixTree {
 public:
  using Node = std::int32_t;  ///< the block itself; kRoot: nothing yet
  static constexpr Node kRoot = -1;

  /// `parts`: of layers that see a window only, where there are such.
  PrefixTree(BlockPool& pool, std::int64_t block_tokens, WindowParts* parts = nullptr);

  struct Match {
    std::size_t usable = 0;     ///< of the blocks that match as a whole, those that a sequence can begin with
    Node node = kRoot;          ///< the last of these
    std::int32_t partial = -1;  ///< a block whose first tokens go on alike; -1: none
    std::int64_t partial_tokens = 0;
  };
  /// The longest known beginning of `tokens`; its whole blocks become `blocks`, still without a reference of the caller's, and count as
  /// used now. Sequences of different partitions never meet.
  Match find(std::span<const std::int32_t> tokens, std::uint64_t partition, std::vector<std::int32_t>& blocks);

  /// Makes known that `block` holds the full block of tokens that follows `parent`. Returns the node of these tokens: another block when
  /// they were known already, and then the tree does not take this one.
  Node extend(Node parent, std::uint64_t partition, std::span<const std::int32_t> tokens, std::int32_t block);

  /// Counts all blocks from the root to `node` as used now.
  void touch(Node node);
  /// The blocks from the root to `node` are given back before `until`, in seconds of `set_time`, only when there are no others. Half of all
  /// blocks may be held so; of what would be more, only the beginning is.
  void hold(Node node, double until);
  /// What time it is.
  void set_time(double now) { now_ = now; }
  /// Gives back up to `count` idle blocks; returns how many.
  std::int64_t evict(std::int64_t count);

  std::int64_t size() const { return size_; }
  bool knows(Node node) const { return entries_[static_cast<std::size_t>(node)].known; }

 private:
  struct Entry {
    std::uint64_t hash = 0, partition = 0;
    Node parent = kRoot, first_child = kRoot, next_sibling = kRoot, previous_sibling = kRoot;
    Node next_in_bucket = kRoot;
    bool known = false;
    double held = 0;  // until then; 0: not at all
  };

  Entry& at(Node node) { return entries_[static_cast<std::size_t>(node)]; }
  std::span<const std::int32_t> tokens_of(Node node) const {
    return {tokens_.data() + node * block_tokens_, static_cast<std::size_t>(block_tokens_)};
  }
  std::uint64_t hash_of(Node parent, std::uint64_t partition, std::span<const std::int32_t> tokens) const;
  Node lookup(Node parent, std::uint64_t partition, std::span<const std::int32_t> tokens) const;
  Node& first_child_of(Node parent) { return parent == kRoot ? root_children_ : at(parent).first_child; }
  void remove(Node node);
  bool is_held(Node node);
  void let_go(Node node);

  BlockPool& pool_;
  std::int64_t block_tokens_, size_ = 0, held_ = 0;
  double now_ = 0, first_end_ = 0;  // no held block's time is over before first_end_
  WindowParts* parts_;
  std::vector<Entry> entries_;        // by block
  std::vector<std::int32_t> tokens_;  // [blocks, block_tokens]
  std::vector<Node> buckets_;
  UseOrder order_;
  Node root_children_ = kRoot;
};

}  // namespace quern::kvcache
