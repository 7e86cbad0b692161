#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "byte_tokens.h"
#include "engine/detail/batcher.h"
#include "run_to_the_end.h"
#include "window_recorder.h"

namespace quern::engine::detail::testing {

using engine::testing::with_window;

inline constexpr std::int64_t kVocabulary = 257, kBlockTokens = 4;

/// Stands in for a model: remembers which token was put into which place of the cache, and makes the next token a hash of all that a row
/// can see through its block table. So a token that is written to the wrong place, forgotten, or seen by another sequence changes the
/// answer.
class Recorder {
 public:
  Recorder(const Batcher::Limits& limits)
      : limits_(limits), cache_(static_cast<std::size_t>(limits.blocks * limits.block_tokens), {-1, -1}), window(limits) {}

  static std::int32_t next_token(std::span<const std::int32_t> tokens) {
    const auto hash_of = [](std::span<const std::int32_t> text, std::uint32_t hash) {
      for (const std::int32_t id : text) hash = (hash ^ static_cast<std::uint32_t>(id)) * 0x01000193u + 7;
      return hash;
    };
    const std::uint32_t hash = forgetful ? hash_of(tokens.last(1), wavers ? 1 + hash_of(tokens, 1) / 4096 % 2 : 1) : hash_of(tokens, 1);
    return static_cast<std::int32_t>((hash >> 8) % (wavers ? 12 : 256));
  }
  static std::vector<std::int32_t> expected_answer(std::vector<std::int32_t> tokens, std::size_t count) {
    const std::size_t prompt = tokens.size();
    for (; count > 0; --count) tokens.push_back(next_token(tokens));
    return {tokens.begin() + static_cast<std::ptrdiff_t>(prompt), tokens.end()};
  }

  std::span<const float> operator()(const runtime::Batch& batch) {
    step_sizes.push_back(batch.ids.size());
    if (fail_step == static_cast<int>(step_sizes.size()) || std::ranges::find(batch.ids, fail_for) != batch.ids.end())
      throw std::runtime_error("the roof is on fire");
    most_rows_of_table = std::max(most_rows_of_table, std::set(batch.sequence.begin(), batch.sequence.end()).size());
    std::set<std::int32_t> slots;
    for (std::size_t i = 0; i < batch.ids.size(); ++i) {
      EXPECT_TRUE(slots.insert(batch.slots[i]).second) << "two tokens in one place";
      cache_[static_cast<std::size_t>(batch.slots[i])] = {batch.ids[i], batch.positions[i]};
    }
    window(batch, [&](std::size_t i) { return seen_by(batch, i); });
    logits_.assign(batch.rows.size() * kVocabulary, 0.0f);
    for (std::size_t r = 0; r < batch.rows.size(); ++r) {
      const auto row = static_cast<std::size_t>(batch.rows[r]);
      const std::vector<std::int32_t> seen = seen_by(batch, row);
      const bool poisoned = seen.front() == poison;
      logits_[r * kVocabulary + static_cast<std::size_t>(next_token(seen))] = poisoned ? std::numeric_limits<float>::quiet_NaN() : 5.0f;
    }
    return logits_;
  }

  /// The text up to a token of the batch, as its block table has it.
  std::vector<std::int32_t> seen_by(const runtime::Batch& batch, std::size_t token) const {
    std::vector<std::int32_t> seen;
    for (std::int32_t p = 0; p <= batch.positions[token]; ++p) {
      const std::int32_t block =
          batch.block_table[static_cast<std::size_t>(batch.sequence[token] * limits_.max_blocks_per_sequence + p / kBlockTokens)];
      const auto& [id, position] = cache_[static_cast<std::size_t>(block * kBlockTokens + p % kBlockTokens)];
      EXPECT_EQ(position, p);
      seen.push_back(id);
    }
    return seen;
  }

  std::span<std::byte> block(std::int32_t index) {
    return std::as_writable_bytes(std::span(cache_).subspan(static_cast<std::size_t>(index * kBlockTokens), kBlockTokens));
  }
  void copy_block(std::int32_t from, std::int32_t to) {
    ++copies;
    std::copy_n(cache_.begin() + from * kBlockTokens, kBlockTokens, cache_.begin() + to * kBlockTokens);
  }

  static inline bool forgetful = false;  // the next token depends on the last alone, so that answers go round in loops
  static inline bool wavers = false;     // … which have forks, where all that was said decides
  std::size_t most_rows_of_table = 0;    // in a step: sequences, and branches of guesses
  int copies = 0;
  std::vector<std::size_t> step_sizes;
  int fail_step = -1;          // counted from 1
  std::int32_t fail_for = -1;  // a token whose steps fail
  std::int32_t poison = -1;    // a first token whose sequence is given NaN

 private:
  Batcher::Limits limits_;
  std::vector<std::pair<std::int32_t, std::int32_t>> cache_;  // token and position, by slot
  std::vector<float> logits_;

 public:
  engine::testing::WindowRecorder window;
};

struct Result {
  std::vector<std::int32_t> ids;
  Event last;
};

/// A batcher over a recorder, with requests that go on to their last token.
class Bench {
 public:
  /// With a folder, blocks are kept there, too.
  explicit Bench(Batcher::Limits limits, const std::string& folder = "", std::int64_t disk_bytes = 1 << 20)
      : limits_(complete(limits)),
        recorder(limits_),
        batcher(
            limits_, std::ref(recorder), [this](std::int32_t from, std::int32_t to) { recorder.copy_block(from, to); },
            [this](std::int32_t from, std::int32_t to) { recorder.window.copy_block(from, to); }) {
    if (folder.empty()) return;
    disk = std::make_unique<kvcache::DiskStore>(
        kvcache::DiskStoreOptions{.folder = folder, .max_bytes = disk_bytes, .model = "recorder", .block_bytes = 8 * kBlockTokens});
    batcher.keep_on_disk(
        *disk, [this](std::int32_t block) { return recorder.block(block); },
        [this](std::int32_t block) { return recorder.window.block(block); });
  }
  ~Bench() { batcher.cancel_all(); }

  std::shared_ptr<Channel> add(std::vector<std::int32_t> prompt, std::int64_t max_tokens, std::uint64_t partition = 0,
                               double keep_seconds = 0) {
    Request request{.prompt = std::move(prompt),
                    .sampling = {.temperature = 0},
                    .max_tokens = max_tokens,
                    .ignore_end = true,
                    .cache_partition = partition,
                    .keep_seconds = keep_seconds};
    const std::int64_t context = limits_.max_blocks_per_sequence * kBlockTokens;
    auto sequence = std::make_unique<Sequence>(std::move(request), context, kVocabulary, *words_.tokenizer);
    sequence->arrival = arrivals_++;
    auto channel = sequence->channel();
    batcher.add(std::move(sequence));
    return channel;
  }
  void run() { engine::testing::run_to_the_end(batcher); }
  static Result take(Channel& channel) {
    Result result;
    while (auto event = channel.take()) {
      result.ids.insert(result.ids.end(), event->ids.begin(), event->ids.end());
      result.last = std::move(*event);
    }
    return result;
  }

 private:
  static Batcher::Limits complete(Batcher::Limits limits) {
    limits.vocabulary = limits.tokens_known = kVocabulary;
    limits.block_tokens = kBlockTokens;
    limits.step_seconds = -1;  // what a step holds must not depend on the machine
    if (limits.max_blocks_per_sequence == 0) limits.max_blocks_per_sequence = limits.blocks;
    return limits;
  }
  engine::testing::ByteTokens words_{{}};
  Batcher::Limits limits_;
  std::uint64_t arrivals_ = 0;

 public:
  Recorder recorder;
  std::unique_ptr<kvcache::DiskStore> disk;
  Batcher batcher;
};

inline Batcher::Limits limits(std::int64_t sequences, std::int64_t step_tokens, std::int64_t blocks) {
  return {.max_sequences = sequences,
          .step_tokens = step_tokens,
          .vocabulary = 0,
          .tokens_known = 0,
          .blocks = blocks,
          .block_tokens = 0,
          .max_blocks_per_sequence = 0};
}

inline std::vector<std::int32_t> prompt(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::int32_t> ids(n);
  for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random() % 256);
  return ids;
}

/// A folder that is gone when it is no longer needed.
struct Folder {
  Folder() { std::filesystem::remove_all(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  const std::string path = ::testing::TempDir() + "batcher." + std::to_string(::getpid());
};

}  // namespace quern::engine::detail::testing
