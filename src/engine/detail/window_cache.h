#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kvcache/block_pool.h"
#include "kvcache/block_table.h"
#include "kvcache/window_parts.h"

namespace quern::engine::detail {

/// The batcher's second cache, of layers that see a window of tokens only. A sequence has places in it for what it has computed, not for
/// what it will, and gives a block back once none of its later tokens can see it. What it knows of others hangs on the nodes of the prefix
/// tree.
///
/// There are enough blocks for all rows of the block table, so that a row need never be sent back for want of one. Where the disk keeps
/// some busy, a row sits out a step.
class WindowCache {
 public:
  /// Copies one block to another, in all layers that have a window.
  using Copy = std::function<void(std::int32_t from, std::int32_t to)>;
  struct Limits {
    std::int64_t window, blocks, block_tokens, rows, max_blocks_per_sequence;
    std::int64_t nodes;  // of the tree
  };
  WindowCache(const Limits& limits, Copy copy);

  kvcache::WindowParts& parts() { return parts_; }
  kvcache::BlockPool& pool() { return pool_; }
  const kvcache::BlockPool& pool() const { return pool_; }

  /// An empty row begins with what is seen from behind these nodes, which have it.
  void begin(std::int32_t row, std::span<const std::int32_t> nodes);
  /// And goes on with the first `tokens` of another node's block, if it has one and there is room for a copy.
  bool begin_within(std::int32_t row, std::int32_t node, std::int64_t tokens);
  /// The part of a node, which stays until it is let go; -1: it has none.
  std::int32_t pin(std::int32_t node);
  void unpin(std::int32_t pinned);

  /// Places for all of the first `tokens` tokens that the row does not have yet; false, and nothing is changed, when there are too few
  /// blocks.
  bool grow(std::int32_t row, std::int64_t tokens);
  /// Forgets all from `tokens` on.
  void truncate(std::int32_t row, std::int64_t tokens) { table(row).truncate(tokens); }
  std::int32_t slot(std::int32_t row, std::int64_t position) { return table(row).slot(position); }
  /// Block `index` of the row belongs to a node of the tree. Gives it to the node, or takes the node's own in its place; true: the former.
  bool make_known(std::int32_t row, std::int64_t index, std::int32_t node);
  /// The row, of a sequence whose prompt has so many tokens, has computed `tokens` tokens, which stay: what no later one sees is given
  /// back.
  void pass(std::int32_t row, std::int64_t tokens, std::int64_t prompt_tokens);
  void give_back(std::int32_t row);
  /// An empty row becomes a copy of another.
  void follow(std::int32_t row, std::int32_t parent);

  /// [rows, max_blocks_per_sequence]
  std::span<const std::int32_t> block_table() const { return block_table_; }

 private:
  kvcache::BlockTable& table(std::int32_t row) { return tables_[static_cast<std::size_t>(row)]; }
  /// Blocks [from, to) of the row, to the block table; what is gone is any.
  void show(std::int32_t row, std::int64_t from, std::int64_t to);
  bool make_room(std::int64_t blocks);

  const Limits limits_;
  const Copy copy_;
  kvcache::BlockPool pool_;
  kvcache::WindowParts parts_;
  std::vector<kvcache::BlockTable> tables_;  // by row
  std::vector<std::int32_t> block_table_, known_;
};

}  // namespace quern::engine::detail
