#include "engine/detail/batcher.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <new>
#include <optional>
#include <utility>

#include "base/faults.h"

namespace quern::engine::detail {

Batcher::Batcher(const Limits& limits, Compute compute, Copy copy, Copy copy_window)
    : limits_(limits),
      compute_(std::move(compute)),
      copy_(std::move(copy)),
      pool_(limits.blocks),
      window_(limits.window == 0
                  ? nullptr
                  : std::make_unique<WindowCache>(WindowCache::Limits{.window = limits.window,
                                                                      .blocks = limits.window_blocks,
                                                                      .block_tokens = limits.block_tokens,
                                                                      .rows = limits.max_sequences,
                                                                      .max_blocks_per_sequence = limits.max_blocks_per_sequence,
                                                                      .nodes = limits.blocks},
                                                  std::move(copy_window))),
      tree_(pool_, limits.block_tokens, window_ ? &window_->parts() : nullptr),
      workspace_(static_cast<std::size_t>(limits.vocabulary)),
      speculation_({.most_guesses = limits.most_guesses,
                    .lookup = limits.lookup,
                    .past = limits.prefix_cache,
                    .timed = limits.step_seconds >= 0,
                    .draft_tokens = limits.draft_tokens}) {
  const auto sequences = static_cast<std::size_t>(limits.max_sequences);
  running_.reserve(sequences);
  tables_.reserve(sequences);
  for (auto* list : {&prompts_, &answers_}) list->reserve(sequences);
  readings_.reserve(sequences);
  for (std::int64_t row = limits.max_sequences; row-- > 0;) {
    free_rows_.push_back(static_cast<std::int32_t>(row));
    tables_.emplace_back(pool_, limits.block_tokens, limits.max_blocks_per_sequence);
  }
  // A row of every request and one of a prompt go into a step however small it is.
  const std::int64_t answers = limits.max_sequences * (1 + limits.most_guesses);
  const auto tokens = static_cast<std::size_t>(std::max(limits.step_tokens, answers + 1) + answers);
  for (auto* list : {&ids_, &positions_, &sequence_, &slots_}) list->reserve(tokens);
  if (window_) window_slots_.reserve(tokens);
  rows_.reserve(static_cast<std::size_t>(answers + limits.max_sequences + limits.most_scored));
  hidden_rows_.reserve(tokens);
  known_blocks_.reserve(static_cast<std::size_t>(limits.max_blocks_per_sequence));
  block_table_.resize(sequences * static_cast<std::size_t>(limits.max_blocks_per_sequence), 0);
}

void Batcher::keep_on_disk(kvcache::DiskStore& store, DiskTier::Memory memory, DiskTier::Memory window_memory) {
  if (limits_.prefix_cache)
    disk_.emplace(store, pool_, tree_, limits_.block_tokens, std::move(memory), window_ ? &window_->parts() : nullptr,
                  std::move(window_memory));
}

void Batcher::exchange_with_disk() {
  if (!disk_) return;
  disk_->collect();
  disk_->write();
}

void Batcher::add(std::unique_ptr<Sequence> sequence) {
  if (!sequence->generates() && !sequence->reads()) {  // no token is asked for
    sequence->finish(FinishReason::length);
    return;
  }
  keep_waiting(std::move(sequence));
}

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

void Batcher::add_rows(Sequence& sequence, std::int64_t count) {
  std::int32_t row = sequence.row;
  const auto add = [&](std::int32_t id, std::int64_t position) {
    ids_.push_back(id);
    positions_.push_back(static_cast<std::int32_t>(position));
    sequence_.push_back(row);
    slots_.push_back(tables_[static_cast<std::size_t>(row)].slot(position));
    if (window_) window_slots_.push_back(window_->slot(row, position));
  };
  sequence.scheduled = count;
  Reading reading{.sequence = &sequence, .draws = count == sequence.pending() && sequence.generates()};
  const auto last = [&] { return static_cast<std::int32_t>(ids_.size()) - 1; };
  for (std::int64_t position = sequence.computed; position < sequence.computed + count; ++position) {
    add(sequence.tokens()[static_cast<std::size_t>(position)], position);
    if (sequence.wants_logits(position)) {
      if (reading.logits++ == 0) reading.first_logits = position;
      rows_.push_back(last());
    }
    if (sequence.wants_state(position)) {
      if (reading.states++ == 0) reading.first_state = position;
      hidden_rows_.push_back(last());
    }
  }
  if (reading.draws) {
    rows_.push_back(last());
    const auto add_guesses = [&](const std::vector<std::int32_t>& guesses) {
      for (std::size_t i = 0; i < guesses.size(); ++i) {
        add(guesses[i], sequence.size() + static_cast<std::int64_t>(i));
        rows_.push_back(last());
      }
    };
    add_guesses(sequence.guesses);
    if (row = sequence.branch; row >= 0) {
      add(sequence.tokens().back(), sequence.size() - 1);
      add_guesses(sequence.other_guesses);
    }
  }
  if (reading.draws || reading.logits + reading.states > 0) readings_.push_back(reading);
}

/// Places for its guesses, or it has none: a guess is not worth sending somebody back.
void Batcher::place_guesses(Sequence& sequence) {
  if (!sequence.other_guesses.empty() && !place_branch(sequence)) sequence.other_guesses.clear();
  const auto guesses = static_cast<std::int64_t>(sequence.guesses.size());
  if (guesses == 0) return;
  const std::int64_t needed = tables_[static_cast<std::size_t>(sequence.row)].blocks_needed(guesses);
  if (needed <= pool_.free_blocks() + pool_.idle_blocks() && has_window_places(sequence, 1 + guesses) && append(sequence.row, guesses))
    return;
  sequence.guesses.clear();
  if (window_) window_->truncate(sequence.row, sequence.size());
}

/// A row of the block table for the other guesses, which begins with a copy of what the last token's block has before it.
bool Batcher::place_branch(Sequence& sequence) {
  const std::int64_t before = sequence.size() - 1, tokens = 1 + std::ssize(sequence.other_guesses);
  // A block that the last token completes becomes known to others as it is in the sequence's own row.
  if (free_rows_.empty() || sequence.size() % limits_.block_tokens == 0) return false;
  const std::int32_t row = free_rows_.back();
  share(row, sequence.row);
  tables_[static_cast<std::size_t>(row)].truncate(before);
  if (window_) window_->truncate(row, before);
  const std::int64_t needed = tables_[static_cast<std::size_t>(row)].blocks_needed(tokens);
  if (needed > pool_.free_blocks() + pool_.idle_blocks() || (window_ && !window_->grow(row, before + tokens)) || !append(row, tokens)) {
    clear_row(row);
    return false;
  }
  free_rows_.pop_back();
  sequence.branch = row;
  return true;
}

/// Nothing is left of its guesses but the tokens that came true.
void Batcher::end_guesses(Sequence& sequence) {
  sequence.guesses.clear();
  sequence.other_guesses.clear();
  if (sequence.branch < 0) return;
  if (sequence.branched) std::swap(sequence.row, sequence.branch);
  sequence.branched = false;
  clear_row(sequence.branch);
  free_rows_.push_back(std::exchange(sequence.branch, -1));
}

/// A row of every request that waits for its next token, and guesses.
void Batcher::add_answers() {
  answers_.clear();
  for (const auto& sequence : running_) {
    if (sequence->pending() != 1) continue;
    ++work_.rows;
    work_.row_keys += sequence->size();
    if (has_window_places(*sequence, 1)) answers_.push_back(sequence.get());
  }
  if (limits_.most_guesses > 0) speculation_.guess(answers_, work_, cost_, workspace_);
  for (Sequence* sequence : answers_) {
    place_guesses(*sequence);
    const std::int64_t guesses = std::ssize(sequence->guesses) + std::ssize(sequence->other_guesses),
                       rows = guesses + (sequence->branch >= 0 ? 1 : 0);
    work_.rows += rows;
    work_.row_keys += sequence->size() * rows;
    sequence->guessed += guesses;
    done_.guessed_tokens += guesses;
    if (sequence->drafted) done_.drafted_tokens += guesses;
    add_rows(*sequence, 1);
  }
}

/// How many tokens of prompts may join the rows of the step. A few always may, so that every prompt comes to its end.
std::int64_t Batcher::prompt_budget() const {
  constexpr std::int64_t kLeast = 16, kUnknown = 64;  // always; and before it is known what a token takes
  constexpr double kTimesAlone = 2.5, kSmooth = 0.08;
  const std::int64_t left = std::max<std::int64_t>(limits_.step_tokens - static_cast<std::int64_t>(ids_.size()), 1);
  if (work_.rows == 0 || prompts_.empty() || limits_.step_seconds < 0) return left;
  const double alone = cost_.predict(work_);
  if (alone <= 0) return std::min(left, kUnknown);
  // Where it costs much to have any, there are so many that they cost as much again, and half of that time at most is lost; but not at the
  // price of answers that stutter.
  StepWork any = work_;
  any.prompt_tokens = 1;
  const double enough = std::max(kTimesAlone * alone, std::min(kSmooth, alone + 2 * (cost_.predict(any) - alone)));
  const double seconds = limits_.step_seconds > 0 ? limits_.step_seconds : enough;
  return std::min(left, std::max(kLeast, cost_.affordable(work_, double(prompts_.front()->computed), seconds)));
}

void Batcher::plan() {
  for (auto* list : {&ids_, &positions_, &sequence_, &slots_, &window_slots_, &rows_, &hidden_rows_}) list->clear();
  prompts_.clear();
  readings_.clear();
  work_ = {};
  for (const auto& sequence : running_) {
    sequence->scheduled = 0;
    if (sequence->pending() != 1) prompts_.push_back(sequence.get());
  }
  add_answers();
  std::sort(prompts_.begin(), prompts_.end(), [](const Sequence* a, const Sequence* b) {
    return a->pending() != b->pending() ? a->pending() < b->pending() : a->arrival < b->arrival;
  });
  std::int64_t left = prompt_budget(), unscored = limits_.most_scored;
  for (std::size_t i = 0; i < prompts_.size() && left > 0; ++i) {
    const auto others = static_cast<std::int64_t>(prompts_.size() - i);
    std::int64_t share = std::min(prompts_[i]->pending(), (left + others - 1) / others);
    if (prompts_[i]->scores()) {
      share = std::min(share, unscored);
      unscored -= share;
    }
    if (share == 0 || !has_window_places(*prompts_[i], share)) continue;
    work_.prompt_tokens += share;
    work_.prompt_keys += double(share) * (double(prompts_[i]->computed) + 0.5 * double(share));
    add_rows(*prompts_[i], share);
    left -= share;
  }
}

/// The cache has the keys and values of what the step held of `sequence`.
void Batcher::count_computed(Sequence& sequence) {
  const std::int64_t prompt_left = std::max<std::int64_t>(sequence.prompt_tokens() - sequence.computed, 0);
  done_.prompt_tokens += std::min(prompt_left, sequence.scheduled);
  sequence.computed += sequence.scheduled;
  make_known(sequence);
}

/// Each of these requests, which are all that `results` are of, goes on by its part of them.
void Batcher::take_results(std::span<const Reading> readings, std::size_t hidden_rows, Results results) {
  const auto vocabulary = static_cast<std::size_t>(limits_.vocabulary);
  const std::size_t width = hidden_rows == 0 ? 0 : results.states.size() / hidden_rows;
  for (const Reading& reading : readings) {
    Sequence& sequence = *reading.sequence;
    const std::size_t guesses = sequence.guesses.size() + sequence.other_guesses.size(),
                      logits = vocabulary * (static_cast<std::size_t>(reading.logits) + (reading.draws ? 1 + guesses : 0)),
                      states = width * static_cast<std::size_t>(reading.states);
    const bool ended = read(reading, {results.logits.first(logits), results.states.first(states)});
    results = {results.logits.subspan(logits), results.states.subspan(states)};
    if (ended) speculation_.ended(sequence);
    end_guesses(sequence);
    if (ended) {
      give_back(sequence);
    } else if (reading.draws && guesses > 0) {
      tables_[static_cast<std::size_t>(sequence.row)].truncate(sequence.computed);
      if (window_) window_->truncate(sequence.row, sequence.computed);
      make_known(sequence);
    }
  }
}

/// Searches go on, and who only wanted its prompt to be read has ended with it.
void Batcher::end_step() {
  advance_searches();
  for (const auto& sequence : running_) {
    if (sequence->row < 0 || sequence->generates() || sequence->pending() > 0) continue;
    give_back(*sequence);
    sequence->finish_prompt();
  }
  remove_ended();
}

/// What a request wanted of the step. True when that ended it; what is wrong with its numbers fails it alone.
bool Batcher::read(const Reading& reading, const Results& results) {
  Sequence& sequence = *reading.sequence;
  const auto vocabulary = static_cast<std::size_t>(limits_.vocabulary);
  const auto scored = static_cast<std::size_t>(reading.logits), states = static_cast<std::size_t>(reading.states);
  try {
    for (std::size_t i = 0; i < scored; ++i)
      sequence.score(reading.first_logits + static_cast<std::int64_t>(i),
                     results.logits.subspan(i * vocabulary, static_cast<std::size_t>(limits_.tokens_known)), workspace_);
    for (std::size_t i = 0; i < states; ++i)
      sequence.pool(reading.first_state + static_cast<std::int64_t>(i),
                    results.states.subspan(i * (results.states.size() / states), results.states.size() / states));
    return reading.draws && draw(sequence, results.logits.subspan(scored * vocabulary));
  } catch (const Error& error) {
    sequence.fail(error.code(), error.what());
  } catch (const std::exception& error) {
    sequence.fail(Code::internal, error.what());
  }
  return true;
}

/// The next tokens of a request, from its rows [1 + guesses + other guesses, vocabulary]: one, and one more for each guess that was right.
/// True when that ended it.
bool Batcher::draw(Sequence& sequence, std::span<const float> logits) {
  if (sequence.group() != nullptr) {
    sequence.offer(logits.first(static_cast<std::size_t>(limits_.tokens_known)), workspace_);
    return false;
  }
  for (std::size_t depth = 0, row = 0;; ++depth) {
    const bool ended = sequence.advance(
        logits.subspan(row * static_cast<std::size_t>(limits_.vocabulary), static_cast<std::size_t>(limits_.tokens_known)), workspace_);
    ++done_.generated_tokens;
    waiting_.charge(sequence.tenant(), waiting_.kAnswerToken);
    const std::int32_t id = sequence.tokens().back();
    speculation_.learn(sequence, depth, id);
    if (ended) return true;
    const auto came_true = [&](const std::vector<std::int32_t>& guesses) { return depth < guesses.size() && guesses[depth] == id; };
    if (depth == 0 && !came_true(sequence.guesses) && came_true(sequence.other_guesses)) {
      sequence.branched = true;
      row = sequence.guesses.size();
    }
    if (!came_true(sequence.branched ? sequence.other_guesses : sequence.guesses)) break;
    ++row;
    ++sequence.computed;
    ++sequence.guessed_right;
    ++done_.accepted_guesses;
    if (sequence.drafted) ++done_.accepted_drafts;
  }
  sequence.flush();
  return false;
}

void Batcher::remove_ended() {
  std::erase_if(running_, [&](const std::unique_ptr<Sequence>& sequence) {
    if (sequence->group() != nullptr && sequence->group()->ended) give_back(*sequence);
    return sequence->row < 0;
  });
}

std::optional<Batcher::Failure> Batcher::compute(const runtime::Batch& batch, Results& results) {
  try {
    if (faults::due(faults::Point::step)) throw Error(Code::internal, "QUERN_FAULTS asks for the step to fail");
    results = compute_(batch);
    QUERN_ASSERT(results.logits.size() == batch.rows.size() * static_cast<std::size_t>(limits_.vocabulary));
    return std::nullopt;
  } catch (const Error& error) {
    // The inputs of a step are made here, from checked requests: what is wrong with them is our fault.
    return Failure{error.code() == Code::resource_exhausted ? Code::resource_exhausted : Code::internal, error.what()};
  } catch (const std::bad_alloc&) {
    return Failure{Code::resource_exhausted, "no memory for a step of " + std::to_string(batch.ids.size()) + " tokens"};
  } catch (const std::exception& error) {
    return Failure{Code::internal, error.what()};
  }
}

/// The step failed as a whole. It may have been one request's doing, or have passed: each has its own step now.
void Batcher::compute_alone() {
  std::span<std::int32_t> rows = rows_, hidden_rows = hidden_rows_;
  std::span<const Reading> readings = readings_;
  for (std::size_t begin = 0, end; begin < ids_.size(); begin = end) {
    Sequence& sequence = **std::ranges::find(running_, sequence_[begin], [](const auto& one) { return one->row; });
    for (end = begin; end < ids_.size() && (sequence_[end] == sequence.row || sequence_[end] == sequence.branch);) ++end;
    const auto part = [&](const std::vector<std::int32_t>& list) { return std::span(list).subspan(begin, end - begin); };
    const auto take_rows = [&](std::span<std::int32_t>& all) {
      std::size_t count = 0;
      for (; count < all.size() && all[count] < static_cast<std::int32_t>(end); ++count) all[count] -= static_cast<std::int32_t>(begin);
      const std::span<std::int32_t> own = all.first(count);
      all = all.subspan(count);
      return own;
    };
    const std::span<const std::int32_t> own_rows = take_rows(rows), own_hidden = take_rows(hidden_rows);
    const std::size_t reads = !readings.empty() && readings.front().sequence == &sequence ? 1 : 0;
    const std::span<const Reading> own = readings.first(reads);
    readings = readings.subspan(reads);
    Results results;
    runtime::Batch batch{part(ids_), part(positions_), part(sequence_), part(slots_), block_table_, own_rows, own_hidden};
    if (window_) batch.window_slots = part(window_slots_), batch.window_block_table = window_->block_table();
    if (const auto failure = compute(batch, results)) {
      give_back(sequence);
      sequence.fail(failure->code, failure->why);
      continue;
    }
    count_computed(sequence);
    take_results(own, own_hidden.size(), results);
  }
  end_step();
}

void Batcher::step() {
  exchange_with_disk();
  drop_cancelled();
  grow();
  admit();
  plan();
  if (ids_.empty()) {
    if (window_ && !running_.empty() && !(disk_ && disk_->busy())) preempt_youngest();  // it has all the places that the others lack
    return;
  }
  ++done_.steps;
  Results results;
  runtime::Batch batch{ids_, positions_, sequence_, slots_, block_table_, rows_, hidden_rows_};
  if (window_) batch.window_slots = window_slots_, batch.window_block_table = window_->block_table();
  const auto begin = limits_.now();
  if (compute(batch, results)) {
    compute_alone();
    return;
  }
  if (std::none_of(readings_.begin(), readings_.end(), [](const Reading& r) { return r.logits > 0; }))  // work that work_ does not know
    cost_.observe(work_, std::chrono::duration<double>(limits_.now() - begin).count());
  for (const auto& sequence : running_)
    if (sequence->scheduled > 0) count_computed(*sequence);
  take_results(readings_, hidden_rows_.size(), results);
  end_step();
}

void Batcher::cancel_all() {
  for (const auto& sequence : running_) {
    give_back(*sequence);
    sequence->finish(FinishReason::cancelled);
  }
  running_.clear();
  waiting_.clear([](const std::unique_ptr<Sequence>& sequence) { sequence->finish(FinishReason::cancelled); });
  constexpr double kMostSeconds = 5;
  if (disk_) disk_->finish(kMostSeconds);
}

Engine::Statistics Batcher::statistics() const {
  Engine::Statistics now = done_;
  now.running = static_cast<std::int64_t>(running_.size());
  now.waiting = static_cast<std::int64_t>(waiting_.size());
  now.cache_blocks = pool_.blocks();
  now.cache_blocks_used = pool_.blocks() - pool_.free_blocks() - pool_.idle_blocks() - (disk_ ? disk_->busy_blocks() : 0);
  now.cache_blocks_kept = pool_.idle_blocks();
  if (window_) {
    const kvcache::BlockPool& pool = window_->pool();
    now.window_blocks = pool.blocks();
    now.window_blocks_used = pool.blocks() - pool.free_blocks() - pool.idle_blocks() - (disk_ ? disk_->busy_window_blocks() : 0);
    now.window_blocks_kept = pool.idle_blocks();
  }
  if (disk_) {
    const kvcache::DiskStore::Statistics disk = disk_->statistics();
    now.disk_blocks_read = disk.blocks_read;
    now.disk_blocks_written = disk.blocks_written;
    now.disk_errors = disk.read_errors + disk.write_errors;
    now.disk_bytes = disk.bytes;
  }
  return now;
}

}  // namespace quern::engine::detail
