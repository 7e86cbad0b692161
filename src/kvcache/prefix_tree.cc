#include "kvcache/prefix_tree.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "base/error.h"

namespace quern::kvcache {

PrefixTree::PrefixTree(BlockPool& pool, std::int64_t block_tokens, WindowParts* parts)
    : pool_(pool), block_tokens_(block_tokens), parts_(parts), order_(static_cast<std::size_t>(pool.blocks())) {
  QUERN_ASSERT(block_tokens > 0);
  const auto blocks = static_cast<std::size_t>(pool.blocks());
  entries_.resize(blocks);
  tokens_.resize(blocks * static_cast<std::size_t>(block_tokens));
  buckets_.resize(std::bit_ceil(2 * blocks + 1), kRoot);
}

std::uint64_t PrefixTree::hash_of(Node parent, std::uint64_t partition, std::span<const std::int32_t> tokens) const {
  std::uint64_t hash = (static_cast<std::uint64_t>(static_cast<std::uint32_t>(parent)) + 1) * 0x9e3779b97f4a7c15u ^ partition;
  for (const std::int32_t id : tokens) {
    hash = (hash ^ static_cast<std::uint32_t>(id)) * 0xff51afd7ed558ccdu;
    hash ^= hash >> 32;
  }
  return hash;
}

PrefixTree::Node PrefixTree::lookup(Node parent, std::uint64_t partition, std::span<const std::int32_t> tokens) const {
  const std::uint64_t hash = hash_of(parent, partition, tokens);
  for (Node node = buckets_[hash & (buckets_.size() - 1)]; node != kRoot; node = entries_[static_cast<std::size_t>(node)].next_in_bucket) {
    const Entry& entry = entries_[static_cast<std::size_t>(node)];
    if (entry.hash == hash && entry.parent == parent && entry.partition == partition && std::ranges::equal(tokens_of(node), tokens))
      return node;
  }
  return kRoot;
}

PrefixTree::Match PrefixTree::find(std::span<const std::int32_t> tokens, std::uint64_t partition, std::vector<std::int32_t>& blocks) {
  constexpr int kMostLookedAt = 64;  // siblings, newest first, for a block that begins alike: a wide node must not cost more than it saves
  const auto block = static_cast<std::size_t>(block_tokens_);
  Match match;
  blocks.clear();
  for (Node last = kRoot; tokens.size() >= (blocks.size() + 1) * block;) {
    last = lookup(last, partition, tokens.subspan(blocks.size() * block, block));
    if (last == kRoot) break;
    blocks.push_back(last);
  }
  match.usable = parts_ == nullptr ? blocks.size() : parts_->usable(blocks);
  if (match.usable > 0) match.node = blocks[match.usable - 1];
  if (!blocks.empty()) touch(blocks.back());
  if (parts_ != nullptr) parts_->touch(blocks, match.usable);
  tokens = tokens.subspan(match.usable * block);
  Node child = first_child_of(match.node);
  for (int i = 0; i < kMostLookedAt && child != kRoot; ++i, child = at(child).next_sibling) {
    if (at(child).partition != partition || (parts_ != nullptr && parts_->of(child) < 0)) continue;
    const auto known = tokens_of(child);
    const auto alike = static_cast<std::int64_t>(std::ranges::mismatch(known, tokens).in1 - known.begin());
    if (alike > match.partial_tokens) match.partial = child, match.partial_tokens = alike;
  }
  return match;
}

PrefixTree::Node PrefixTree::extend(Node parent, std::uint64_t partition, std::span<const std::int32_t> tokens, std::int32_t block) {
  QUERN_ASSERT(static_cast<std::int64_t>(tokens.size()) == block_tokens_ && (parent == kRoot || at(parent).known));
  if (const Node known = lookup(parent, partition, tokens); known != kRoot) return known;
  Entry& entry = at(block);
  QUERN_ASSERT(!entry.known);
  entry = {.hash = hash_of(parent, partition, tokens), .partition = partition, .parent = parent, .known = true};
  std::ranges::copy(tokens, tokens_.begin() + block * block_tokens_);
  Node& bucket = buckets_[entry.hash & (buckets_.size() - 1)];
  entry.next_in_bucket = std::exchange(bucket, block);
  Node& first = first_child_of(parent);
  if (first != kRoot) at(first).previous_sibling = block;
  entry.next_sibling = std::exchange(first, block);
  order_.add_newest(block);
  pool_.keep(block);
  ++size_;
  return block;
}

void PrefixTree::touch(Node node) {
  for (; node != kRoot; node = at(node).parent) order_.touch(node);
}

void PrefixTree::remove(Node node) {
  Entry& entry = at(node);
  Node* link = &buckets_[entry.hash & (buckets_.size() - 1)];
  while (*link != node) link = &at(*link).next_in_bucket;
  *link = entry.next_in_bucket;
  (entry.previous_sibling == kRoot ? first_child_of(entry.parent) : at(entry.previous_sibling).next_sibling) = entry.next_sibling;
  if (entry.next_sibling != kRoot) at(entry.next_sibling).previous_sibling = entry.previous_sibling;
  order_.remove(node);
  let_go(node);
  if (parts_ != nullptr) parts_->forget(node);
  entry.known = false;
  --size_;
  pool_.drop(node);
}

bool PrefixTree::is_held(Node node) {
  if (at(node).held > now_) return true;
  let_go(node);
  return false;
}

void PrefixTree::let_go(Node node) {
  if (at(node).held == 0) return;
  at(node).held = 0;
  --held_;
  if (parts_ != nullptr) parts_->hold(node, false);
}

void PrefixTree::hold(Node node, double until) {
  const std::int64_t most = pool_.blocks() / 2;
  const auto walk = [&](auto visit) {
    for (Node at = node; at != kRoot; at = this->at(at).parent) visit(at);
  };
  std::int64_t length = 0, needed = 0;
  walk([&](Node at) { ++length, needed += this->at(at).held == 0 ? 1 : 0; });
  if (held_ + needed > most && now_ >= first_end_) {
    first_end_ = std::numeric_limits<double>::infinity();
    for (Node other = 0; other < static_cast<Node>(entries_.size()); ++other)
      if (is_held(other)) first_end_ = std::min(first_end_, at(other).held);
  }
  first_end_ = std::min(first_end_, until);
  needed = 0;
  walk([&](Node at) { needed += this->at(at).held == 0 ? 1 : 0; });
  // Whoever is held, those before it are, too.
  for (; node != kRoot && held_ + needed > most; node = at(node).parent, --length) needed -= at(node).held == 0 ? 1 : 0;
  const std::int64_t first_seen = parts_ == nullptr ? length : parts_->first_seen(length * block_tokens_);
  walk([&](Node at) {
    Entry& entry = this->at(at);
    if (entry.held == 0) ++held_;
    entry.held = std::max(entry.held, until);
    if (--length >= first_seen) parts_->hold(at, true);
  });
}

std::int64_t PrefixTree::evict(std::int64_t count) {
  std::int64_t evicted = 0;
  // Who is looked at and stays goes to the end, so each is looked at once.
  for (const bool also_held : {false, true})
    for (std::int64_t looks = size_; looks > 0 && evicted < count && order_.oldest() != UseOrder::kNone; --looks) {
      Node node = order_.oldest();
      if (pool_.references(node) > 1 || (!also_held && is_held(node))) {
        order_.touch(node);
        continue;
      }
      // Whoever uses a block uses those before it, so what is under an idle one is idle, but for one that is just being written to disk.
      while (at(node).first_child != kRoot) node = at(node).first_child;
      if (pool_.references(node) == 1) ++evicted;
      remove(node);
    }
  return evicted;
}

}  // namespace quern::kvcache
