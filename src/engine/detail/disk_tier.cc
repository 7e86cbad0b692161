#include "engine/detail/disk_tier.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <thread>
#include <utility>

namespace quern::engine::detail {
namespace {

constexpr std::int64_t kMostFetches = 3;  // of a request: what is read may have to go again before the request is admitted

}  // namespace

DiskTier::DiskTier(kvcache::DiskStore& store, kvcache::BlockPool& pool, kvcache::PrefixTree& tree, std::int64_t block_tokens, Memory memory,
                   kvcache::WindowParts* parts, Memory window_memory)
    : store_(store),
      pool_(pool),
      tree_(tree),
      block_tokens_(block_tokens),
      memory_(std::move(memory)),
      parts_(parts),
      window_memory_(std::move(window_memory)) {
  const auto blocks = static_cast<std::size_t>(pool.blocks());
  of_block_.resize(blocks);
  queue_.resize(blocks);
  // Enough to keep the disk busy, and few of a small cache: who waits for room waits for these.
  writing_.reserve(std::clamp<std::size_t>(blocks / 8, 1, 32) + (parts == nullptr ? 0 : 1));
}

void DiskTier::name_blocks(Sequence& sequence, std::int64_t blocks) const {
  std::vector<kvcache::BlockKey>& keys = sequence.keys;
  const auto count = static_cast<std::size_t>(blocks), block = static_cast<std::size_t>(block_tokens_);
  while (keys.size() < count)
    keys.push_back(store_.next(keys.empty() ? store_.first(sequence.partition()) : keys.back(),
                               sequence.tokens().subspan(keys.size() * block, block)));
}

/// As far as blocks are known or on disk, and then back to where layers with a window have what they see from there.
DiskTier::Reach DiskTier::reach(std::span<const std::int32_t> known, std::span<const kvcache::BlockKey> keys) const {
  std::size_t end = known.size() + store_.leading(keys.subspan(known.size()));
  if (parts_ == nullptr) return {end, end};
  const auto first = [&] { return static_cast<std::size_t>(parts_->first_seen(static_cast<std::int64_t>(end) * block_tokens_)); };
  for (std::size_t i = end; i-- > first();) {
    if (i < known.size() && parts_->of(known[i]) >= 0) continue;
    const kvcache::BlockKey key = store_.next(keys[i], {});
    if (store_.leading({&key, 1}) == 0) end = i;
  }
  return {end, first()};
}

/// What is on disk and not in memory, of what it takes to reach `reach`.
void DiskTier::list_missing(Load& load, std::span<const kvcache::BlockKey> keys, const Reach& reach) const {
  for (std::size_t i = load.before.size(); i < reach.end; ++i) load.blocks.push_back({keys[i], i, -1});
  for (std::size_t i = reach.first_part; i < reach.end; ++i)
    if (i >= load.before.size() || parts_->of(load.before[i]) < 0) load.parts.push_back({store_.next(keys[i], {}), i, -1});
}

bool DiskTier::fetch(Sequence& sequence, std::span<const std::int32_t> known, std::size_t usable, const StepCost& cost) {
  const std::int64_t whole = sequence.skippable() / block_tokens_;
  if (static_cast<std::int64_t>(usable) >= whole || sequence.fetches >= kMostFetches) return false;
  try {
    name_blocks(sequence, whole);
    const std::span<const kvcache::BlockKey> keys = std::span(sequence.keys).first(static_cast<std::size_t>(whole));
    if (known.size() < keys.size() && loading_.contains(keys[known.size()])) return true;
    const Reach reach = this->reach(known, keys);
    if (reach.end <= usable) return false;
    Load load{.before = {known.begin(), known.end()}, .partition = sequence.partition()};
    list_missing(load, keys, reach);
    for (const Item& item : load.parts)
      if (loading_.contains(item.key)) return true;
    const auto tokens = static_cast<double>(static_cast<std::int64_t>(reach.end - usable) * block_tokens_);
    const double begin = static_cast<double>(static_cast<std::int64_t>(usable) * block_tokens_);
    const double compute = cost.predict({.prompt_tokens = static_cast<std::int64_t>(tokens), .prompt_keys = tokens * (begin + tokens / 2)});
    if (compute > 0 && compute < store_.seconds_to_read(load.blocks.size() + load.parts.size())) return false;

    const std::span<const std::int32_t> text = sequence.tokens().subspan(known.size() * static_cast<std::size_t>(block_tokens_));
    load.tokens.assign(text.begin(), text.begin() + std::ssize(load.blocks) * block_tokens_);
    load.before.reserve(known.size() + load.blocks.size());
    load.pinned.reserve(2 * known.size());
    loads_.reserve(loads_.size() + 1);
    done_.reserve(done_.size() + load.blocks.size() + load.parts.size());
    for (const auto* items : {&load.blocks, &load.parts})
      for (const Item& item : *items) loading_.insert(item.key);
    begin_reading(load);
    ++sequence.fetches;
    loads_.push_back(std::move(load));
    if (loads_.back().left > 0) return true;
    settle(loads_.back());
    loads_.pop_back();
    return false;
  } catch (const std::bad_alloc&) {
    return false;  // it is computed
  }
}

/// Takes blocks for what is to be read, as far as there are any, and has them read. Allocates nothing.
void DiskTier::begin_reading(Load& load) {
  const auto pin = [&](std::int32_t ticket) {
    pool_of(ticket).add_reference(number(ticket));
    load.pinned.push_back(ticket);
  };
  for (const std::int32_t block : load.before) {  // they stay, whatever else has to go
    pin(block);
    if (parts_ != nullptr && parts_->of(block) >= 0) pin(part_ticket(parts_->of(block)));
  }
  bool room = true;
  const auto take = [&](Item& item, kvcache::BlockPool& pool, auto& owner, std::int32_t first) {
    room = room && (pool.free_blocks() > 0 || owner.evict(1) > 0);
    if (room) item.ticket = first + *pool.allocate();
  };
  for (Item& item : load.blocks) take(item, pool_, tree_, 0);
  for (Item& item : load.parts) take(item, parts_->pool(), *parts_, part_ticket(0));
  try {
    for (auto* items : {&load.blocks, &load.parts})
      for (const Item& item : *items) {
        if (item.ticket < 0) continue;
        store_.read(item.key, memory_of(item.ticket), item.ticket);
        ++load.left;
      }
  } catch (const std::bad_alloc&) {  // what was asked for is read; the rest counts as not good
  }
}

/// All of it has been read: the blocks up to the first that was no good join the tree, unless they came there another way meanwhile.
void DiskTier::settle(Load& load) {
  kvcache::PrefixTree::Node node = load.before.empty() ? kvcache::PrefixTree::kRoot : load.before.back();
  const auto block = static_cast<std::size_t>(block_tokens_);
  std::vector<std::int32_t>& nodes = load.before;
  for (std::size_t i = 0; i < load.blocks.size() && load.blocks[i].good; ++i) {
    const std::int32_t read = load.blocks[i].ticket;
    of_block_[static_cast<std::size_t>(read)].wanted = false;  // another block may still be queued under this number
    node = tree_.extend(node, load.partition, std::span(load.tokens).subspan(i * block, block), read);
    nodes.push_back(node);
  }
  for (const Item& item : load.parts)
    if (item.good && item.index < nodes.size() && parts_->of(nodes[item.index]) < 0) parts_->give(nodes[item.index], number(item.ticket));
  for (const auto* items : {&load.blocks, &load.parts})
    for (const Item& item : *items) {
      loading_.erase(item.key);
      if (item.ticket >= 0) pool_of(item.ticket).release(number(item.ticket));
    }
  for (const std::int32_t ticket : load.pinned) pool_of(ticket).release(number(ticket));
}

void DiskTier::collect() {
  try {
    store_.take_done(done_);
  } catch (const std::bad_alloc&) {
    return;  // next time
  }
  for (const kvcache::DiskStore::Done& done : done_) {
    if (!done.was_read) {
      std::erase(writing_, done.ticket);
      pool_of(done.ticket).release(number(done.ticket));
      continue;
    }
    for (std::size_t i = 0; i < loads_.size(); ++i) {
      Load& load = loads_[i];
      std::vector<Item>& items = is_part(done.ticket) ? load.parts : load.blocks;
      const auto item = std::ranges::find(items, done.ticket, &Item::ticket);
      if (item == items.end()) continue;
      item->good = done.good;
      if (--load.left > 0) break;
      settle(load);
      std::swap(load, loads_.back());
      loads_.pop_back();
      break;
    }
  }
  done_.clear();
}

void DiskTier::used(Sequence& sequence, std::int64_t blocks) {
  sequence.fetches = 0;
  const std::span<const kvcache::BlockKey> keys =
      std::span(sequence.keys).first(std::min(sequence.keys.size(), static_cast<std::size_t>(blocks)));
  store_.used(keys);
  if (parts_ == nullptr) return;
  for (auto i = static_cast<std::size_t>(parts_->first_seen(std::ssize(keys) * block_tokens_)); i < keys.size(); ++i) {
    const kvcache::BlockKey part = store_.next(keys[i], {});
    store_.used({&part, 1}, i);
  }
}

void DiskTier::add(Sequence& sequence, std::int64_t index, std::int32_t block) {
  Unwritten& entry = of_block_[static_cast<std::size_t>(block)];
  entry.wanted = false;
  try {
    name_blocks(sequence, index + 1);
  } catch (const std::bad_alloc&) {
    return;  // it is not kept
  }
  entry.wanted = true;
  entry.key = sequence.keys[static_cast<std::size_t>(index)];
  entry.depth = index;
  if (std::exchange(entry.queued, true)) return;
  queue_[(first_ + queued_++) % queue_.size()] = block;
}

/// Unless it is there already. False without memory for that.
bool DiskTier::write_one(const kvcache::BlockKey& key, std::int64_t depth, std::int32_t ticket) {
  if (store_.leading({&key, 1}) > 0 || std::ranges::find(writing_, ticket) != writing_.end()) return true;
  try {
    store_.write(key, static_cast<std::size_t>(depth), memory_of(ticket), ticket);
  } catch (const std::bad_alloc&) {
    return false;
  }
  pool_of(ticket).add_reference(number(ticket));
  writing_.push_back(ticket);
  return true;
}

void DiskTier::write() {
  while (queued_ > 0 && writing_.size() + (parts_ == nullptr ? 0 : 1) < writing_.capacity()) {
    const std::int32_t block = queue_[first_];
    Unwritten& entry = of_block_[static_cast<std::size_t>(block)];
    // It may have had to go meanwhile; what is in its place now is not known yet.
    if (entry.wanted && tree_.knows(block)) {
      const std::int32_t part = parts_ == nullptr ? -1 : parts_->of(block);
      if (!write_one(entry.key, entry.depth, block)) return;
      if (part >= 0 && !write_one(store_.next(entry.key, {}), entry.depth, part_ticket(part))) return;
    }
    entry.queued = false;
    first_ = (first_ + 1) % queue_.size();
    --queued_;
  }
}

void DiskTier::finish(double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while ((queued_ > 0 || !writing_.empty()) && std::chrono::steady_clock::now() < end) {
    write();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    collect();
  }
}

std::int64_t DiskTier::busy_blocks() const {
  std::int64_t count = std::ranges::count_if(
      writing_, [&](std::int32_t ticket) { return !is_part(ticket) && pool_.references(ticket) == (tree_.knows(ticket) ? 2 : 1); });
  for (const Load& load : loads_) count += std::ranges::count_if(load.blocks, [](const Item& item) { return item.ticket >= 0; });
  return count;
}

std::int64_t DiskTier::busy_window_blocks() const {
  if (parts_ == nullptr) return 0;
  std::int64_t count = std::ranges::count_if(writing_, [&](std::int32_t ticket) {
    return is_part(ticket) && parts_->pool().references(number(ticket)) == (parts_->knows(number(ticket)) ? 2 : 1);
  });
  for (const Load& load : loads_) count += std::ranges::count_if(load.parts, [](const Item& item) { return item.ticket >= 0; });
  return count;
}

}  // namespace quern::engine::detail
