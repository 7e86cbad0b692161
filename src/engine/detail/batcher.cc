#include "engine/detail/batcher.h"

#include <algorithm>
#include <chrono>
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

/// How many tokens of prompts may join the rows of the step. A few always may, so that every prompt comes to its end.
std::int64_t Batcher::prompt_budget() const {
  constexpr std::int64_t kLeast = 16, kUnknown = 64;  // always; and before it is known what a token takes
  constexpr double kTimesAlone = 2.5, kSmooth = 0.08, kCrowded = 0.12;
  const std::int64_t left = std::max<std::int64_t>(limits_.step_tokens - static_cast<std::int64_t>(ids_.size()), 1);
  if (work_.rows == 0 || prompts_.empty() || limits_.step_seconds < 0) return left;
  const double alone = cost_.predict(work_);
  if (alone <= 0) return std::min(left, kUnknown);
  // Where it costs much to have any, there are so many that they cost as much again, and half of that time at most is lost; but not at the
  // price of answers that stutter.
  StepWork any = work_;
  any.prompt_tokens = 1;
  double enough = std::max(kTimesAlone * alone, std::min(kSmooth, alone + 2 * (cost_.predict(any) - alone)));
  // Where more wait for their first token than for their next one, they count for more: long pieces take less time in all.
  if (const double crowd = double(prompts_.size()) / double(answers_.size() + 1); crowd > 1)
    enough = std::max(enough, std::min(kCrowded, crowd * enough));
  const double seconds = limits_.step_seconds > 0 ? limits_.step_seconds - guess_seconds_ : enough;
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
    if (ended && sequence.keep_seconds() > 0) tree_.hold(sequence.known, now() + sequence.keep_seconds());
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
  tree_.set_time(now());
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
