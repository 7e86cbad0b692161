#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kvcache/block_pool.h"
#include "kvcache/use_order.h"

namespace quern::kvcache {

/// What the nodes of a PrefixTree know of layers that see only a window of tokens: these have blocks of their own, from a smaller pool, and
/// a node may lack its one. A beginning of n tokens can be gone on from only where the nodes of the last tokens before n have theirs. A
/// part is given back when its node is, and before it when room is needed: those that a sequence has passed go first, the one passed last
/// before all others (so that what stays longest is how a text begins); then, by last use, those where texts end, and those at which texts
/// were seen to part. Nothing but the constructor allocates. Not for concurrent use.
class WindowParts {
 public:
  /// For a tree of `nodes` nodes; `pool` is the parts'. A token sees the `window` newest, itself included.
  WindowParts(std::size_t nodes, BlockPool& pool, std::int64_t block_tokens, std::int64_t window);

  BlockPool& pool() const { return pool_; }
  /// The first block that is seen by what comes after `tokens` tokens.
  std::int64_t first_seen(std::int64_t tokens) const { return tokens < window_ ? 0 : (tokens - window_ + 1) / block_tokens_; }

  /// The part of a node; -1: none.
  std::int32_t of(std::int32_t node) const { return part_[static_cast<std::size_t>(node)]; }
  /// Whether a block is some node's part.
  bool knows(std::int32_t block) const { return node_[static_cast<std::size_t>(block)] != kNone; }
  /// A node that has none is given one.
  void give(std::int32_t node, std::int32_t block);
  /// A node loses its part, if it has one.
  void drop(std::int32_t node);
  /// A node goes, and its part with it.
  void forget(std::int32_t node) {
    drop(node);
    wanted_[static_cast<std::size_t>(node)] = false;
  }

  /// How many of these nodes, from the root on, can be gone on from.
  std::size_t usable(std::span<const std::int32_t> nodes) const;
  /// A text begins with these nodes and goes on otherwise, and it can begin with `usable` of them: what is seen from there is used now, and
  /// what is seen from behind all is worth keeping, also where it has to be computed again first.
  void touch(std::span<const std::int32_t> nodes, std::size_t usable);
  /// A sequence that had this block needs it no more. `passed`: it has gone on, and what it saw of it nobody has asked for yet.
  void let_go(std::int32_t block, bool passed);
  /// The part of a node goes only when there are no others, or no more so. Half of all parts may be held.
  void hold(std::int32_t node, bool held);
  /// Gives back up to `count` parts that nobody uses; returns how many.
  std::int64_t evict(std::int64_t count);

 private:
  static constexpr std::int32_t kNone = -1;
  BlockPool& pool_;
  std::int64_t block_tokens_, window_;
  std::vector<std::int32_t> part_;  // by node
  std::vector<bool> wanted_;        // by node: it is seen from where texts part
  std::vector<bool> held_;          // by node
  std::int64_t held_count_ = 0;
  std::vector<std::int32_t> node_;  // by block
  UseOrder order_;
};

}  // namespace quern::kvcache
