#include "engine/draft.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/faults.h"
#include "engine/detail/model_drafter.h"
#include "engine/detail/speculation.h"
#include "recorder.h"
#include "tiny_engine.h"

namespace quern::engine {
namespace {

using ::testing::HasSubstr;

using detail::Batcher;
using detail::Drafter;
using detail::ModelDrafter;
using detail::Sequence;
using detail::Speculation;
using detail::StepCost;
using detail::StepWork;
using detail::testing::Bench;
using detail::testing::kBlockTokens;
using detail::testing::kVocabulary;
using detail::testing::limits;
using detail::testing::prompt;
using detail::testing::Recorder;
using detail::testing::Result;
using testing::ByteTokens;
using testing::expect_same;
using testing::load;
using testing::same_bits;
using testing::wait_for;
using DraftEngine = testing::TinyEngine;

TEST_F(DraftEngine, a_draft_that_is_the_model_itself_is_always_right_and_changes_no_bit) {
  const auto plain = make({.prompt_lookup = false}), drafting = make({.prompt_lookup = false, .draft = {.model = model_, .tokens = 4}});
  for (const double temperature : {0.0, 0.3, 1.5})
    for (unsigned seed = 0; seed < 4; ++seed) {
      Request r = request(60, seed, 80);
      r.sampling.temperature = temperature;
      r.sampling.repeat_penalty = seed % 2 == 0 ? 1.0 : 1.1;
      r.sampling.top_k = seed == 3 ? 20 : 0;
      const testing::Answer answer = wait_for(*drafting->submit(r));
      expect_same(answer, wait_for(*plain->submit(r)));
      EXPECT_GT(answer.last.accepted_guesses, 60);
    }
  const Engine::Statistics done = wait_until_idle(*drafting);
  EXPECT_EQ(done.drafted_tokens, done.guessed_tokens);
  EXPECT_GT(static_cast<double>(done.accepted_drafts), 0.95 * static_cast<double>(done.drafted_tokens));
  EXPECT_LT(done.steps, 3 * 4 * 20);
}

TEST_F(DraftEngine, a_draft_of_other_weights_changes_no_bit) {
  const auto other = load({.weights = ir::DType::q4_1, .tied = false, .seed = 2});
  const auto plain = make({.prompt_lookup = false}), drafting = make({.draft = {.model = other, .tokens = 3}}),
             choosing = make({.draft = {.model = other}});
  for (const double temperature : {0.0, 1.5})
    for (unsigned seed = 0; seed < 3; ++seed) {
      Request r = request(40, seed, 100);
      r.sampling.temperature = temperature;
      const testing::Answer expected = wait_for(*plain->submit(r));
      expect_same(wait_for(*drafting->submit(r)), expected);
      expect_same(wait_for(*choosing->submit(r)), expected);
    }
  const Engine::Statistics always = wait_until_idle(*drafting), chosen = wait_until_idle(*choosing);
  EXPECT_GT(always.drafted_tokens, 500);
  EXPECT_LT(always.accepted_drafts, always.drafted_tokens / 4);
  EXPECT_LT(chosen.drafted_tokens, 150) << "it does not pay";
}

TEST_F(DraftEngine, drafts_beside_cancels_preemptions_common_beginnings_and_faults_change_no_bit) {
  const auto alone = make({.prefix_cache = false, .prompt_lookup = false});
  const auto other = load({.weights = ir::DType::q4_1, .tied = false, .seed = 3});
  for (const bool itself : {true, false}) {
    std::vector<std::string> notes;
    const auto busy = make({.context_length = 200,
                            .max_sequences = 6,
                            .cache_tokens = 320,
                            .step_tokens = 64,
                            .draft = {.model = itself ? model_ : other, .tokens = itself ? 5 : 0}});
    faults::set("draft=37,block=15");
    std::vector<Request> requests;
    std::vector<std::unique_ptr<Stream>> streams;
    hold(*busy, [&] {
      for (unsigned i = 0; i < 16; ++i) {
        requests.push_back(request(60, i / 3, 50 + i));
        requests.back().sampling = {.temperature = 0.2 * (i % 5), .seed = i};
        streams.push_back(busy->submit(requests.back()));
        if (i % 5 == 4) streams[i - 2]->cancel();
      }
    });
    std::vector<testing::Answer> answers;
    for (const auto& stream : streams) answers.push_back(wait_for(*stream));
    faults::set("");
    for (unsigned i = 0; i < 16; ++i) {
      testing::Answer expected = wait_for(*alone->submit(requests[i]));
      ASSERT_NE(answers[i].last.finish, FinishReason::error) << answers[i].last.error;
      if (answers[i].last.finish == FinishReason::cancelled) {
        ASSERT_LE(answers[i].ids.size(), expected.ids.size());
        expected.ids.resize(answers[i].ids.size());
        EXPECT_EQ(answers[i].ids, expected.ids);
      } else {
        expect_same(answers[i], expected);
      }
    }
    const Engine::Statistics done = wait_until_idle(*busy);
    EXPECT_GT(done.preemptions, 0);
    if (itself) {
      EXPECT_GT(done.accepted_drafts, 100);
    }
  }
}

TEST_F(DraftEngine, a_draft_with_a_window_and_a_shorter_context_stops_where_its_context_does) {
  const auto draft = load(
      {.architecture = "gemma3", .layers = 6, .context_length = 64, .head_norms = true, .outer_norms = true, .more = [](gguf::Writer& w) {
         w.set("gemma3.attention.sliding_window", std::uint32_t{30});
       }});
  const auto plain = make(), drafting = make({.prompt_lookup = false, .draft = {.model = draft, .tokens = 2}});
  const Request r = request(30, 1, 150);
  const testing::Answer answer = wait_for(*drafting->submit(r));
  expect_same(answer, wait_for(*plain->submit(r)));
  EXPECT_GT(answer.last.guessed_tokens, 20);
  EXPECT_LT(answer.last.guessed_tokens, 2 * 40);
}

TEST_F(DraftEngine, a_draft_of_another_vocabulary_is_refused_by_the_first_difference) {
  const auto other = load({.vocabulary = 290});
  try {
    make({.draft = {.model = other}});
    FAIL() << "it was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument);
    EXPECT_THAT(error.what(), HasSubstr("has 290 tokens and the model 288; it alone knows token 288 as '<|288|>'"));
  }
  EXPECT_THROW(make({.draft = {.model = model_, .tokens = 9}}), Error);
  const ByteTokens a({"one", "two"}), b({"one", "too"});
  EXPECT_EQ(common_vocabulary(*a.tokenizer, *a.tokenizer), 259);
  EXPECT_THAT([&] { common_vocabulary(*a.tokenizer, *b.tokenizer); },
              ::testing::ThrowsMessage<Error>(HasSubstr("token 257 is 'too' to it and 'two' to the model")));
}

TEST(CommonVocabulary, may_be_longer_on_one_side_by_unused_tokens) {
  const auto of = [](std::size_t padding) {
    std::vector<std::string> words = {"a", "b"};
    for (std::size_t i = 0; i < padding; ++i) words.push_back("[PAD" + std::to_string(i + 2) + "]");
    tokenizers::Spec spec{.model = "gpt2", .pre_tokenizer = "gpt-2"};
    spec.tokens.assign(words.begin(), words.end());
    spec.types.assign(words.size(), 1);
    for (std::size_t i = 2; i < words.size(); ++i) spec.types[i] = 5;
    return tokenizers::make_tokenizer(spec);
  };
  EXPECT_EQ(common_vocabulary(*of(1), *of(4)), 3);
  EXPECT_EQ(common_vocabulary(*of(4), *of(0)), 2);
}

/// A batcher whose draft model is a second recorder: what it reads through its own block table tells whether its cache is right.
struct DraftBench {
  DraftBench(const Batcher::Limits& wanted, std::int64_t draft_blocks, std::int64_t piece = 512, std::int64_t context = 1 << 20)
      : bench(wanted), draft_limits(wanted, draft_blocks), recorder(draft_limits.of_recorder) {
    auto drafter = std::make_unique<ModelDrafter>(ModelDrafter::Limits{.rows = wanted.max_sequences,
                                                                       .blocks = draft_blocks,
                                                                       .block_tokens = kBlockTokens,
                                                                       .max_blocks_per_sequence = wanted.blocks,
                                                                       .vocabulary = kVocabulary,
                                                                       .tokens_known = kVocabulary,
                                                                       .context = context,
                                                                       .piece = piece},
                                                  [this](const runtime::Batch& batch) {
                                                    if (fails) throw std::runtime_error("out of lead");
                                                    return recorder(batch);
                                                  });
    bench.batcher.draft_with(std::move(drafter), [this](std::string_view note) { notes.emplace_back(note); });
  }

  struct DraftLimits {
    DraftLimits(const Batcher::Limits& wanted, std::int64_t blocks) : of_recorder(wanted) {
      of_recorder.blocks = blocks;
      of_recorder.max_blocks_per_sequence = wanted.blocks;
      of_recorder.block_tokens = kBlockTokens;
      of_recorder.window = 0;
    }
    Batcher::Limits of_recorder;
  };

  Bench bench;
  DraftLimits draft_limits;
  Recorder recorder;
  bool fails = false;
  std::vector<std::string> notes;
};

TEST(Drafts, are_right_as_long_as_their_cache_is) {
  std::int64_t accepted = 0, drafted = 0, generated = 0;
  for (unsigned round = 0; round < 150; ++round) {
    std::mt19937 random(round);
    Batcher::Limits of = limits(1 + random() % 4, 1 + random() % 40, 6 + random() % 30);
    of.lookup = round % 3 == 0;
    of.draft_tokens = static_cast<std::int64_t>(random() % 6);
    const std::int64_t blocks = round % 4 == 0 ? 4 + random() % 10 : 200;
    DraftBench b(of, blocks, 1 + random() % 30, round % 5 == 0 ? 20 : 1 << 20);
    std::vector<std::pair<std::vector<std::int32_t>, std::shared_ptr<detail::Channel>>> sent;
    for (int i = 0; i < 6; ++i) {
      sent.push_back({prompt(1 + random() % 20, random()), nullptr});
      sent.back().second = b.bench.add(sent.back().first, 1 + random() % 60);
      for (auto steps = random() % 10; steps > 0; --steps) b.bench.batcher.step();
    }
    b.bench.run();
    for (const auto& [tokens, channel] : sent) {
      const Result result = Bench::take(*channel);
      ASSERT_EQ(result.ids, Recorder::expected_answer(tokens, result.ids.size()));
      ASSERT_EQ(result.last.finish, FinishReason::length);
    }
    const Engine::Statistics done = b.bench.batcher.statistics();
    accepted += done.accepted_drafts;
    drafted += done.drafted_tokens;
    generated += done.generated_tokens;
    EXPECT_TRUE(b.notes.empty());
  }
  EXPECT_GT(accepted, generated / 4);
  EXPECT_GT(accepted, drafted * 9 / 10) << "the draft is the model: what is not accepted had no room";
}

TEST(Drafts, save_steps_for_all_that_run_together) {
  DraftBench b(limits(4, 64, 400), 400);
  std::vector<std::shared_ptr<detail::Channel>> channels;
  for (unsigned i = 0; i < 4; ++i) channels.push_back(b.bench.add(prompt(30, i), 100));
  b.bench.run();
  for (unsigned i = 0; i < 4; ++i) EXPECT_EQ(Bench::take(*channels[i]).ids, Recorder::expected_answer(prompt(30, i), 100));
  EXPECT_LT(b.bench.batcher.statistics().steps, 60);
}

TEST(Drafts, the_next_turn_of_a_conversation_is_not_read_again) {
  DraftBench b(limits(1, 256, 400), 400);
  std::vector<std::int32_t> text = prompt(200, 1);
  for (int turn = 0; turn < 3; ++turn) {
    b.recorder.step_sizes.clear();
    const auto channel = b.bench.add(text, 40);
    b.bench.run();
    const std::vector<std::int32_t> answer = Bench::take(*channel).ids;
    text.insert(text.end(), answer.begin(), answer.end());
    text.insert(text.end(), {1, 2, 3});
    ASSERT_FALSE(b.recorder.step_sizes.empty());
    EXPECT_EQ(*std::ranges::max_element(b.recorder.step_sizes) > 100, turn == 0);
  }
}

TEST(Drafts, that_fail_again_and_again_are_used_no_more) {
  DraftBench b(limits(2, 64, 100), 100);
  b.fails = true;
  const auto channel = b.bench.add(prompt(10, 1), 50);
  b.bench.run();
  EXPECT_EQ(Bench::take(*channel).ids, Recorder::expected_answer(prompt(10, 1), 50));
  ASSERT_EQ(b.notes.size(), 1u);
  EXPECT_THAT(b.notes[0], HasSubstr("out of lead"));
  EXPECT_EQ(b.bench.batcher.statistics().drafted_tokens, 0);
}

/// Guesses that are right with a given chance, and take a given share of a step.
class Diviner final : public Drafter {
 public:
  explicit Diviner(double cost) : cost_(cost) {}
  std::int64_t context() const override { return 1 << 30; }
  std::int64_t lag(const Sequence&) const override { return 1; }
  double predict(const StepWork&, const StepCost&) const override { return cost_; }
  void guess(std::span<const Wish> wishes, sampling::Workspace&) override {
    for (const Wish& wish : wishes) wish.sequence->guesses.assign(static_cast<std::size_t>(wish.most), 0);
  }

 private:
  double cost_;
};

/// Tokens a second of one sequence over `steps`, in steps of 1 s and 0.02 s more a row, against those without guesses.
double speed(double cost, const std::function<double(int step)>& chance, int steps) {
  const auto seconds = [](std::int64_t rows) { return 1 + 0.02 * double(rows - 1); };
  StepCost model;
  for (std::int64_t i = 0; i < 60; ++i) model.observe({.rows = 1 + i % 9, .row_keys = 0}, seconds(1 + i % 9));
  Speculation speculation({.lookup = false});
  speculation.draft_with(std::make_unique<Diviner>(cost), {});
  sampling::Workspace workspace(kVocabulary);
  const ByteTokens words({});
  Request request{.prompt = {1}, .max_tokens = -1};
  Sequence sequence(std::move(request), 1 << 30, kVocabulary, *words.tokenizer);
  sequence.extend(2);
  Sequence* const all[] = {&sequence};
  std::mt19937 random(1);
  double time = 0;
  std::int64_t tokens = 0;
  for (int step = 0; step < steps; ++step) {
    sequence.guesses.clear();
    speculation.guess(all, {.rows = 1, .row_keys = 0}, model, workspace);
    time += cost * double(sequence.guesses.size()) + seconds(1 + std::ssize(sequence.guesses));
    ++tokens;
    for (std::size_t i = 0; i < sequence.guesses.size(); ++i) {
      const bool right = std::uniform_real_distribution<double>()(random) < chance(step);
      speculation.learn(sequence, i, right ? 0 : 1);
      if (!right) break;
      ++tokens;
    }
  }
  return double(tokens) / time;
}

TEST(Speculating, never_costs_more_than_three_percent_and_gains_where_it_can) {
  for (const double cost : {0.02, 0.1, 0.3, 0.6, 1.0})
    for (const double chance : {0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0})
      EXPECT_GT(speed(cost, [&](int) { return chance; }, 1500), 0.97) << cost << " of a step, right in " << chance;
  EXPECT_GT(speed(0.1, [](int) { return 0.8; }, 500), 1.7);
  EXPECT_GT(speed(0.1, [](int) { return 1.0; }, 500), 3);
  EXPECT_GT(speed(0.3, [](int) { return 0.7; }, 500), 1.15);
}

TEST(Speculating, is_taken_up_again_when_the_text_has_changed) {
  EXPECT_GT(speed(0.2, [](int step) { return step < 500 ? 0.0 : 0.9; }, 2500), 1.4);
}

}  // namespace
}  // namespace quern::engine
