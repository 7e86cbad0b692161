#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "runtime/language_model.h"

namespace quern::runtime::testing {

/// One step's rows of several sequences, as a scheduler would put them together. Sequence s has the blocks s * blocks_per_sequence … of the
/// cache, in reversed order, so that neighbours in a sequence are no neighbours in memory.
class Step {
 public:
  explicit Step(const LanguageRunner& runner) : runner_(runner) {
    const std::int64_t sequences = runner.max_sequences(), blocks = runner.max_blocks_per_sequence();
    for (std::int64_t s = 0; s < sequences; ++s)
      for (std::int64_t b = 0; b < blocks; ++b) table_.push_back(static_cast<std::int32_t>(s * blocks + blocks - 1 - b));
  }
  /// Adds tokens of a sequence from `first` on; logits of those from `wanted_from` on are asked for.
  void add(std::int32_t sequence, std::span<const std::int32_t> ids, std::int32_t first, std::int32_t wanted_from = 0) {
    const auto tokens = static_cast<std::int32_t>(runner_.model().kv_block_tokens());
    for (const std::int32_t id : ids) {
      const std::int32_t block = table_[static_cast<std::size_t>(sequence * runner_.max_blocks_per_sequence() + first / tokens)];
      if (first >= wanted_from) rows_.push_back(static_cast<std::int32_t>(ids_.size()));
      ids_.push_back(id);
      positions_.push_back(first);
      sequence_.push_back(sequence);
      slots_.push_back(block * tokens + first % tokens);
      ++first;
    }
  }
  Batch batch() const { return {ids_, positions_, sequence_, slots_, table_, rows_}; }

 private:
  const LanguageRunner& runner_;
  std::vector<std::int32_t> ids_, positions_, sequence_, slots_, table_, rows_;
};

/// Logits of every position of one sequence, in chunks of so many tokens.
inline std::vector<float> all_logits(LanguageRunner& runner, std::span<const std::int32_t> ids, std::size_t chunk,
                                     unsigned max_workers = ~0u, std::int32_t sequence = 0) {
  std::vector<float> logits;
  for (std::size_t first = 0; first < ids.size(); first += chunk) {
    Step step(runner);
    step.add(sequence, ids.subspan(first, std::min(chunk, ids.size() - first)), static_cast<std::int32_t>(first));
    const auto rows = runner.run(step.batch(), max_workers);
    logits.insert(logits.end(), rows.begin(), rows.end());
  }
  return logits;
}

}  // namespace quern::runtime::testing
