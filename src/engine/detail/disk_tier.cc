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

DiskTier::DiskTier(kvcache::DiskStore& store, kvcache::BlockPool& pool, kvcache::PrefixTree& tree, std::int64_t block_tokens, Memory memory)
    : store_(store), pool_(pool), tree_(tree), block_tokens_(block_tokens), memory_(std::move(memory)) {
  const auto blocks = static_cast<std::size_t>(pool.blocks());
  of_block_.resize(blocks);
  queue_.resize(blocks);
  // Enough to keep the disk busy, and few of a small cache: who waits for room waits for these.
  writing_.reserve(std::clamp<std::size_t>(blocks / 8, 1, 32));
}

void DiskTier::name_blocks(Sequence& sequence, std::int64_t blocks) const {
  std::vector<kvcache::BlockKey>& keys = sequence.keys;
  const auto count = static_cast<std::size_t>(blocks), block = static_cast<std::size_t>(block_tokens_);
  while (keys.size() < count)
    keys.push_back(store_.next(keys.empty() ? store_.first(sequence.partition()) : keys.back(),
                               sequence.tokens().subspan(keys.size() * block, block)));
}

bool DiskTier::fetch(Sequence& sequence, std::span<const std::int32_t> known, const StepCost& cost) {
  const std::int64_t whole = sequence.skippable() / block_tokens_;
  const std::size_t from = known.size();
  if (std::ssize(known) >= whole || sequence.fetches >= kMostFetches) return false;
  try {
    name_blocks(sequence, whole);
    const std::span<const kvcache::BlockKey> keys = std::span(sequence.keys).first(static_cast<std::size_t>(whole)).subspan(from);
    if (loading_.contains(keys.front())) return true;
    const std::size_t count = store_.leading(keys);
    if (count == 0) return false;
    const auto tokens = static_cast<double>(static_cast<std::int64_t>(count) * block_tokens_);
    const double begin = static_cast<double>(static_cast<std::int64_t>(from) * block_tokens_);
    const double compute = cost.predict({.prompt_tokens = static_cast<std::int64_t>(tokens), .prompt_keys = tokens * (begin + tokens / 2)});
    if (compute > 0 && compute < store_.seconds_to_read(count)) return false;

    Load load{.before = {known.begin(), known.end()},
              .keys = {keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(count)},
              .partition = sequence.partition()};
    const std::span<const std::int32_t> text = sequence.tokens().subspan(from * static_cast<std::size_t>(block_tokens_));
    load.tokens.assign(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(tokens));
    load.items.reserve(count);
    loads_.reserve(loads_.size() + 1);
    done_.reserve(done_.size() + count);
    for (const kvcache::BlockKey& key : load.keys) loading_.insert(key);
    for (const std::int32_t block : load.before) pool_.add_reference(block);  // they stay, whatever else has to go
    while (load.items.size() < count) {
      if (pool_.free_blocks() == 0 && tree_.evict(1) == 0) break;
      load.items.push_back({*pool_.allocate(), false});
    }
    for (std::size_t i = 0; i < load.items.size(); ++i) {
      try {
        store_.read(load.keys[i], memory_(load.items[i].block), load.items[i].block);
        ++load.left;
      } catch (const std::bad_alloc&) {
        break;  // what was asked for is read; the rest counts as not good
      }
    }
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

/// All of it has been read: the blocks up to the first that was no good join the tree, unless they came there another way meanwhile.
void DiskTier::settle(Load& load) {
  kvcache::PrefixTree::Node node = load.before.empty() ? kvcache::PrefixTree::kRoot : load.before.back();
  const auto block = static_cast<std::size_t>(block_tokens_);
  for (std::size_t i = 0; i < load.items.size() && load.items[i].good; ++i) {
    of_block_[static_cast<std::size_t>(load.items[i].block)].wanted = false;  // another block may still be queued under this number
    node = tree_.extend(node, load.partition, std::span(load.tokens).subspan(i * block, block), load.items[i].block);
  }
  for (const kvcache::BlockKey& key : load.keys) loading_.erase(key);
  for (const Item& item : load.items) pool_.release(item.block);
  for (const std::int32_t before : load.before) pool_.release(before);
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
      pool_.release(done.ticket);
      continue;
    }
    for (std::size_t i = 0; i < loads_.size(); ++i) {
      Load& load = loads_[i];
      const auto item = std::ranges::find(load.items, done.ticket, &Item::block);
      if (item == load.items.end()) continue;
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
  store_.used(std::span(sequence.keys).first(std::min(sequence.keys.size(), static_cast<std::size_t>(blocks))));
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

void DiskTier::write() {
  while (queued_ > 0 && writing_.size() < writing_.capacity()) {
    const std::int32_t block = queue_[first_];
    Unwritten& entry = of_block_[static_cast<std::size_t>(block)];
    // It may have had to go meanwhile; what is in its place now is not known yet.
    if (entry.wanted && tree_.knows(block) && store_.leading({&entry.key, 1}) == 0) {
      try {
        store_.write(entry.key, static_cast<std::size_t>(entry.depth), memory_(block), block);
      } catch (const std::bad_alloc&) {
        return;
      }
      pool_.add_reference(block);
      writing_.push_back(block);
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
  std::int64_t count =
      std::ranges::count_if(writing_, [&](std::int32_t block) { return pool_.references(block) == (tree_.knows(block) ? 2 : 1); });
  for (const Load& load : loads_) count += std::ssize(load.items);
  return count;
}

}  // namespace quern::engine::detail
