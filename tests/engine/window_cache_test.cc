// Layers that see a window of tokens have a cache of their own: see also batcher_test.cc and beam_search_test.cc, where it runs in the
// tests of everything at once.
#include "engine/detail/window_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "recorder.h"

namespace quern::engine::detail {
namespace {

using testing::Bench;
using testing::Folder;
using testing::kBlockTokens;
using testing::limits;
using testing::prompt;
using testing::Recorder;
using testing::with_window;

TEST(WindowCache, what_a_long_sequence_holds_of_it_has_a_bound) {
  constexpr std::int64_t kWindow = 8, kStep = 16;
  for (const bool prefix_cache : {true, false}) {
    Batcher::Limits l = with_window(limits(2, kStep, 300), kWindow, kBlockTokens);
    l.prefix_cache = prefix_cache;
    Bench b(l);
    const auto channel = b.add(prompt(500, 1), 600);
    std::int64_t most = 0;
    while (b.batcher.busy()) {
      b.batcher.step();
      most = std::max(most, b.batcher.statistics().window_blocks_used);
    }
    EXPECT_EQ(Bench::take(*channel).ids, Recorder::expected_answer(prompt(500, 1), 600));
    EXPECT_LE(most, kWindow / kBlockTokens + 1) << "between steps; a step adds what it writes";
    EXPECT_LT(b.batcher.statistics().window_blocks, 90) << "of 300 that other layers have";
    EXPECT_EQ(b.batcher.statistics().preemptions, 0);
  }
}

TEST(WindowCache, a_conversation_goes_on_and_a_prompt_that_was_read_is_answered_again_without_reading_it) {
  Bench b(with_window(limits(1, 64, 100), 10, kBlockTokens));
  std::vector<std::int32_t> text = prompt(90, 1);
  b.add(text, 1);
  b.run();
  const auto again = b.add(text, 60);
  b.run();
  const auto first = Bench::take(*again);
  EXPECT_EQ(first.last.cached_tokens, 88);
  const std::vector<std::int32_t> asked = text;
  text.insert(text.end(), first.ids.begin(), first.ids.end());
  text.insert(text.end(), {1, 2, 3, 4, 5, 6, 7});
  const auto second = b.add(text, 5);
  b.run();
  const auto next = Bench::take(*second);
  EXPECT_EQ(next.ids, Recorder::expected_answer(text, 5));
  EXPECT_EQ(next.last.cached_tokens, 148);
  const auto other = b.add(asked, 2);
  b.run();
  EXPECT_EQ(Bench::take(*other).last.cached_tokens, 88) << "the end of a prompt stays, though its answer has left it behind";
}

TEST(WindowCache, from_where_it_was_forgotten_a_beginning_is_computed_again_and_then_known_again) {
  Bench b(with_window(limits(1, 16, 400), 8, kBlockTokens));  // a quarter: 100 blocks
  const auto cached = [&](const std::vector<std::int32_t>& tokens) {
    const auto channel = b.add(tokens, 1);
    b.run();
    const auto result = Bench::take(*channel);
    EXPECT_EQ(result.ids, Recorder::expected_answer(tokens, 1));
    return result.last.cached_tokens;
  };
  std::vector<std::int32_t> parts = prompt(200, 1);
  EXPECT_EQ(cached(parts), 0);
  for (unsigned i = 0; i < 60; ++i) {
    cached(prompt(30, 100 + i));  // takes the place of what nobody asked for
    ASSERT_EQ(cached(parts), 199) << "the end of a prompt is kept";
  }
  parts.resize(120);
  const std::int64_t began = cached(parts);
  EXPECT_LT(began, 119) << "what was passed had to go first";
  EXPECT_EQ(cached(parts), 119);
  EXPECT_EQ(b.batcher.statistics().window_blocks, 100);
}

TEST(WindowCache, what_many_begin_with_is_known_from_the_third_on_however_full_it_is) {
  Bench b(with_window(limits(1, 16, 400), 8, kBlockTokens));  // a quarter: 100 blocks
  const auto cached = [&](std::vector<std::int32_t> tokens, unsigned question) {
    const std::vector<std::int32_t> more = prompt(50, question);
    tokens.insert(tokens.end(), more.begin(), more.end());
    const auto channel = b.add(tokens, 30);
    b.run();
    return Bench::take(*channel).last.cached_tokens;
  };
  unsigned other = 1000;
  const auto churn = [&] {
    for (int i = 0; i < 8; ++i, other += 2) cached(prompt(40, other), other + 1);
  };
  for (int i = 0; i < 5; ++i) churn();
  EXPECT_GT(b.batcher.statistics().window_blocks_kept, 95);
  EXPECT_EQ(cached(prompt(120, 1), 2), 0);
  churn();
  cached(prompt(120, 1), 3);
  for (unsigned question = 4; question < 9; ++question) {
    churn();
    EXPECT_GE(cached(prompt(120, 1), question), 120);
  }
}

/// Eight users with a common system prompt take turns; what a turn repeats of the one before is to be found.
TEST(WindowCache, turns_of_conversations_with_a_common_system_prompt_are_found_in_a_cache_of_a_quarter) {
  for (const bool on_disk : {false, true}) {
    const Folder folder;
    Bench b(with_window(limits(8, 64, 1200), 24, kBlockTokens), on_disk ? folder.path : "");
    std::vector<std::vector<std::int32_t>> users(8, prompt(400, 1));
    std::int64_t reusable = 0, cached = 0;
    for (int turn = 0; turn < 6; ++turn) {
      std::vector<std::shared_ptr<Channel>> channels;
      for (std::size_t u = 0; u < users.size(); ++u) {
        if (turn > 0 || u > 0) reusable += turn == 0 ? 400 : std::ssize(users[u]) - 1;
        const std::vector<std::int32_t> question = prompt(20, static_cast<unsigned>(100 + 10 * u) + static_cast<unsigned>(turn));
        users[u].insert(users[u].end(), question.begin(), question.end());
        channels.push_back(b.add(users[u], 30));
      }
      b.run();
      for (std::size_t u = 0; u < users.size(); ++u) {
        const auto result = Bench::take(*channels[u]);
        ASSERT_EQ(result.ids, Recorder::expected_answer(users[u], 30));
        cached += result.last.cached_tokens;
        users[u].insert(users[u].end(), result.ids.begin(), result.ids.end());
      }
    }
    EXPECT_GE(double(cached), 0.97 * double(reusable));
    EXPECT_LT(b.batcher.statistics().window_blocks, 400);
    EXPECT_EQ(b.batcher.statistics().preemptions, 0);
  }
}

TEST(WindowCache, after_a_restart_the_disk_has_what_it_takes_to_go_on) {
  const Folder folder;
  const std::vector<std::int32_t> text = prompt(121, 1);
  {
    Bench b(with_window(limits(2, 16, 100), 10, kBlockTokens), folder.path);
    b.add(text, 1);
    b.run();
  }
  {
    Bench b(with_window(limits(2, 16, 100), 10, kBlockTokens), folder.path);
    const auto channel = b.add(text, 9);
    b.run();
    const auto result = Bench::take(*channel);
    EXPECT_EQ(result.ids, Recorder::expected_answer(text, 9));
    EXPECT_EQ(result.last.cached_tokens, 120);
    EXPECT_EQ(b.batcher.statistics().disk_blocks_read, 30 + 3) << "of layers with a window, what is seen";
  }
  // Of the last blocks only those of layers without a window are left: what comes before serves as well.
  const auto named = [&](std::int64_t blocks) {
    kvcache::DiskStore store({.folder = folder.path, .model = "recorder", .block_bytes = 8 * kBlockTokens});
    kvcache::BlockKey key = store.first(0);
    for (std::int64_t i = 0; i < blocks; ++i)
      key = store.next(key, std::span(text).subspan(static_cast<std::size_t>(i * kBlockTokens), kBlockTokens));
    std::string name;
    for (const std::uint8_t byte : store.next(key, {})) name += fmt::format("{:02x}", byte);
    return folder.path + "/" + name + ".kv";
  };
  ASSERT_TRUE(std::filesystem::remove(named(29)));
  Bench b(with_window(limits(2, 16, 100), 10, kBlockTokens), folder.path);
  for (const std::int64_t expected : {112, 120}) {
    const auto channel = b.add(text, 9);
    b.run();
    const auto result = Bench::take(*channel);
    EXPECT_EQ(result.ids, Recorder::expected_answer(text, 9));
    EXPECT_EQ(result.last.cached_tokens, expected);
  }
}

/// More requests than fit into either cache, with all that makes the two differ.
TEST(WindowCache, whatever_the_sizes_are_every_request_gets_its_own_answer) {
  std::int64_t cached = 0, preemptions = 0;
  for (unsigned round = 0; round < 60; ++round) {
    std::mt19937 random(round);
    const auto up_to = [&](std::uint32_t n) { return static_cast<std::int64_t>(1 + random() % n); };
    const Folder folder;
    Batcher::Limits l = with_window(limits(up_to(6), up_to(60), 60 + up_to(150)), up_to(24), kBlockTokens);
    l.prefix_cache = round % 8 != 0;
    Recorder::forgetful = round % 3 == 0;  // guesses
    Bench b(l, round % 4 == 0 ? folder.path : "", 100'000);
    std::vector<std::pair<std::vector<std::int32_t>, std::shared_ptr<Channel>>> sent;
    for (int i = 0; i < 16; ++i) {
      std::vector<std::int32_t> tokens = prompt(static_cast<std::size_t>(up_to(200)), random());
      const std::vector<std::int32_t> beginning = prompt(200, random() % 3);
      std::copy_n(beginning.begin(), std::min(tokens.size(), std::size_t{random() % 200}), tokens.begin());
      sent.emplace_back(tokens, b.add(tokens, up_to(40)));
      for (auto steps = random() % 12; steps > 0; --steps) b.batcher.step();
    }
    b.run();
    for (const auto& [tokens, channel] : sent) {
      const auto result = Bench::take(*channel);
      ASSERT_EQ(result.last.finish, FinishReason::length) << result.last.error;
      ASSERT_EQ(result.ids, Recorder::expected_answer(tokens, result.ids.size())) << round;
    }
    cached += b.batcher.statistics().cached_prompt_tokens;
    preemptions += b.batcher.statistics().preemptions;
  }
  Recorder::forgetful = false;
  EXPECT_GT(cached, 10'000);
  EXPECT_GT(preemptions, 10);
}

}  // namespace
}  // namespace quern::engine::detail
