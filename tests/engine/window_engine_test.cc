// The engine with a model some of whose layers see a window of tokens only: every answer has the bits of one that was computed alone, in a
// cache that keeps everything.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "sampling/sampler.h"
#include "tiny_engine.h"

namespace quern::engine {
namespace {

using testing::Answer;
using testing::same_bits;
using testing::wait_for;

constexpr std::int64_t kWindow = 24, kTokens = 512;

class WindowEngineTest : public testing::TinyEngine {
 protected:
  static void SetUpTestSuite() {
    model_ = testing::load({.architecture = "gemma3", .layers = 6, .head_norms = true, .outer_norms = true, .more = [](gguf::Writer& w) {
                              w.set("gemma3.attention.sliding_window", std::uint32_t{kWindow});
                            }});
    words_ = TextModel::from_gguf(model_->file());
  }

  /// The log-probabilities of an answer's tokens, by one step over a whole cache.
  std::vector<float> computed_alone(const Request& request, const std::vector<std::int32_t>& answer) {
    std::vector<std::int32_t> ids = request.prompt, positions, rows;
    ids.insert(ids.end(), answer.begin(), answer.end());
    std::vector<std::int32_t> sequence(ids.size(), 0), table;
    for (std::int32_t i = 0; i < std::ssize(ids); ++i) positions.push_back(i);
    for (std::int32_t b = 0; b < kTokens / 16; ++b) table.push_back(b);
    for (std::size_t i = request.prompt.size() - 1; i + 1 < ids.size(); ++i) rows.push_back(static_cast<std::int32_t>(i));
    runtime::LanguageRunner runner(model_, pool_, kTokens / 16, 1, kTokens / 16);
    const auto logits = runner.run({ids, positions, sequence, positions, table, rows});
    const auto vocabulary = static_cast<std::size_t>(model_->vocabulary());
    sampling::Workspace workspace(vocabulary);
    std::vector<float> logprobs;
    for (std::size_t i = 0; i < rows.size(); ++i)
      logprobs.push_back(sampling::LogProbabilities(logits.subspan(i * vocabulary, words_.tokenizer->size()), workspace).of(answer[i]));
    return logprobs;
  }
  /// Some begin alike, some answers repeat themselves.
  static std::vector<Request> requests() {
    std::vector<Request> list;
    for (unsigned i = 0; i < 12; ++i) {
      Request r = request(40 + 17 * i, i, 30 + 3 * i);
      const Request other = request(200, 100 + i % 3, 1);
      std::copy_n(other.prompt.begin(), std::min<std::size_t>(r.prompt.size() - 1, 20 + 15 * i), r.prompt.begin());
      r.sampling.temperature = i % 3 == 0 ? 0 : 1;
      list.push_back(std::move(r));
    }
    return list;
  }
  Engine::Statistics expect_own_answers(const EngineOptions& options, int times = 1) {
    const auto engine = make(options);
    const std::vector<Request> list = requests();
    for (int k = 0; k < times; ++k) {
      std::vector<std::unique_ptr<Stream>> streams;
      hold(*engine, [&] {
        for (const Request& r : list) streams.push_back(engine->submit(r));
      });
      for (std::size_t i = 0; i < list.size(); ++i) {
        const Answer answer = wait_for(*streams[i]);
        EXPECT_EQ(answer.last.finish, FinishReason::length) << answer.last.error;
        EXPECT_EQ(std::ssize(answer.ids), list[i].max_tokens);
        EXPECT_TRUE(same_bits(answer.logprobs, computed_alone(list[i], answer.ids))) << i;
      }
    }
    const Engine::Statistics done = wait_until_idle(*engine);
    EXPECT_EQ(done.cache_blocks_used, 0);
    EXPECT_EQ(done.window_blocks_used, 0);
    EXPECT_GT(done.window_blocks, 0);
    return done;
  }
};

TEST_F(WindowEngineTest, an_answer_has_the_bits_of_one_computed_alone_in_a_cache_that_keeps_all) {
  for (const std::int64_t step : {5, 64, 512}) {
    const Engine::Statistics done = expect_own_answers({.context_length = kTokens, .cache_tokens = 8192, .step_tokens = step}, 2);
    EXPECT_GT(done.cached_prompt_tokens, 1000);
    EXPECT_LT(done.window_blocks, done.cache_blocks / 2);
    EXPECT_GT(done.guessed_tokens, 0);
  }
  expect_own_answers({.context_length = kTokens, .cache_tokens = 8192, .prefix_cache = false, .prompt_lookup = false});
}

TEST_F(WindowEngineTest, when_either_cache_is_too_small_nothing_changes_but_the_time) {
  const Engine::Statistics done = expect_own_answers({.context_length = kTokens, .max_sequences = 8, .cache_tokens = 512}, 2);
  EXPECT_GT(done.preemptions, 0);
}

TEST_F(WindowEngineTest, what_is_read_back_from_disk_changes_no_bit) {
  const std::string folder = testing::temporary_file("window");
  for (int start = 0; start < 2; ++start) {
    const Engine::Statistics done =
        expect_own_answers({.context_length = kTokens, .max_sequences = 4, .cache_tokens = 1024, .disk_cache = {.folder = folder}});
    EXPECT_EQ(done.disk_errors, 0);
    EXPECT_GE(done.disk_blocks_read, start);
  }
  std::filesystem::remove_all(folder);
}

TEST_F(WindowEngineTest, the_memory_of_the_cache_is_that_of_its_blocks) {
  const EngineOptions options{.context_length = 100'000, .max_sequences = 2, .cache_tokens = 100'000, .step_tokens = 64};
  const auto engine = make(options);
  const Engine::Statistics now = engine->statistics();
  EXPECT_EQ(now.cache_blocks, 6250);
  EXPECT_EQ(now.window_blocks, 6250 / 4);
  EXPECT_EQ(cache_bytes(*model_, options), 6250 * model_->kv_block_bytes() + 6250 / 4 * model_->kv_window_block_bytes());
}

}  // namespace
}  // namespace quern::engine
