#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "engine/detail/batcher.h"

namespace quern::engine::testing {

/// Stands in for the cache of layers that see a window: what a token's place holds is a hash of the text up to it. Every token of a step
/// must find in its window what belongs there.
class WindowRecorder {
 public:
  WindowRecorder() = default;
  explicit WindowRecorder(const detail::Batcher::Limits& limits)
      : limits_(limits), cache_(static_cast<std::size_t>(limits.window_blocks * limits.block_tokens), 0) {}

  /// `text_of(i)`: all that token i of the batch can see, by what the other layers' cache holds.
  template <class TextOf>
  void operator()(const runtime::Batch& batch, TextOf text_of) {
    if (limits_.window == 0) return;
    ASSERT_EQ(batch.window_slots.size(), batch.ids.size());
    std::set<std::int32_t> slots;
    std::vector<std::vector<std::uint64_t>> hashes;
    for (std::size_t i = 0; i < batch.ids.size(); ++i) {
      ASSERT_TRUE(slots.insert(batch.window_slots[i]).second) << "two tokens in one place";
      std::uint64_t hash = 1;
      auto& of_token = hashes.emplace_back();
      for (const std::int32_t id : text_of(i))
        of_token.push_back(hash = (hash ^ static_cast<std::uint64_t>(id)) * 0x9e3779b97f4a7c15u + 1 + (hash >> 32));
      cache_[static_cast<std::size_t>(batch.window_slots[i])] = hash;
    }
    for (std::size_t i = 0; i < batch.ids.size(); ++i)
      for (std::int64_t p = std::max<std::int64_t>(0, batch.positions[i] - limits_.window + 1); p <= batch.positions[i]; ++p) {
        const std::int64_t entry = batch.sequence[i] * limits_.max_blocks_per_sequence + p / limits_.block_tokens;
        const std::int64_t block = batch.window_block_table[static_cast<std::size_t>(entry)];
        ASSERT_EQ(cache_[static_cast<std::size_t>(block * limits_.block_tokens + p % limits_.block_tokens)],
                  hashes[i][static_cast<std::size_t>(p)])
            << "position " << p << " of " << batch.positions[i];
      }
  }

  std::span<std::byte> block(std::int32_t index) {
    const auto size = static_cast<std::size_t>(limits_.block_tokens);
    return std::as_writable_bytes(std::span(cache_).subspan(static_cast<std::size_t>(index) * size, size));
  }
  void copy_block(std::int32_t from, std::int32_t to) { std::ranges::copy(block(from), block(to).begin()); }

 private:
  detail::Batcher::Limits limits_{};
  std::vector<std::uint64_t> cache_;
};

/// With a cache for layers that see `window` tokens.
inline detail::Batcher::Limits with_window(detail::Batcher::Limits limits, std::int64_t window, std::int64_t block_tokens) {
  limits.window = window;
  limits.window_blocks = runtime::window_blocks_for(window, block_tokens, limits.blocks, limits.max_sequences,
                                                    limits.step_tokens + limits.max_sequences * (1 + limits.most_guesses));
  return limits;
}

}  // namespace quern::engine::testing
