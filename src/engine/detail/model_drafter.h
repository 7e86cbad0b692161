#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/detail/drafter.h"
#include "kvcache/block_pool.h"
#include "kvcache/block_table.h"
#include "runtime/language_model.h"

namespace quern::engine::detail {

/// A smaller model of the same vocabulary guesses: one small step for the first token of all sequences, one for the second, and so on. It
/// draws as its elder does, with the same parameters, history and random number, so that the two agree as often as their distributions do.
///
/// Has a cache of its own, with a row for each row of the batcher. A row remembers the tokens that its keys and values are of and goes on
/// from what it has in common with the sequence that now has the row: refused guesses, a sequence that came back and the next turn of a
/// conversation are all the same to it. When blocks run out, the row that was asked least lately forgets.
class ModelDrafter final : public Drafter {
 public:
  /// Logits [rows, vocabulary] of a batch, valid until the next call.
  using Compute = std::function<std::span<const float>(const runtime::Batch&)>;
  struct Limits {
    std::int64_t rows, blocks, block_tokens, max_blocks_per_sequence;
    std::int64_t vocabulary;    // columns of the logits
    std::int64_t tokens_known;  // of those, the first that the model knows, too
    std::int64_t context;
    std::int64_t piece = 512;    // tokens read in one call, beside what is read of all that are nearly there
    double relative_cost = 0.2;  // of a step, to one of the model: until it is known
    std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
  };

  ModelDrafter(const Limits& limits, Compute compute);

  std::int64_t context() const override { return limits_.context; }
  std::int64_t lag(const Sequence& sequence) const override { return sequence.size() - agreed(sequence); }
  double predict(const StepWork& work, const StepCost& model) const override;
  void guess(std::span<const Wish> wishes, sampling::Workspace& workspace) override;

 private:
  struct Row {
    std::vector<std::int32_t> tokens = {};      // whose keys and values the cache has
    std::uint64_t arrival = ~std::uint64_t{0};  // of the sequence that it followed last …
    std::int64_t agreed = 0;                    // … and how many of its tokens were found to be these
    std::uint64_t used = 0;                     // the latest call
  };

  std::int64_t agreed(const Sequence& sequence) const;
  bool make_places(std::int32_t row, std::int64_t known, std::int64_t count);
  void forget(std::int32_t row);
  void add(std::int32_t row, std::int32_t id);
  void start(std::span<const Wish> wishes);
  void compute(sampling::Workspace& workspace);

  const Limits limits_;
  const Compute compute_;
  kvcache::BlockPool pool_;
  std::vector<kvcache::BlockTable> tables_;  // by row
  std::vector<Row> rows_;
  std::vector<std::int32_t> block_table_;  // [rows, max_blocks_per_sequence]
  std::uint64_t calls_ = 0;
  StepCost cost_;

  // Of the small step being made.
  std::vector<std::int32_t> ids_, positions_, sequence_, slots_, wanted_;
  std::vector<Wish> drafting_;  // those whose next token is drawn, in the order of wanted_
  StepWork work_;
};

}  // namespace quern::engine::detail
