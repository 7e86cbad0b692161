#include "engine/detail/beam_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "byte_tokens.h"
#include "engine/detail/batcher.h"
#include "run_to_the_end.h"
#include "tiny_engine.h"
#include "window_recorder.h"

namespace quern::engine::detail {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kVocabulary = 257, kBlockTokens = 4;
constexpr std::int32_t kEnd = 256;

/// A made-up model: logits that depend on every token before, of a few tokens and the end.
std::vector<float> logits_after(std::span<const std::int32_t> tokens, int alive, float end_bias) {
  std::uint32_t hash = 2166136261u;
  for (const std::int32_t id : tokens) hash = (hash ^ static_cast<std::uint32_t>(id + 1)) * 16777619u;
  std::mt19937 random(hash);
  std::vector<float> logits(kVocabulary, -30.0f);
  for (int i = 0; i < alive; ++i) logits[static_cast<std::size_t>('a' + i)] = static_cast<float>(random() % 4096) / 1024.0f;
  logits[kEnd] = static_cast<float>(random() % 4096) / 1024.0f + end_bias;
  return logits;
}

struct Text {
  std::vector<std::int32_t> ids;
  double sum = 0, score = 0;
};

struct Case {
  std::int64_t width = 4, most = 8;
  double penalty = 1;
  int alive = 6;
  float end_bias = 0;
};

/// Equals keep their order.
template <class T, class Before>
void sort_stably(std::vector<T>& list, Before before) {
  for (std::size_t i = 1; i < list.size(); ++i)
    for (std::size_t k = i; k > 0 && before(list[k], list[k - 1]); --k) std::swap(list[k], list[k - 1]);
}

/// The search as its definition says it, on whole texts, without an early end.
std::vector<Text> searched(const std::vector<std::int32_t>& prompt, const Case& c) {
  std::vector<Text> live = {{}}, complete;
  for (std::int64_t step = 0; step < c.most; ++step) {
    std::vector<Text> next;
    for (const Text& text : live) {
      std::vector<std::int32_t> all = prompt;
      all.insert(all.end(), text.ids.begin(), text.ids.end());
      const std::vector<float> logits = logits_after(all, c.alive, c.end_bias);
      double sum = 0;
      for (const float l : logits) sum += std::exp(static_cast<double>(l));
      std::vector<std::int32_t> order(kVocabulary);
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
      sort_stably(
          order, [&](std::int32_t a, std::int32_t b) { return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)]; });
      for (std::int64_t k = 0; k < 2 * c.width && k < kVocabulary; ++k) {
        const std::int32_t id = order[static_cast<std::size_t>(k)];
        Text longer = text;
        longer.ids.push_back(id);
        longer.sum += static_cast<double>(logits[static_cast<std::size_t>(id)]) - std::log(sum);
        if (id == kEnd) {
          longer.score = longer.sum / std::pow(double(prompt.size() + text.ids.size()), c.penalty);
          complete.push_back(longer);
        } else {
          longer.score = longer.sum / std::pow(double(prompt.size() + longer.ids.size()), c.penalty);
          next.push_back(longer);
        }
      }
    }
    sort_stably(next, [](const Text& a, const Text& b) { return a.sum > b.sum; });
    if (next.size() > static_cast<std::size_t>(c.width)) next.resize(static_cast<std::size_t>(c.width));
    live = next;
  }
  complete.insert(complete.end(), live.begin(), live.end());
  sort_stably(complete, [](const Text& a, const Text& b) { return a.score > b.score; });
  complete.resize(std::min(complete.size(), static_cast<std::size_t>(c.width)));
  return complete;
}

/// A batcher over the made-up model, which sees through its block table what was put into the cache.
class Bench {
 public:
  Bench(std::int64_t sequences, std::int64_t blocks, std::int64_t step_tokens, const Case& c, bool prefix_cache = true,
        std::int64_t window = 0)
      : limits_(engine::testing::with_window({.max_sequences = sequences,
                                              .step_tokens = step_tokens,
                                              .vocabulary = kVocabulary,
                                              .tokens_known = kVocabulary,
                                              .blocks = blocks,
                                              .block_tokens = kBlockTokens,
                                              .max_blocks_per_sequence = blocks,
                                              .prefix_cache = prefix_cache,
                                              .step_seconds = -1},
                                             window, kBlockTokens)),
        case_(c),
        cache_(static_cast<std::size_t>(blocks * kBlockTokens), -1),
        window_(limits_),
        batcher(
            limits_, [this](const runtime::Batch& b) { return compute(b); },
            [this](std::int32_t from, std::int32_t to) {
              std::copy_n(cache_.begin() + from * kBlockTokens, kBlockTokens, cache_.begin() + to * kBlockTokens);
            },
            [this](std::int32_t from, std::int32_t to) { window_.copy_block(from, to); }) {}

  std::shared_ptr<Channel> add(std::vector<std::int32_t> prompt, const Case& c, bool beams = true) {
    Request request{.prompt = std::move(prompt), .sampling = {.temperature = beams ? 1.0 : 0.0}, .max_tokens = c.most};
    if (beams) {
      request.beam_width = c.width;
      request.length_penalty = c.penalty;
    } else {
      request.ignore_end = true;
    }
    auto sequence = std::make_unique<Sequence>(std::move(request), limits_.blocks * kBlockTokens, kVocabulary, *words_.tokenizer);
    sequence->arrival = arrivals_++;
    auto channel = sequence->channel();
    batcher.add(std::move(sequence));
    return channel;
  }
  void run() { testing::run_to_the_end(batcher); }
  static std::vector<BeamAnswer> beams(Channel& channel) {
    while (auto event = channel.take())
      if (event->finish != FinishReason::none) return event->beams ? *event->beams : std::vector<BeamAnswer>();
    return {};
  }

 private:
  Batcher::Results compute(const runtime::Batch& batch) {
    for (std::size_t i = 0; i < batch.ids.size(); ++i) cache_[static_cast<std::size_t>(batch.slots[i])] = batch.ids[i];
    const auto seen_by = [&](std::size_t token) {
      std::vector<std::int32_t> seen;
      for (std::int32_t p = 0; p <= batch.positions[token]; ++p) {
        const std::int32_t block =
            batch.block_table[static_cast<std::size_t>(batch.sequence[token] * limits_.max_blocks_per_sequence + p / kBlockTokens)];
        seen.push_back(cache_[static_cast<std::size_t>(block * kBlockTokens + p % kBlockTokens)]);
      }
      return seen;
    };
    window_(batch, seen_by);
    out_.clear();
    for (const std::int32_t r : batch.rows) {
      const std::vector<std::int32_t> seen = seen_by(static_cast<std::size_t>(r));
      std::vector<float> logits = logits_after(seen, case_.alive, case_.end_bias);
      if (poison > 0 && static_cast<int>(seen.size()) == poison) logits[3] = std::numeric_limits<float>::quiet_NaN();
      out_.insert(out_.end(), logits.begin(), logits.end());
    }
    return std::span<const float>(out_);
  }

  testing::ByteTokens words_{{}};
  Batcher::Limits limits_;
  Case case_;
  std::vector<std::int32_t> cache_;
  engine::testing::WindowRecorder window_;
  std::vector<float> out_;
  std::uint64_t arrivals_ = 0;

 public:
  int poison = 0;  // texts of so many tokens are given NaN
  Batcher batcher;
};

std::vector<std::int32_t> prompt_of(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::int32_t> ids(n);
  for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random() % 256);
  return ids;
}

void expect_found(const std::vector<BeamAnswer>& found, const std::vector<Text>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    std::vector<std::int32_t> ids;
    double sum = 0;
    for (const TokenLogprob& t : found[i].tokens) {
      ids.push_back(t.id);
      sum += static_cast<double>(t.logprob);
    }
    EXPECT_EQ(ids, expected[i].ids) << i;
    EXPECT_NEAR(sum, expected[i].sum, 1e-4);
    EXPECT_NEAR(found[i].score, expected[i].score, 1e-5);
    const bool ended = ids.back() == kEnd;
    EXPECT_EQ(found[i].finish, ended ? FinishReason::stop : FinishReason::length);
    if (ended) ids.pop_back();
    EXPECT_EQ(found[i].text, std::string(ids.begin(), ids.end()));
  }
}

TEST(BeamSearch, finds_what_its_definition_finds) {
  for (const Case& c : {Case{}, Case{.width = 1}, Case{.width = 7, .most = 12}, Case{.width = 3, .most = 20, .end_bias = 1.5f},
                        Case{.width = 4, .penalty = 0}, Case{.width = 4, .penalty = 2.5}, Case{.width = 4, .penalty = -1},
                        Case{.width = 5, .most = 1}, Case{.width = 6, .most = 9, .alive = 1, .end_bias = -1}})
    for (unsigned seed = 0; seed < 6; ++seed) {
      Bench b(8, 200, 64, c);
      const auto channel = b.add(prompt_of(5 + seed, seed), c);
      b.run();
      expect_found(Bench::beams(*channel), searched(prompt_of(5 + seed, seed), c));
    }
}

TEST(BeamSearch, that_is_wide_enough_finds_the_most_probable_text_of_all) {
  const Case c{.width = 81, .most = 5, .penalty = 0, .alive = 3};
  const std::vector<std::int32_t> prompt = prompt_of(6, 9);
  double best = -1e9;
  const auto visit = [&](auto self, std::vector<std::int32_t> text, double sum) -> void {
    const std::vector<float> logits = logits_after(text, c.alive, c.end_bias);
    double all = 0;
    for (const float l : logits) all += std::exp(static_cast<double>(l));
    const auto logprob = [&](std::int32_t id) { return static_cast<double>(logits[static_cast<std::size_t>(id)]) - std::log(all); };
    best = std::max(best, sum + logprob(kEnd));
    for (std::int32_t id = 'a'; id < 'a' + c.alive; ++id) {
      std::vector<std::int32_t> longer = text;
      longer.push_back(id);
      if (longer.size() - prompt.size() == static_cast<std::size_t>(c.most)) {
        best = std::max(best, sum + logprob(id));
      } else {
        self(self, longer, sum + logprob(id));
      }
    }
  };
  visit(visit, prompt, 0);
  Bench b(81, 400, 512, c);
  const auto channel = b.add(prompt, c);
  b.run();
  EXPECT_NEAR(Bench::beams(*channel).front().score, best, 1e-4);
}

TEST(BeamSearch, beside_others_with_too_few_blocks_and_in_small_steps_finds_the_same) {
  const Case c{.width = 4, .most = 14, .end_bias = -1};
  for (const bool prefix_cache : {true, false})
    for (const auto& [step, window] : {std::pair<std::int64_t, std::int64_t>(1, 0), {5, 0}, {64, 0}, {1, 5}, {5, 1}, {64, 12}}) {
      Bench b(9, 24, step, c, prefix_cache, window);
      std::vector<std::pair<std::shared_ptr<Channel>, std::vector<std::int32_t>>> searches;
      std::vector<std::shared_ptr<Channel>> others;
      for (unsigned i = 0; i < 4; ++i) {
        others.push_back(b.add(prompt_of(7, 100 + i), {.most = 30}, false));
        const std::vector<std::int32_t> prompt = prompt_of(9 + i, i / 2);
        searches.emplace_back(b.add(prompt, c), prompt);
        for (int k = 0; k < 3; ++k) b.batcher.step();
      }
      b.run();
      for (auto& [channel, prompt] : searches) expect_found(Bench::beams(*channel), searched(prompt, c));
      EXPECT_GT(b.batcher.statistics().preemptions, 0) << "the test is to be of that";
    }
}

TEST(BeamSearch, that_meets_nan_fails_once_and_alone) {
  const Case c{.width = 4, .most = 8, .end_bias = -1};
  Bench b(8, 100, 64, c);
  b.poison = 10;
  const auto search = b.add(prompt_of(7, 1), c), other = b.add(prompt_of(40, 2), {.most = 20}, false);
  b.run();
  const std::optional<Event> event = search->take();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->finish, FinishReason::error);
  EXPECT_THAT(event->error, HasSubstr("NaN"));
  EXPECT_FALSE(search->take());
  std::size_t tokens = 0;
  while (const auto more = other->take()) tokens += more->ids.size();
  EXPECT_EQ(tokens, 20u);
}

TEST(BeamSearch, that_is_cancelled_leaves_nothing) {
  const Case c{.width = 4, .most = 30, .end_bias = -5};
  Bench b(8, 100, 64, c);
  const auto search = b.add(prompt_of(7, 1), c);
  for (int i = 0; i < 5; ++i) b.batcher.step();
  EXPECT_EQ(b.batcher.statistics().running, 4);
  search->cancel();
  b.run();
  EXPECT_EQ(search->take()->finish, FinishReason::cancelled);
}

using BeamEngineTest = testing::TinyEngine;

TEST_F(BeamEngineTest, refuses_what_a_search_cannot_have) {
  const auto engine = make({.context_length = 128, .max_sequences = 4});
  const auto error = [&](auto change) -> std::string {
    Request r = request(10, 1, 8);
    r.sampling = {};
    r.beam_width = 2;
    change(r);
    try {
      engine->submit(r);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(error([](Request&) {}), "");
  EXPECT_THAT(error([](Request& r) { r.beam_width = 5; }), HasSubstr("at most 4 sequences"));
  EXPECT_THAT(error([](Request& r) { r.max_tokens = 100; }), HasSubstr("take more than the cache of 128 tokens"));
  EXPECT_THAT(error([](Request& r) { r.sampling.top_k = 3; }), HasSubstr("no sampling parameters"));
  EXPECT_THAT(error([](Request& r) { r.stop = {"x"}; }), HasSubstr("stop texts"));
  EXPECT_THAT(error([](Request& r) { r.length_penalty = std::numeric_limits<double>::infinity(); }), HasSubstr("length_penalty"));
}

TEST_F(BeamEngineTest, a_beam_s_log_probabilities_are_those_of_reading_its_text) {
  const auto engine = make();
  Request r = request(30, 5, 10);
  r.sampling = {};
  r.beam_width = 3;
  const testing::Answer answer = testing::wait_for(*engine->submit(r));
  ASSERT_TRUE(answer.last.beams);
  ASSERT_EQ(answer.last.beams->size(), 3u);
  for (const BeamAnswer& beam : *answer.last.beams) {
    Request read = r;
    read.beam_width = 0;
    read.max_tokens = 0;
    read.prompt_logprobs = 0;
    for (const TokenLogprob& t : beam.tokens) read.prompt.push_back(t.id);
    const Event told = testing::wait_for(*engine->submit(read)).last;
    ASSERT_EQ(beam.tokens.size(), 10u);
    for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(told.prompt->logprobs[29 + i].logprob, beam.tokens[i].logprob) << "bit by bit";
  }
}

}  // namespace
}  // namespace quern::engine::detail
