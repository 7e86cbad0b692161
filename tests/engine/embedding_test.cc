#include "engine/embedding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "tiny_engine.h"

namespace quern::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;

using testing::Answer;
using testing::same_bits;
using testing::wait_for;

class EmbeddingTest : public testing::TinyEngine {
 protected:
  static Request text(std::size_t tokens, unsigned seed, Pooling pooling) {
    Request r = request(tokens, seed, -1);
    r.pooling = pooling;
    return r;
  }
  std::vector<float> embed(Engine& engine, const Request& r) { return wait_for(*engine.submit(r)).last.prompt->embedding; }
};

TEST_F(EmbeddingTest, is_the_last_ones_the_first_ones_or_the_mean_of_the_tokens_states) {
  const auto engine = make();
  constexpr std::size_t kTokens = 37;
  const Request whole = text(kTokens, 3, Pooling::mean);
  std::vector<double> sum(64);
  std::vector<float> first, last;
  for (std::size_t n = 1; n <= kTokens; ++n) {  // a causal model's state of a token is that of the last token of what it has seen
    Request prefix = whole;
    prefix.prompt.resize(n);
    prefix.pooling = Pooling::last;
    last = embed(*engine, prefix);
    ASSERT_EQ(last.size(), sum.size());
    if (n == 1) first = last;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(last[i]);
  }
  std::vector<float> mean;
  for (const double x : sum) mean.push_back(static_cast<float>(x / kTokens));
  Request r = whole;
  EXPECT_TRUE(same_bits(embed(*engine, r), mean));
  r.pooling = Pooling::last;
  EXPECT_TRUE(same_bits(embed(*engine, r), last));
  r.pooling = Pooling::first;
  EXPECT_TRUE(same_bits(embed(*engine, r), first));
}

TEST_F(EmbeddingTest, depends_on_nothing_but_its_text) {
  for (const Pooling pooling : {Pooling::last, Pooling::mean, Pooling::first}) {
    const auto alone = make({.step_tokens = 512, .prefix_cache = false});
    const std::vector<float> expected = embed(*alone, text(150, 7, pooling));
    for (const std::int64_t step : {1, 7, 64}) {
      const auto engine = make({.max_sequences = 4, .cache_tokens = 704, .step_tokens = step});
      std::vector<std::unique_ptr<Stream>> others;
      for (unsigned i = 0; i < 6; ++i) others.push_back(engine->submit(i % 2 ? request(60, i, 40) : text(90, i, Pooling::mean)));
      const auto one = engine->submit(text(150, 7, pooling)), again = engine->submit(text(150, 7, pooling));
      EXPECT_TRUE(same_bits(wait_for(*one).last.prompt->embedding, expected)) << step;
      EXPECT_TRUE(same_bits(wait_for(*again).last.prompt->embedding, expected)) << step;
      for (const auto& other : others) EXPECT_NE(wait_for(*other).last.finish, FinishReason::error);
    }
  }
}

TEST_F(EmbeddingTest, of_the_last_token_computes_nothing_that_the_cache_has) {
  const auto engine = make();
  wait_for(*engine->submit(request(100, 5, 1)));
  const Answer last = wait_for(*engine->submit(text(100, 5, Pooling::last))), mean = wait_for(*engine->submit(text(100, 5, Pooling::mean)));
  EXPECT_GE(last.last.cached_tokens, 96);
  EXPECT_EQ(mean.last.cached_tokens, 0) << "every token's state is wanted";
  EXPECT_EQ(last.last.finish, FinishReason::stop);
  EXPECT_EQ(last.last.prompt_tokens, 100);
  EXPECT_EQ(last.last.generated_tokens, 0);
}

TEST_F(EmbeddingTest, of_a_text_that_fills_the_context_is_possible_and_of_a_longer_one_is_not) {
  const auto engine = make({.context_length = 64});
  EXPECT_EQ(embed(*engine, text(64, 1, Pooling::mean)).size(), 64u);
  try {
    engine->submit(text(65, 1, Pooling::mean));
    FAIL() << "65 tokens in a context of 64";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("65"));
    EXPECT_THAT(error.what(), HasSubstr("64"));
  }
}

TEST(CutAndNormalize, gives_the_norms_that_clients_ask_for) {
  const auto of = [](std::vector<float> x, std::int64_t dimensions, Norm norm) {
    cut_and_normalize(x, dimensions, norm);
    return x;
  };
  EXPECT_THAT(of({3, 4, 12}, 2, {}), ElementsAre(0.6f, 0.8f));
  EXPECT_THAT(of({3, 4, 12}, 0, {}), ElementsAre(3 / 13.0f, 4 / 13.0f, 12 / 13.0f));
  EXPECT_THAT(of({3, -4, 12}, 0, {Norm::Kind::none, 0}), ElementsAre(3, -4, 12));
  EXPECT_THAT(of({2, -4}, 0, {Norm::Kind::max_abs, 0}), ElementsAre(16380, -32760));
  EXPECT_THAT(of({3, -5}, 0, {Norm::Kind::p, 1}), ElementsAre(0.375f, -0.625f));
  EXPECT_THAT(of({1e20f, -2e20f}, 0, {Norm::Kind::p, 30}), ElementsAre(FloatNear(0.5f, 1e-6f), FloatNear(-1.0f, 1e-6f)));
  EXPECT_THAT(of({0, 0}, 0, {}), ElementsAre(0, 0));
  EXPECT_THROW(of({1, 2}, 3, {}), Error);
}

// --- log-probabilities of a prompt ----------------------------------------------------------------------------------------------------

using PromptLogprobsTest = testing::TinyEngine;

TEST_F(PromptLogprobsTest, are_those_of_answers_that_would_have_said_it) {
  const auto engine = make({.step_tokens = 16});
  Request r = request(40, 11, 0);
  r.prompt_logprobs = 3;
  const Event read = wait_for(*engine->submit(r)).last;
  EXPECT_EQ(read.finish, FinishReason::length);
  ASSERT_EQ(read.prompt->logprobs.size(), 39u);
  for (std::size_t i = 1; i < 40; ++i) {
    Request prefix = request(40, 11, 1);
    prefix.prompt.resize(i);
    prefix.logprobs = 256;
    const Event next = wait_for(*engine->submit(prefix)).last;
    const TokenLogprob& told = read.prompt->logprobs[i - 1];
    EXPECT_EQ(told.id, r.prompt[i]);
    for (std::size_t k = 0; k < next.top[0].size(); ++k) {
      if (k < 3) {
        EXPECT_EQ(read.prompt->top[i - 1][k].id, next.top[0][k].id);
        EXPECT_EQ(read.prompt->top[i - 1][k].logprob, next.top[0][k].logprob);
        EXPECT_EQ(read.prompt->top[i - 1][k].rank, k + 1);
      }
      if (next.top[0][k].id != told.id) continue;
      EXPECT_EQ(told.logprob, next.top[0][k].logprob);
      EXPECT_EQ(told.rank, k + 1);
    }
  }
}

TEST_F(PromptLogprobsTest, come_before_an_answer_and_do_not_change_it) {
  const auto plain = make();
  const Answer expected = wait_for(*plain->submit(request(200, 4, 12)));
  Request r = request(200, 4, 12);
  r.prompt_logprobs = 0;
  const auto score = [&](const EngineOptions& options) {
    const auto engine = make(options);
    wait_for(*engine->submit(request(200, 4, 3)));  // the cache knows the prompt
    std::vector<std::unique_ptr<Stream>> others;
    for (unsigned i = 10; i < 14; ++i) others.push_back(engine->submit(request(50, i, 60)));
    const auto stream = engine->submit(r);
    std::vector<float> values;
    const std::optional<Event> first = stream->next();
    for (const TokenLogprob& t : first->prompt->logprobs) values.push_back(t.logprob);
    EXPECT_EQ(values.size(), 199u);
    Answer rest = wait_for(*stream);
    rest.ids.insert(rest.ids.begin(), first->ids.begin(), first->ids.end());
    EXPECT_EQ(rest.ids, expected.ids);
    return values;
  };
  const std::vector<float> whole = score({});
  for (const std::int64_t step : {1, 9}) EXPECT_TRUE(same_bits(score({.step_tokens = step}), whole));
  EXPECT_TRUE(same_bits(score({.max_sequences = 5, .cache_tokens = 336}), whole)) << "though it is sent back to wait";
}

}  // namespace
}  // namespace quern::engine
