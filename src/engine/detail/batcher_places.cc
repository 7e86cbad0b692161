// Who runs in the batcher, and where its keys and values lie: requests come in when there are blocks for their tokens, begin with what the
// prefix tree knows, and give their blocks back when they end or others need them more.
#include <algorithm>
#include <limits>
#include <new>
#include <optional>
#include <utility>

#include "base/faults.h"
#include "engine/detail/batcher.h"

namespace quern::engine::detail {

void Batcher::keep_waiting(std::unique_ptr<Sequence> sequence) noexcept {
  try {
    const Ticket ticket = sequence->ticket();
    waiting_.add(sequence, ticket);
    next_deadline_ = std::min(next_deadline_, ticket.deadline);
  } catch (const std::bad_alloc&) {
    sequence->fail(Code::resource_exhausted, "no memory for another request");
  }
}

/// Gives `count` more tokens their places in the cache and in the block table, if there are blocks.
bool Batcher::append(std::int32_t row, std::int64_t count) {
  kvcache::BlockTable& table = tables_[static_cast<std::size_t>(row)];
  const std::int64_t needed = table.blocks_needed(count);
  if (needed > 0 && faults::due(faults::Point::block)) return false;
  if (const std::int64_t missing = needed - pool_.free_blocks(); missing > 0) tree_.evict(missing);
  const std::size_t before = table.blocks().size();
  std::optional<kvcache::BlockCopy> copy;
  if (!table.append(count, copy)) return false;
  const std::size_t changed = copy ? before - 1 : before;  // beams share blocks that are not full
  if (copy) copy_(copy->from, copy->to);
  std::copy(table.blocks().begin() + static_cast<std::ptrdiff_t>(changed), table.blocks().end(),
            block_table_.begin() + row * limits_.max_blocks_per_sequence + static_cast<std::ptrdiff_t>(changed));
  return true;
}

/// An empty row has the tokens of another, and shares its blocks.
void Batcher::share(std::int32_t row, std::int32_t parent) {
  kvcache::BlockTable &table = tables_[static_cast<std::size_t>(row)], &from = tables_[static_cast<std::size_t>(parent)];
  table.begin_with(from.blocks());
  table.truncate(from.tokens());
  std::copy(table.blocks().begin(), table.blocks().end(), block_table_.begin() + row * limits_.max_blocks_per_sequence);
  if (window_) window_->follow(row, parent);
}

void Batcher::clear_row(std::int32_t row) {
  kvcache::BlockTable& table = tables_[static_cast<std::size_t>(row)];
  std::fill_n(block_table_.begin() + row * limits_.max_blocks_per_sequence, table.blocks().size(), 0);
  table.clear();
  if (window_) window_->give_back(row);
}

/// A newcomer's places: the blocks of `match`, which are known already, and new ones for the rest. False when there is no room after all.
bool Batcher::place(Sequence& sequence, kvcache::PrefixTree::Match match) {
  kvcache::BlockTable& table = tables_[static_cast<std::size_t>(sequence.row)];
  table.begin_with(known_blocks_);
  if (window_) window_->begin(sequence.row, known_blocks_);
  std::copy(known_blocks_.begin(), known_blocks_.end(), block_table_.begin() + sequence.row * limits_.max_blocks_per_sequence);
  sequence.known_blocks = static_cast<std::int64_t>(known_blocks_.size());
  sequence.known = match.node;
  sequence.computed = table.tokens();
  const std::int64_t missing = sequence.size() - table.tokens();
  const bool copies = match.partial >= 0 && match.partial_tokens < missing;
  if (copies) pool_.add_reference(match.partial);  // not to be given back before it is copied
  bool placed = append(sequence.row, missing);
  if (placed && copies && (!window_ || window_->begin_within(sequence.row, match.partial, match.partial_tokens))) {
    copy_(match.partial, table.blocks()[known_blocks_.size()]);
    sequence.computed += match.partial_tokens;
  }
  if (copies) pool_.release(match.partial);
  if (!placed) placed = append(sequence.row, missing);  // in the place of what was to be copied
  if (!placed) return false;
  if (sequence.generated() == 0) sequence.cached = sequence.computed;
  done_.cached_prompt_tokens += std::min(sequence.computed, sequence.prompt_tokens());
  if (disk_) disk_->used(sequence, sequence.known_blocks);
  return true;
}

/// Tells the tree of blocks that have become full, and takes its own where it knew the tokens already: the same bits, once.
void Batcher::make_known(Sequence& sequence) {
  kvcache::BlockTable& table = tables_[static_cast<std::size_t>(sequence.row)];
  const auto block = static_cast<std::size_t>(limits_.block_tokens);
  while (limits_.prefix_cache && (sequence.known_blocks + 1) * limits_.block_tokens <= sequence.computed) {
    const auto i = static_cast<std::size_t>(sequence.known_blocks);
    const std::int32_t own = table.blocks()[i];
    sequence.known = tree_.extend(sequence.known, sequence.partition(), sequence.tokens().subspan(i * block, block), own);
    const bool gave = window_ && window_->make_known(sequence.row, sequence.known_blocks, sequence.known);
    if (disk_ && (gave || sequence.known == own)) disk_->add(sequence, sequence.known_blocks, sequence.known);
    if (sequence.known != own) {
      table.replace(sequence.known_blocks, sequence.known);
      block_table_[static_cast<std::size_t>(sequence.row * limits_.max_blocks_per_sequence) + i] = sequence.known;
    }
    ++sequence.known_blocks;
  }
  if (window_) window_->pass(sequence.row, sequence.computed, sequence.prompt_tokens());
}

void Batcher::give_back(Sequence& sequence) {
  if (sequence.row < 0) return;
  end_guesses(sequence);
  tree_.touch(sequence.known);
  clear_row(sequence.row);
  free_rows_.push_back(std::exchange(sequence.row, -1));
  if (!sequence.is_extra_beam()) waiting_.left(sequence.tenant());
  if (BeamGroup* group = sequence.group(); group != nullptr && !sequence.is_extra_beam()) {
    free_rows_.insert(free_rows_.end(), group->rows.begin(), group->rows.end());
    group->rows.clear();
  }
  sequence.computed = sequence.known_blocks = 0;
  sequence.known = kvcache::PrefixTree::kRoot;
}

void Batcher::preempt_youngest() {
  for (; running_.back()->is_extra_beam(); running_.pop_back()) give_back(*running_.back());
  std::unique_ptr<Sequence> sequence = std::move(running_.back());
  running_.pop_back();
  give_back(*sequence);
  if (sequence->group() != nullptr) sequence->restart_search();
  keep_waiting(std::move(sequence));
  ++done_.preemptions;
}

void Batcher::drop_cancelled() {
  const auto cancelled = [&](const std::unique_ptr<Sequence>& sequence) {
    if (!sequence->cancelled()) return false;
    give_back(*sequence);
    sequence->finish(FinishReason::cancelled);
    return true;
  };
  std::erase_if(running_, cancelled);
  // Very many may wait: they are looked through only when somebody gave up or a deadline has come.
  const std::uint64_t given_up = Channel::cancellations();
  const double time = now();
  if (waiting_.empty() || (given_up == given_up_ && time < next_deadline_)) return;
  given_up_ = given_up;
  next_deadline_ = std::numeric_limits<double>::infinity();
  waiting_.erase_if([&](const std::unique_ptr<Sequence>& sequence, const Ticket& ticket) {
    if (cancelled(sequence)) return true;
    if (ticket.deadline > time) {
      next_deadline_ = std::min(next_deadline_, ticket.deadline);
      return false;
    }
    sequence->fail(Code::cancelled, "the request was still waiting at its deadline");
    return true;
  });
}

/// A place for the newest token of every running request.
void Batcher::grow() {
  for (std::size_t i = 0; i < running_.size(); ++i) {
    Sequence& sequence = *running_[i];
    const std::int64_t missing = sequence.size() - tables_[static_cast<std::size_t>(sequence.row)].tokens();
    while (!append(sequence.row, missing)) {
      preempt_youngest();
      if (i >= running_.size()) return;  // it was the youngest itself
    }
  }
}

/// Whether much of what it would compute, some request that runs is just computing: then it is worth the wait.
bool Batcher::is_being_computed(const Sequence& sequence, std::int64_t known) const {
  constexpr std::int64_t kWorthIt = 32;  // tokens
  const std::span<const std::int32_t> tokens = sequence.tokens().first(static_cast<std::size_t>(sequence.skippable()));
  for (const auto& other : running_) {
    if (other->pending() <= 1 || other->partition() != sequence.partition()) continue;
    const auto alike = std::ranges::mismatch(tokens, other->tokens()).in1 - tokens.begin();
    const std::int64_t whole = alike / limits_.block_tokens * limits_.block_tokens;
    if (whole - std::max(known, other->computed) >= kWorthIt) return true;
  }
  return false;
}

void Batcher::admit() {
  constexpr int kMostPassed = 64;  // requests that wait for another's tokens while later ones go first
  waiting_.begin(now());
  for (int passed = 0; passed < kMostPassed && !free_rows_.empty();) {
    std::unique_ptr<Sequence>* const next = waiting_.next();
    if (next == nullptr) return;
    Sequence& sequence = **next;
    // At least the last token is computed, for what is read from its row.
    kvcache::PrefixTree::Match match;
    known_blocks_.clear();
    if (limits_.prefix_cache) {
      match = tree_.find(sequence.tokens().first(static_cast<std::size_t>(sequence.skippable())), sequence.partition(), known_blocks_);
      if (is_being_computed(sequence, static_cast<std::int64_t>(match.usable) * limits_.block_tokens)) {
        ++passed;
        continue;
      }
    }
    const auto shared = std::ranges::count_if(std::span(known_blocks_).first(match.usable),
                                              [&](std::int32_t block) { return pool_.references(block) > 1; });
    // A block to spare for each that runs already, lest the newcomer be sent back at once.
    const std::int64_t spare = running_.empty() ? 0 : static_cast<std::int64_t>(running_.size()) + 1;
    const std::int64_t beams = sequence.group() != nullptr ? sequence.beam_width() : 1;  // each will write into a block of its own
    const std::int64_t needed = (sequence.size() + limits_.block_tokens - 1) / limits_.block_tokens - shared + beams - 1;
    if (beams > static_cast<std::int64_t>(free_rows_.size()) || needed + spare > pool_.free_blocks() + pool_.idle_blocks()) return;
    if (disk_) {
      if (match.partial >= 0) pool_.add_reference(match.partial);  // room for what is read is not made of what was just found
      const std::int32_t pinned = window_ ? window_->pin(match.partial) : -1;
      const bool waits = disk_->fetch(sequence, known_blocks_, match.usable, cost_);
      if (match.partial >= 0) pool_.release(match.partial);
      if (window_) window_->unpin(pinned);
      if (waits) {
        ++passed;
        continue;
      }
    }
    known_blocks_.resize(match.usable);
    std::unique_ptr<Sequence> admitted = waiting_.take();
    try {
      sequence.start(limits_.most_guesses);
    } catch (const std::bad_alloc&) {
      waiting_.left(sequence.tenant());
      sequence.fail(Code::resource_exhausted, "no memory for the tokens of the request");
      continue;
    }
    sequence.row = free_rows_.back();
    free_rows_.pop_back();
    for (std::int64_t k = 1; k < beams; ++k, free_rows_.pop_back()) sequence.group()->rows.push_back(free_rows_.back());
    if (!place(sequence, match)) {
      give_back(sequence);
      keep_waiting(std::move(admitted));
      return;
    }
    waiting_.charge(sequence.tenant(), static_cast<double>(sequence.pending()));
    running_.insert(std::upper_bound(running_.begin(), running_.end(), admitted, stands_before), std::move(admitted));
  }
}

}  // namespace quern::engine::detail
