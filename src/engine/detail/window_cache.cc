#include "engine/detail/window_cache.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"

namespace quern::engine::detail {

using kvcache::BlockTable;

WindowCache::WindowCache(const Limits& limits, Copy copy)
    : limits_(limits),
      copy_(std::move(copy)),
      pool_(limits.blocks),
      parts_(static_cast<std::size_t>(limits.nodes), pool_, limits.block_tokens, limits.window) {
  tables_.reserve(static_cast<std::size_t>(limits.rows));
  for (std::int64_t row = 0; row < limits.rows; ++row) tables_.emplace_back(pool_, limits.block_tokens, limits.max_blocks_per_sequence);
  block_table_.resize(static_cast<std::size_t>(limits.rows * limits.max_blocks_per_sequence), 0);
  known_.reserve(static_cast<std::size_t>(limits.max_blocks_per_sequence));
}

void WindowCache::show(std::int32_t row, std::int64_t from, std::int64_t to) {
  const auto shown = block_table_.begin() + row * limits_.max_blocks_per_sequence;
  for (std::int64_t i = from; i < to; ++i) shown[i] = std::max(table(row).blocks()[static_cast<std::size_t>(i)], 0);
}

bool WindowCache::make_room(std::int64_t blocks) {
  if (const std::int64_t missing = blocks - pool_.free_blocks(); missing > 0) parts_.evict(missing);
  return blocks <= pool_.free_blocks();
}

void WindowCache::begin(std::int32_t row, std::span<const std::int32_t> nodes) {
  const std::int64_t count = std::ssize(nodes), first = parts_.first_seen(count * limits_.block_tokens);
  known_.assign(nodes.size(), BlockTable::kGone);
  for (auto i = static_cast<std::size_t>(first); i < nodes.size(); ++i) known_[i] = parts_.of(nodes[i]);
  table(row).begin_with(known_);
  show(row, 0, count);
}

std::int32_t WindowCache::pin(std::int32_t node) {
  const std::int32_t part = node < 0 ? -1 : parts_.of(node);
  if (part >= 0) pool_.add_reference(part);
  return part;
}

void WindowCache::unpin(std::int32_t pinned) {
  if (pinned >= 0) pool_.release(pinned);
}

bool WindowCache::begin_within(std::int32_t row, std::int32_t node, std::int64_t tokens) {
  const std::int32_t from = pin(node);
  if (from < 0) return false;
  const bool copied = grow(row, table(row).tokens() + tokens);
  if (copied) copy_(from, table(row).blocks().back());
  unpin(from);
  return copied;
}

bool WindowCache::grow(std::int32_t row, std::int64_t tokens) {
  BlockTable& table = this->table(row);
  const std::int64_t count = std::max<std::int64_t>(tokens - table.tokens(), 0), before = std::ssize(table.blocks());
  if (!make_room(table.blocks_needed(count))) return false;
  std::optional<kvcache::BlockCopy> copy;
  if (!table.append(count, copy)) return false;
  if (copy) copy_(copy->from, copy->to);
  show(row, copy ? before - 1 : before, std::ssize(table.blocks()));
  return true;
}

bool WindowCache::make_known(std::int32_t row, std::int64_t index, std::int32_t node) {
  const std::int32_t own = table(row).blocks()[static_cast<std::size_t>(index)], known = parts_.of(node);
  if (known == own) return false;
  if (known < 0) {
    parts_.give(node, own);
    return true;
  }
  table(row).replace(index, known);
  show(row, index, index + 1);
  return false;
}

void WindowCache::pass(std::int32_t row, std::int64_t tokens, std::int64_t prompt_tokens) {
  // From the border of the last whole block on: that is where another may go on from.
  const auto seen_from = [&](std::int64_t n) { return parts_.first_seen(n / limits_.block_tokens * limits_.block_tokens); };
  BlockTable& table = this->table(row);
  const std::int64_t first = table.gone(), end = seen_from(tokens);
  // The end of a prompt is where its next answer begins, and often the next prompt parts from it there.
  const std::int64_t kept_from = seen_from(prompt_tokens - 1), kept_to = (prompt_tokens - 1) / limits_.block_tokens;
  for (std::int64_t i = first; i < end; ++i) parts_.let_go(table.blocks()[static_cast<std::size_t>(i)], i < kept_from || i >= kept_to);
  if (end <= first) return;
  table.give_back_before(end);
  show(row, first, end);
}

void WindowCache::give_back(std::int32_t row) {
  BlockTable& table = this->table(row);
  for (const std::int32_t block : table.blocks().subspan(static_cast<std::size_t>(table.gone()))) parts_.let_go(block, false);
  std::fill_n(block_table_.begin() + row * limits_.max_blocks_per_sequence, table.blocks().size(), 0);
  table.clear();
}

void WindowCache::follow(std::int32_t row, std::int32_t parent) {
  table(row).begin_with(table(parent).blocks());
  table(row).truncate(table(parent).tokens());
  show(row, 0, std::ssize(table(row).blocks()));
}

}  // namespace quern::engine::detail
