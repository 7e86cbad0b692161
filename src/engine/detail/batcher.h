#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/detail/disk_tier.h"
#include "engine/detail/sequence.h"
#include "engine/detail/speculation.h"
#include "engine/detail/step_cost.h"
#include "engine/detail/window_cache.h"
#include "engine/engine.h"
#include "kvcache/block_pool.h"
#include "kvcache/block_table.h"
#include "kvcache/prefix_tree.h"
#include "runtime/language_model.h"
#include "sampling/sampler.h"

namespace quern::engine::detail {

/// Decides what each step computes, and for whom. Knows no threads: one step after the other, on the thread that calls.
///
/// A step has one row of every request that only waits for its next token, then pieces of prompts: short ones whole, long ones share what
/// is left of the step evenly. What a step may hold is a number of tokens and, while requests wait, a time, by what earlier steps took.
///
/// Where somebody can guess how a request goes on (see Speculation), the guessed tokens follow its row in the same step. The next token is
/// drawn from each row in turn for as long as it is the one guessed: the tokens, and how they were drawn, are those of as many steps. Who
/// is admitted next the waiting room decides, once there are blocks for all its tokens; but who begins like one whose prompt is just being
/// computed waits for that part of it, and others may go first. When blocks run out, of the requests of the least urgent priority the one
/// that came last gives up its own and computes its tokens again later; the first of the most urgent always goes on, so all end.
///
/// Full blocks become known to a prefix tree as they are computed, and a request begins with the blocks of those that began alike. Its
/// answer does not depend on it: a key or value has the same bits whoever computed it, and beside whom.
class Batcher {
 public:
  /// Of a batch, valid until the next call: logits [rows, vocabulary], final states [hidden_rows, width].
  struct Results {
    Results(std::span<const float> logits = {}, std::span<const float> states = {}) : logits(logits), states(states) {}
    std::span<const float> logits, states;
  };
  using Compute = std::function<Results(const runtime::Batch&)>;
  /// Copies one block of the cache, in all layers, to another.
  using Copy = std::function<void(std::int32_t from, std::int32_t to)>;
  struct Limits {
    std::int64_t max_sequences, step_tokens, vocabulary;  // vocabulary: columns of the logits
    std::int64_t tokens_known;                            // of those, the first that have a text
    std::int64_t blocks, block_tokens, max_blocks_per_sequence;
    std::int64_t window = 0, window_blocks = 0;  // of layers that see a window only: in tokens, see runtime::window_blocks_for; 0: none
    bool prefix_cache = true;
    std::int64_t most_guesses = 8;  // of a request in a step; 0: none
    bool lookup = true;             // guesses may be taken from the text itself
    std::int64_t draft_tokens = 0;  // see Speculation::Limits
    std::int64_t most_scored = 64;  // tokens of prompts in a step whose logits are wanted, beside one a request: rows take memory
    double step_seconds = 0;        // as EngineOptions::max_itl_ms; below 0: steps may take any time
    std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;  // a simulator has a time of its own
  };

  /// `copy_window`: of blocks of layers that see a window only, where there are such.
  Batcher(const Limits& limits, Compute compute, Copy copy, Copy copy_window = {});
  /// Blocks are kept on disk, too; `store` must live longer, and what it calls when something is ready must bring about a step.
  void keep_on_disk(kvcache::DiskStore& store, DiskTier::Memory memory, DiskTier::Memory window_memory = {});

  /// Somebody who guesses, see Speculation::draft_with.
  void draft_with(std::unique_ptr<Drafter> drafter, std::function<void(std::string_view)> note) {
    speculation_.draft_with(std::move(drafter), std::move(note));
  }

  void add(std::unique_ptr<Sequence> sequence);
  bool busy() const { return !waiting_.empty() || !running_.empty(); }
  /// The last step computed nothing, since all that wait, wait for the disk.
  bool stalled() const { return ids_.empty(); }
  /// One step. When it fails, each of its requests is tried again alone, and ends with the error if it fails again; nothing is thrown.
  void step();
  /// Takes in what the disk has done, and gives it more to write; part of every step.
  void exchange_with_disk();
  /// Ends everything. Waits until what is to be kept on disk is there, for some seconds at most.
  void cancel_all();
  Engine::Statistics statistics() const;

 private:
  using List = std::vector<std::unique_ptr<Sequence>>;
  struct Failure {
    Code code;
    std::string why;
  };

  /// In seconds.
  double now() const { return std::chrono::duration<double>(limits_.now().time_since_epoch()).count(); }
  void plan();
  void add_rows(Sequence& sequence, std::int64_t count);
  std::int64_t prompt_budget() const;
  /// What of a step's results is one request's: logits behind `logits` tokens of its prompt, the first of them at `first_logits`, and as
  /// many rows as it draws from; final states likewise.
  struct Reading {
    Sequence* sequence;
    std::int64_t first_logits = 0, logits = 0, first_state = 0, states = 0;
    bool draws = false;
  };

  std::optional<Failure> compute(const runtime::Batch& batch, Results& results);
  void compute_alone();
  void count_computed(Sequence& sequence);
  void take_results(std::span<const Reading> readings, std::size_t hidden_rows, Results results);
  void end_step();
  bool read(const Reading& reading, const Results& results);
  void remove_ended();

  // batcher_places.cc
  void keep_waiting(std::unique_ptr<Sequence> sequence) noexcept;
  void drop_cancelled();
  void grow();
  void admit();
  bool is_being_computed(const Sequence& sequence, std::int64_t known) const;
  bool place(Sequence& sequence, kvcache::PrefixTree::Match match);
  bool append(std::int32_t row, std::int64_t count);
  void share(std::int32_t row, std::int32_t parent);
  void clear_row(std::int32_t row);
  /// Whether the next `count` tokens of the sequence have their places in the cache of layers with a window; it never lacks room for long.
  bool has_window_places(const Sequence& sequence, std::int64_t count) {
    return !window_ || window_->grow(sequence.row, sequence.computed + count);
  }
  void make_known(Sequence& sequence);
  void give_back(Sequence& sequence);
  void preempt_youngest();

  // batcher_guesses.cc
  void add_answers();
  void place_guesses(Sequence& sequence);
  bool place_branch(Sequence& sequence);
  bool draw(Sequence& sequence, std::span<const float> logits);
  void end_guesses(Sequence& sequence);

  // batcher_beams.cc
  void advance_searches();
  void advance(Sequence& leader);
  Sequence* another_beam(const Sequence& leader);
  void become(Sequence& beam, const Sequence& parent);
  void leave_search(Sequence& beam);

  Limits limits_;
  Compute compute_;
  Copy copy_;
  kvcache::BlockPool pool_;
  std::unique_ptr<WindowCache> window_;  // null: all layers see all
  kvcache::PrefixTree tree_;
  std::optional<DiskTier> disk_;
  std::vector<kvcache::BlockTable> tables_;  // by row
  sampling::Workspace workspace_;
  Speculation speculation_;
  WaitingRoom<std::unique_ptr<Sequence>> waiting_;
  List running_;                         // the lower priority first, then in order of arrival; the last is the first to be sent back
  std::vector<std::int32_t> free_rows_;  // of the block table
  std::vector<Sequence*> prompts_;       // of the step, the shortest first
  std::vector<Sequence*> answers_;       // of the step: those that wait for their next token
  std::vector<Reading> readings_;        // in the order of rows_ and hidden_rows_
  std::vector<std::int32_t> ids_, positions_, sequence_, slots_, window_slots_, rows_, hidden_rows_;  // of the step
  StepCost cost_;
  StepWork work_;                           // of the step
  double guess_seconds_ = 0;                // that its guesses took: a draft model has steps of its own
  std::vector<std::int32_t> known_blocks_;  // of the request being admitted
  std::vector<std::int32_t> block_table_;   // [max_sequences, max_blocks_per_sequence]
  std::uint64_t given_up_ = 0;              // Channel::cancellations() when those that wait were last looked through
  double next_deadline_ = std::numeric_limits<double>::infinity();  // of those that wait, or before it
  Engine::Statistics done_;
};

}  // namespace quern::engine::detail
