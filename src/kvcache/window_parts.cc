#include "kvcache/window_parts.h"

#include "base/error.h"

namespace quern::kvcache {

WindowParts::WindowParts(std::size_t nodes, BlockPool& pool, std::int64_t block_tokens, std::int64_t window)
    : pool_(pool),
      block_tokens_(block_tokens),
      window_(window),
      part_(nodes, kNone),
      wanted_(nodes, false),
      held_(nodes, false),
      node_(static_cast<std::size_t>(pool.blocks()), kNone),
      order_(node_.size()) {
  QUERN_ASSERT(block_tokens > 0 && window > 0);
}

void WindowParts::give(std::int32_t node, std::int32_t block) {
  QUERN_ASSERT(of(node) == kNone && !knows(block));
  part_[static_cast<std::size_t>(node)] = block;
  node_[static_cast<std::size_t>(block)] = node;
  order_.add_newest(block);
  pool_.keep(block);
}

void WindowParts::drop(std::int32_t node) {
  const std::int32_t block = of(node);
  if (block == kNone) return;
  hold(node, false);
  part_[static_cast<std::size_t>(node)] = kNone;
  node_[static_cast<std::size_t>(block)] = kNone;
  order_.remove(block);
  pool_.drop(block);
}

std::size_t WindowParts::usable(std::span<const std::int32_t> nodes) const {
  std::size_t count = nodes.size();
  const auto needed = [&](std::size_t i) {
    return static_cast<std::int64_t>(i) >= first_seen(static_cast<std::int64_t>(count) * block_tokens_);
  };
  for (std::size_t i = count; i-- > 0 && needed(i);)
    if (of(nodes[i]) == kNone) count = i;
  return count;
}

void WindowParts::touch(std::span<const std::int32_t> nodes, std::size_t usable) {
  const auto first = [&](std::size_t count) {
    return static_cast<std::size_t>(first_seen(static_cast<std::int64_t>(count) * block_tokens_));
  };
  for (std::size_t i = first(usable); i < usable; ++i) order_.touch(of(nodes[i]));
  for (std::size_t i = first(nodes.size()); i < nodes.size(); ++i) wanted_[static_cast<std::size_t>(nodes[i])] = true;
}

void WindowParts::let_go(std::int32_t block, bool passed) {
  if (!knows(block)) return;
  order_.remove(block);
  passed && !wanted_[static_cast<std::size_t>(node_[static_cast<std::size_t>(block)])] ? order_.add_oldest(block)
                                                                                       : order_.add_newest(block);
}

void WindowParts::hold(std::int32_t node, bool held) {
  const auto i = static_cast<std::size_t>(node);
  if (held == held_[i] || (held && (of(node) == kNone || 2 * held_count_ >= pool_.blocks()))) return;
  held_[i] = held;
  held_count_ += held ? 1 : -1;
}

std::int64_t WindowParts::evict(std::int64_t count) {
  std::int64_t evicted = 0;
  // Who is looked at and stays goes to the end, so each is looked at once.
  for (const bool also_held : {false, true})
    for (auto looks = std::ssize(node_); looks > 0 && evicted < count && order_.oldest() != kNone; --looks) {
      const std::int32_t block = order_.oldest(), node = node_[static_cast<std::size_t>(block)];
      if (pool_.references(block) > 1 || (!also_held && held_[static_cast<std::size_t>(node)])) {
        order_.touch(block);
        continue;
      }
      drop(node);
      ++evicted;
    }
  return evicted;
}

}  // namespace quern::kvcache
