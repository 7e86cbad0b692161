#include "engine/detail/batcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/faults.h"
#include "recorder.h"
#include "support/allocations.h"

namespace quern::engine::detail {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using testing::Bench;
using testing::Folder;
using testing::kBlockTokens;
using testing::kVocabulary;
using testing::limits;
using testing::prompt;
using testing::Recorder;
using testing::Result;
using testing::with_window;

TEST(Batcher, a_step_has_one_row_of_every_answer_and_then_pieces_of_prompts) {
  Bench b(limits(4, 10, 100));
  const auto first = b.add(prompt(3, 1), 20);
  b.batcher.step();
  const auto second = b.add(prompt(25, 2), 3);
  const auto third = b.add(prompt(5, 3), 3);
  b.batcher.step();  // 1 + 5 (half of 9, rounded up) + 4
  b.batcher.step();  // 1 + 9
  b.batcher.step();  // 2 + 8
  b.batcher.step();  // 2 + 4
  b.batcher.step();  // 2: the third has ended
  EXPECT_THAT(b.recorder.step_sizes, ElementsAre(3, 10, 10, 10, 6, 2));
  b.run();
  EXPECT_EQ(Bench::take(*first).ids, Recorder::expected_answer(prompt(3, 1), 20));
  EXPECT_EQ(Bench::take(*second).ids, Recorder::expected_answer(prompt(25, 2), 3));
  EXPECT_EQ(Bench::take(*third).ids, Recorder::expected_answer(prompt(5, 3), 3));
  const Engine::Statistics done = b.batcher.statistics();
  EXPECT_EQ(done.prompt_tokens, 33);
  EXPECT_EQ(done.generated_tokens, 26);
}

TEST(Batcher, a_prompt_goes_on_even_when_answers_fill_the_step) {
  Bench b(limits(3, 1, 100));
  const auto first = b.add({1}, 40), second = b.add({2}, 40), third = b.add(prompt(10, 3), 2);
  b.run();
  EXPECT_EQ(Bench::take(*third).ids, Recorder::expected_answer(prompt(10, 3), 2));
  EXPECT_EQ(Bench::take(*first).ids, Recorder::expected_answer({1}, 40));
  EXPECT_LT(b.recorder.step_sizes.size(), 45u);
}

TEST(Batcher, when_blocks_run_out_the_youngest_waits_and_every_answer_is_the_same) {
  Bench b(limits(4, 16, 12));  // 48 tokens
  std::vector<std::shared_ptr<Channel>> channels;
  for (unsigned i = 0; i < 4; ++i) channels.push_back(b.add(prompt(5, i), 30));
  b.run();
  for (unsigned i = 0; i < 4; ++i) {
    const Result result = Bench::take(*channels[i]);
    EXPECT_EQ(result.ids, Recorder::expected_answer(prompt(5, i), 30));
    EXPECT_EQ(result.last.finish, FinishReason::length);
    EXPECT_EQ(result.last.prompt_tokens, 5);
    EXPECT_EQ(result.last.generated_tokens, 30);
  }
  EXPECT_GT(b.batcher.statistics().preemptions, 0);
}

TEST(Batcher, a_step_that_failed_once_is_made_again_and_nobody_notices) {
  Bench b(limits(3, 16, 100));
  const auto first = b.add({1}, 5), second = b.add({2}, 5), third = b.add(prompt(40, 3), 5);
  b.recorder.fail_step = 2;
  b.run();
  EXPECT_EQ(Bench::take(*first).ids, Recorder::expected_answer({1}, 5));
  EXPECT_EQ(Bench::take(*second).ids, Recorder::expected_answer({2}, 5));
  EXPECT_EQ(Bench::take(*third).ids, Recorder::expected_answer(prompt(40, 3), 5));
}

TEST(Batcher, a_request_that_makes_steps_fail_fails_alone) {
  Bench b(limits(2, 16, 100));
  b.recorder.fail_for = 2;
  const auto first = b.add({1, 5}, 5), second = b.add({2, 5}, 5), third = b.add({3, 5}, 5);  // the third waits for a row
  b.run();
  const Result bad = Bench::take(*second);
  EXPECT_TRUE(bad.ids.empty());
  EXPECT_EQ(bad.last.finish, FinishReason::error);
  EXPECT_EQ(bad.last.error_code, Code::internal);
  EXPECT_THAT(bad.last.error, HasSubstr("the roof is on fire"));
  EXPECT_EQ(Bench::take(*first).ids, Recorder::expected_answer({1, 5}, 5));
  EXPECT_EQ(Bench::take(*third).ids, Recorder::expected_answer({3, 5}, 5));
}

TEST(Batcher, nan_fails_the_one_request_that_has_it) {
  Bench b(limits(3, 16, 100));
  b.recorder.poison = 2;
  const auto first = b.add({1, 5}, 5), second = b.add({2, 5}, 5), third = b.add({3, 5}, 5);
  b.run();
  const Result bad = Bench::take(*second);
  EXPECT_EQ(bad.last.finish, FinishReason::error);
  EXPECT_EQ(bad.last.error_code, Code::data_corrupt);
  EXPECT_THAT(bad.last.error, HasSubstr("the model computed NaN"));
  EXPECT_EQ(Bench::take(*first).ids, Recorder::expected_answer({1, 5}, 5));
  EXPECT_EQ(Bench::take(*third).ids, Recorder::expected_answer({3, 5}, 5));
}

TEST(Batcher, no_tokens_asked_for_is_an_answer_without_a_step) {
  Bench b(limits(1, 16, 100));
  const auto channel = b.add({1, 2}, 0);
  EXPECT_FALSE(b.batcher.busy());
  EXPECT_EQ(Bench::take(*channel).last.finish, FinishReason::length);
}

/// Arrivals, ends and cancellations at random, in caches from the smallest possible on.
TEST(Batcher, whatever_runs_beside_it_every_request_gets_its_own_answer) {
  for (unsigned round = 0; round < 300; ++round) {
    std::mt19937 random(round);
    const auto up_to = [&](std::uint32_t n) { return static_cast<std::int64_t>(1 + random() % n); };
    const std::int64_t blocks = up_to(30);
    Bench b(with_window(limits(up_to(6), round % 3 == 0 ? up_to(4) : up_to(40), blocks), round % 2 == 0 ? 0 : up_to(12), kBlockTokens));
    const std::int64_t context = blocks * kBlockTokens;
    struct Sent {
      std::vector<std::int32_t> prompt;
      std::int64_t asked;
      std::shared_ptr<Channel> channel;
      bool cancelled = false;
    };
    std::vector<Sent> sent;
    for (int i = 0; i < 12; ++i) {
      Sent s{prompt(static_cast<std::size_t>(up_to(static_cast<std::uint32_t>(context - 1))), random()), up_to(30), nullptr};
      if (!sent.empty() && random() % 2 == 0) {  // begins like another, or goes on where its answer ended
        std::vector<std::int32_t> other = sent[random() % sent.size()].prompt;
        const auto answer = Recorder::expected_answer(other, random() % 8);
        other.insert(other.end(), answer.begin(), answer.end());
        const std::size_t alike = std::min({other.size(), s.prompt.size(), std::size_t{random() % 64}});
        std::copy_n(other.begin(), alike, s.prompt.begin());
      }
      s.channel = b.add(s.prompt, s.asked);
      sent.push_back(std::move(s));
      for (auto steps = random() % 6; steps > 0; --steps) b.batcher.step();
      if (random() % 8 == 0) {
        Sent& victim = sent[random() % sent.size()];
        victim.channel->cancel();
        victim.cancelled = true;
      }
    }
    b.run();
    for (const Sent& s : sent) {
      const Result result = Bench::take(*s.channel);
      const auto most = static_cast<std::size_t>(std::min(s.asked, context - static_cast<std::int64_t>(s.prompt.size())));
      ASSERT_EQ(result.ids, Recorder::expected_answer(s.prompt, result.ids.size()));
      ASSERT_EQ(result.last.finish == FinishReason::cancelled, s.cancelled && result.ids.size() < most) << round;
      if (result.last.finish != FinishReason::cancelled) {
        ASSERT_EQ(result.last.finish, FinishReason::length) << result.last.error;
        ASSERT_EQ(result.ids.size(), most);
      }
    }
  }
}

TEST(Batcher, a_request_that_begins_like_another_computes_only_what_is_new) {
  Bench b(limits(2, 64, 100));
  std::vector<std::int32_t> first = prompt(22, 1), second = first;  // five blocks and a half
  b.add(first, 4);
  b.run();
  second.resize(18);  // of which the fifth block has two
  second.insert(second.end(), {7, 7, 7});
  const auto channel = b.add(second, 3);
  b.recorder.step_sizes.clear();
  b.run();
  const Result result = Bench::take(*channel);
  EXPECT_EQ(result.ids, Recorder::expected_answer(second, 3));
  EXPECT_EQ(result.last.cached_tokens, 18);
  EXPECT_EQ(b.recorder.copies, 1);
  EXPECT_THAT(b.recorder.step_sizes, ElementsAre(3, 1, 1));
  EXPECT_EQ(b.batcher.statistics().cached_prompt_tokens, 18);
}

TEST(Batcher, the_same_prompt_again_computes_one_token) {
  Bench b(limits(2, 64, 100));
  for (int i = 0; i < 2; ++i) {
    b.recorder.step_sizes.clear();
    const auto channel = b.add(prompt(16, 5), 2);
    b.run();
    EXPECT_EQ(Bench::take(*channel).ids, Recorder::expected_answer(prompt(16, 5), 2));
  }
  EXPECT_THAT(b.recorder.step_sizes, ElementsAre(1, 1));
}

TEST(Batcher, what_many_begin_with_is_computed_once_even_when_they_come_together) {
  Bench b(limits(4, 32, 400));
  std::vector<std::vector<std::int32_t>> prompts;
  std::vector<std::shared_ptr<Channel>> channels;
  for (unsigned i = 0; i < 4; ++i) {
    std::vector<std::int32_t> tokens = prompt(200, 1);
    tokens.insert(tokens.end(), {static_cast<std::int32_t>(i), 1, 2});
    channels.push_back(b.add(tokens, 3));
    prompts.push_back(std::move(tokens));
  }
  b.run();
  for (unsigned i = 0; i < 4; ++i) EXPECT_EQ(Bench::take(*channels[i]).ids, Recorder::expected_answer(prompts[i], 3));
  EXPECT_LT(b.batcher.statistics().prompt_tokens, 260);
}

TEST(Batcher, requests_that_run_together_share_the_blocks_of_what_they_have_in_common) {
  Bench b(limits(4, 64, 100));
  b.add(prompt(40, 1), 30);
  b.batcher.step();
  for (int i = 0; i < 3; ++i) b.add(prompt(40, 1), 30);
  b.batcher.step();
  EXPECT_LE(b.batcher.statistics().cache_blocks_used, 10 + 4 * 2);
  b.run();
}

TEST(Batcher, guesses_save_steps_and_change_no_token) {
  Recorder::forgetful = true;
  Bench b(limits(3, 64, 200));
  std::vector<std::shared_ptr<Channel>> channels;
  for (unsigned i = 0; i < 3; ++i) channels.push_back(b.add(prompt(5, i), 150));
  b.run();
  for (unsigned i = 0; i < 3; ++i) EXPECT_EQ(Bench::take(*channels[i]).ids, Recorder::expected_answer(prompt(5, i), 150));
  const Engine::Statistics done = b.batcher.statistics();
  EXPECT_LT(done.steps, 100);
  EXPECT_EQ(done.generated_tokens, 450);
  EXPECT_GT(done.accepted_guesses, 200);
  Recorder::forgetful = false;
}

TEST(Batcher, a_conversation_that_asks_for_it_is_kept_through_others) {
  for (const std::int64_t window : {0, 10})
    for (const double seconds : {0.0, 60.0}) {
      Bench b(with_window(limits(2, 64, 40), window, kBlockTokens));
      auto channel = b.add(prompt(41, 1), 10, 0, seconds);
      b.run();
      std::vector<std::int32_t> next = prompt(41, 1);
      for (const std::int32_t id : Bench::take(*channel).ids) next.push_back(id);
      for (unsigned i = 0; i < 8; ++i) {
        channel = b.add(prompt(60, 10 + i), 5);
        b.run();
      }
      channel = b.add(next, 1);
      b.run();
      EXPECT_EQ(Bench::take(*channel).last.cached_tokens, seconds > 0 ? 48 : 0) << window;
    }
}

TEST(Batcher, two_ways_that_a_text_went_on_are_verified_in_one_step_and_change_no_token) {
  Recorder::forgetful = Recorder::wavers = true;
  for (const std::int64_t window : {0, 10}) {
    Bench b(with_window(limits(3, 64, 200), window, kBlockTokens));
    const auto channel = b.add(prompt(5, 1), 400);
    b.run();
    EXPECT_EQ(Bench::take(*channel).ids, Recorder::expected_answer(prompt(5, 1), 400));
    EXPECT_EQ(b.recorder.most_rows_of_table, 2u);
    EXPECT_EQ(b.batcher.statistics().cache_blocks_used, 0);
    EXPECT_GT(b.recorder.copies, 5);
  }
  Recorder::forgetful = Recorder::wavers = false;
}

TEST(Batcher, an_answer_that_was_given_before_is_guessed_from_it) {
  Bench b(limits(2, 64, 200));
  std::vector<std::int64_t> steps;
  for (int i = 0; i < 3; ++i) {
    const std::int64_t before = b.batcher.statistics().steps;
    const auto channel = b.add(prompt(20, 1), 100, i == 2 ? 7 : 0);
    b.run();
    EXPECT_EQ(Bench::take(*channel).ids, Recorder::expected_answer(prompt(20, 1), 100));
    steps.push_back(b.batcher.statistics().steps - before);
  }
  EXPECT_GT(steps[0], 90);
  EXPECT_LT(steps[1], 30);
  EXPECT_EQ(steps[2], steps[0]) << "another partition";
}

TEST(Batcher, guesses_beside_arrivals_and_too_few_blocks_change_no_token) {
  Recorder::forgetful = true;
  std::int64_t accepted = 0;
  for (unsigned round = 0; round < 200; ++round) {
    std::mt19937 random(round);
    Recorder::wavers = round % 3 == 0;
    faults::set(round % 5 == 0 ? "block=7,step=9" : "");
    Bench b(
        with_window(limits(1 + random() % 4, 1 + random() % 40, 6 + random() % 30), round % 2 == 0 ? 0 : 1 + random() % 12, kBlockTokens));
    std::vector<std::pair<std::vector<std::int32_t>, std::shared_ptr<Channel>>> sent;
    for (int i = 0; i < 6; ++i) {
      sent.push_back({prompt(1 + random() % 20, random()), nullptr});
      sent.back().second = b.add(sent.back().first, 1 + random() % 60);
      for (auto steps = random() % 10; steps > 0; --steps) b.batcher.step();
    }
    b.run();
    for (const auto& [tokens, channel] : sent) {
      const Result result = Bench::take(*channel);
      ASSERT_EQ(result.ids, Recorder::expected_answer(tokens, result.ids.size()));
      if (round % 5 != 0) {
        ASSERT_EQ(result.last.finish, FinishReason::length);
      }
    }
    ASSERT_EQ(b.batcher.statistics().cache_blocks_used, 0);
    accepted += b.batcher.statistics().accepted_guesses;
  }
  EXPECT_GT(accepted, 2000);
  faults::set("");
  Recorder::forgetful = Recorder::wavers = false;
}

TEST(Batcher, partitions_do_not_meet) {
  Bench b(limits(1, 64, 100));
  for (const std::uint64_t partition : {0, 1, 1}) {
    const auto channel = b.add(prompt(20, 1), 1, partition);
    b.run();
    EXPECT_EQ(Bench::take(*channel).last.cached_tokens, b.batcher.statistics().cached_prompt_tokens);
  }
  EXPECT_EQ(b.batcher.statistics().cached_prompt_tokens, 19);
}

TEST(Batcher, a_full_cache_forgets_what_was_not_used_for_longest) {
  Bench b(limits(1, 64, 20));
  const auto cached = [&](unsigned seed) {
    const auto channel = b.add(prompt(32, seed), 1);
    b.run();
    return Bench::take(*channel).last.cached_tokens;
  };
  EXPECT_EQ(cached(1), 0);
  EXPECT_EQ(cached(2), 0);
  EXPECT_EQ(cached(1), 31);
  EXPECT_EQ(cached(3), 0);  // in the place of 2
  EXPECT_EQ(cached(1), 31);
  EXPECT_LT(cached(2), 31);
}

TEST(Batcher, after_a_restart_the_disk_has_the_full_blocks_of_what_was_computed) {
  const Folder folder;
  for (int start = 0; start < 2; ++start) {
    Bench b(limits(2, 64, 100), folder.path);
    const auto channel = b.add(prompt(41, 1), 12);
    b.run();
    const Result result = Bench::take(*channel);
    EXPECT_EQ(result.ids, Recorder::expected_answer(prompt(41, 1), 12));
    EXPECT_EQ(result.last.cached_tokens, start == 0 ? 0 : 40);
    EXPECT_EQ(b.batcher.statistics().prompt_tokens, start == 0 ? 41 : 1);
    EXPECT_EQ(b.batcher.statistics().disk_blocks_read, start == 0 ? 0 : 10);
    if (start == 0) continue;
    std::vector<std::int32_t> goes_on = prompt(41, 1);
    goes_on.insert(goes_on.end(), result.ids.begin(), result.ids.end());
    goes_on.push_back(7);
    const auto second = b.add(goes_on, 3);
    b.run();
    EXPECT_EQ(Bench::take(*second).ids, Recorder::expected_answer(goes_on, 3));
  }
}

TEST(Batcher, what_many_wait_for_is_read_from_disk_once) {
  const Folder folder;
  {
    Bench b(limits(2, 64, 100), folder.path);
    b.add(prompt(80, 1), 1);
    b.run();
  }
  Bench b(limits(4, 64, 200), folder.path);
  std::vector<std::vector<std::int32_t>> prompts;
  std::vector<std::shared_ptr<Channel>> channels;
  for (std::int32_t i = 0; i < 4; ++i) {
    prompts.push_back(prompt(80, 1));
    prompts.back().push_back(i);
    channels.push_back(b.add(prompts.back(), 3));
  }
  b.run();
  for (unsigned i = 0; i < 4; ++i) EXPECT_EQ(Bench::take(*channels[i]).ids, Recorder::expected_answer(prompts[i], 3));
  EXPECT_EQ(b.batcher.statistics().disk_blocks_read, 20);
  EXPECT_EQ(b.batcher.statistics().prompt_tokens, 4);
}

TEST(Batcher, damaged_blocks_are_computed_again) {
  const Folder folder;
  {
    Bench b(limits(2, 64, 100), folder.path);
    b.add(prompt(80, 1), 1);
    b.run();
  }
  int damaged = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path))
    if (entry.path().extension() == ".kv" && damaged++ % 5 == 0) std::filesystem::resize_file(entry.path(), 60);
  Bench b(limits(2, 64, 100), folder.path);
  const auto channel = b.add(prompt(80, 1), 3);
  b.run();
  EXPECT_EQ(Bench::take(*channel).ids, Recorder::expected_answer(prompt(80, 1), 3));
  EXPECT_GT(b.batcher.statistics().disk_errors, 0);
  EXPECT_GT(b.batcher.statistics().prompt_tokens, 1);
}

TEST(Batcher, partitions_do_not_meet_on_disk) {
  const Folder folder;
  for (const std::uint64_t partition : {0, 1, 1}) {
    Bench b(limits(1, 64, 100), folder.path);
    b.add(prompt(20, 1), 1, partition);
    b.run();
    static int round = 0;
    EXPECT_EQ(b.batcher.statistics().cached_prompt_tokens, round++ == 2 ? 16 : 0);
  }
}

TEST(Batcher, at_ten_times_too_many_tokens_every_request_gets_its_answer_with_a_disk_and_without) {
  for (const bool on_disk : {false, true}) {
    const Folder folder;
    Bench b(limits(16, 32, 24), on_disk ? folder.path : "");  // 96 tokens of cache for sixteen requests of 60 at once
    std::vector<std::shared_ptr<Channel>> channels;
    for (unsigned i = 0; i < 48; ++i) channels.push_back(b.add(prompt(10, i), 50));
    b.run();
    for (unsigned i = 0; i < 48; ++i) {
      const Result result = Bench::take(*channels[i]);
      ASSERT_EQ(result.last.finish, FinishReason::length) << result.last.error;
      ASSERT_EQ(result.ids, Recorder::expected_answer(prompt(10, i), 50));
    }
    EXPECT_GT(b.batcher.statistics().preemptions, 10);
  }
}

/// Everything at once: arrivals, ends and cancellations at random, caches and folders from the smallest possible on, and failures of
/// blocks, steps, reads and writes.
TEST(Batcher, whatever_fails_every_request_gets_its_own_answer) {
  const Folder folder;
  std::int64_t read = 0, errors = 0, preemptions = 0;
  for (unsigned round = 0; round < 120; ++round) {
    std::mt19937 random(round);
    const auto up_to = [&](std::uint32_t n) { return static_cast<std::int64_t>(1 + random() % n); };
    const std::int64_t blocks = 4 + up_to(26);
    Bench b(with_window(limits(up_to(6), up_to(40), blocks), round % 2 == 0 ? 0 : up_to(12), kBlockTokens), folder.path, 100 * up_to(200));
    faults::set(round % 4 == 0 ? ""
                               : "block=" + std::to_string(4 + up_to(30)) + ",step=" + std::to_string(2 + up_to(20)) +
                                     ",disk_read=" + std::to_string(up_to(20)) + ",disk_write=" + std::to_string(20 + up_to(200)));
    const std::int64_t context = blocks * kBlockTokens;
    std::vector<std::pair<std::vector<std::int32_t>, std::shared_ptr<Channel>>> sent;
    std::set<std::size_t> cancelled;
    for (int i = 0; i < 12; ++i) {
      std::vector<std::int32_t> tokens = prompt(static_cast<std::size_t>(up_to(static_cast<std::uint32_t>(context - 1))), random());
      const std::vector<std::int32_t> beginning = prompt(60, random() % 4);  // of all rounds
      std::copy_n(beginning.begin(), std::min({tokens.size(), beginning.size(), std::size_t{random() % 64}}), tokens.begin());
      sent.emplace_back(tokens, b.add(tokens, up_to(30)));
      for (auto steps = random() % 6; steps > 0; --steps) b.batcher.step();
      if (random() % 8 == 0) {
        const std::size_t victim = random() % sent.size();
        sent[victim].second->cancel();
        cancelled.insert(victim);
      }
    }
    b.run();
    faults::set("");
    for (std::size_t i = 0; i < sent.size(); ++i) {
      const auto& [tokens, channel] = sent[i];
      const Result result = Bench::take(*channel);
      ASSERT_EQ(result.ids, Recorder::expected_answer(tokens, result.ids.size())) << round;
      // A step that fails twice running is the only failure that anybody sees.
      if (result.last.finish == FinishReason::error) {
        ASSERT_THAT(result.last.error, HasSubstr("QUERN_FAULTS"));
      } else if (!cancelled.contains(i)) {
        ASSERT_EQ(result.last.finish, FinishReason::length);
      }
    }
    const Engine::Statistics done = b.batcher.statistics();
    read += done.disk_blocks_read;
    errors += done.disk_errors;
    preemptions += done.preemptions;
  }
  EXPECT_GT(read, 100);
  EXPECT_GT(errors, 10);
  EXPECT_GT(preemptions, 100);
}

TEST(Batcher, a_step_allocates_no_more_than_its_events) {
  std::vector<float> logits(8 * 9 * kVocabulary, 0.0f);  // each has a row and eight guesses at most
  for (const std::int64_t window : {0, 10}) {
    std::vector<std::shared_ptr<Channel>> channels;
    Batcher quiet(
        {.max_sequences = 8,
         .step_tokens = 64,
         .vocabulary = kVocabulary,
         .tokens_known = kVocabulary,
         .blocks = 400,
         .block_tokens = kBlockTokens,
         .max_blocks_per_sequence = 50,
         .window = window,
         .window_blocks = 100},
        [&](const runtime::Batch& batch) { return std::span<const float>(logits).first(batch.rows.size() * kVocabulary); },
        [](std::int32_t, std::int32_t) {}, [](std::int32_t, std::int32_t) {});
    engine::testing::ByteTokens words{{}};
    for (std::uint64_t i = 0; i < 8; ++i) {
      Request request{.prompt = {1, 2, 3}, .sampling = {.top_k = 40, .top_p = 0.9, .repeat_penalty = 1.1}, .ignore_end = true};
      auto sequence = std::make_unique<Sequence>(std::move(request), 190, kVocabulary, *words.tokenizer);
      sequence->arrival = i;
      channels.push_back(sequence->channel());
      quiet.add(std::move(sequence));
    }
    for (int i = 0; i < 10; ++i) quiet.step();
    const std::size_t before = quern::testing::allocations();
    for (int i = 0; i < 100; ++i) quiet.step();
    // The ids of an event, and now and then a node of the queue that nobody reads.
    EXPECT_LE(quern::testing::allocations() - before, 100u * 8 * 2);
    quiet.cancel_all();
  }
}

}  // namespace
}  // namespace quern::engine::detail
