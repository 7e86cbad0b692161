#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "runtime/language_model.h"

namespace quern::cli {

/// Steps of a model on made-up tokens, over sequences that each own a run of blocks of the cache.
class Steps {
 public:
  static constexpr std::int64_t kMost = 512;  // tokens a step, as the engine's own prefill

  Steps(std::shared_ptr<const runtime::LanguageModel> model, std::int64_t sequences, std::int64_t tokens)
      : blocks_each_((tokens + model->kv_block_tokens() - 1) / model->kv_block_tokens()),
        block_tokens_(model->kv_block_tokens()),
        vocabulary_(model->vocabulary()),
        runner_(std::move(model), process_pool(), sequences * blocks_each_, sequences, blocks_each_) {
    for (std::int64_t b = 0; b < sequences * blocks_each_; ++b) table_.push_back(static_cast<std::int32_t>(b));
  }

  /// Fills the cache with keys and values, so that what no step has written takes as long to read as anything else.
  void fill_cache() {
    const auto fill = [](std::span<std::byte> block) { std::fill(block.begin(), block.end(), std::byte{0}); };
    for (std::int32_t b = 0; b < runner_.blocks(); ++b) fill(runner_.block(b));
    for (std::int32_t b = 0; b < runner_.window_blocks(); ++b) fill(runner_.window_block(b));
  }

  /// One more token of the step; that of kMost runs it.
  void add(std::int64_t sequence, std::int64_t position, bool wants_logits) {
    if (wants_logits) rows_.push_back(static_cast<std::int32_t>(ids_.size()));
    ids_.push_back(
        static_cast<std::int32_t>((sequence * 7919 + position * 104729 + 17) % vocabulary_));  // any tokens will do; not all the same
    positions_.push_back(static_cast<std::int32_t>(position));
    sequence_.push_back(static_cast<std::int32_t>(sequence));
    slots_.push_back(static_cast<std::int32_t>(sequence * blocks_each_ * block_tokens_ + position));
    if (static_cast<std::int64_t>(ids_.size()) == kMost) run();
  }

  void set_profile(plan::Profile* profile) { runner_.set_profile(profile); }

  void run() {
    if (ids_.empty()) return;
    runner_.run({ids_, positions_, sequence_, slots_, table_, rows_});
    for (auto* list : {&ids_, &positions_, &sequence_, &slots_, &rows_}) list->clear();
  }

 private:
  std::int64_t blocks_each_, block_tokens_, vocabulary_;
  runtime::LanguageRunner runner_;
  std::vector<std::int32_t> ids_, positions_, sequence_, slots_, table_, rows_;
};

}  // namespace quern::cli
