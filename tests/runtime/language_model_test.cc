#include "runtime/language_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "runtime/memory_need.h"
#include "sequences.h"
#include "support/allocations.h"
#include "support/tiny_llama.h"

namespace quern::runtime {
namespace {

using quern::testing::TinyLlama;
using testing::all_logits;
using ::testing::HasSubstr;
using testing::Step;

class LanguageModelTest : public ::testing::Test {
 protected:
  void SetUp() override { path_ = ::testing::TempDir() + "language_model_test." + std::to_string(getpid()) + ".gguf"; }
  void TearDown() override { std::filesystem::remove(path_); }

  std::shared_ptr<const LanguageModel> load(const TinyLlama& tiny = {}, Precision precision = Precision::fast) {
    write_tiny_llama(path_, tiny);
    return LanguageModel::load(path_, {.precision = precision});
  }
  static std::vector<std::int32_t> ids(std::size_t n, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<std::int32_t> made(n);
    for (std::int32_t& id : made) id = static_cast<std::int32_t>(random() % 288);
    return made;
  }

  std::string path_;
  ThreadPool one_{1}, pool_{3};
};

const std::vector<TinyLlama>& shapes() {
  static const std::vector<TinyLlama> list = {
      {},
      {.kv_heads = 1, .weights = ir::DType::q4_1, .tied = false},
      {.kv_heads = 4, .weights = ir::DType::f32, .biases = true},
      {.width = 96, .heads = 4, .kv_heads = 1, .head_dim = 80, .weights = ir::DType::q4_0},
      {.width = 80, .heads = 5, .kv_heads = 5, .head_dim = 20, .weights = ir::DType::f16},  // a head size without a fast kernel
      {.architecture = "qwen2", .biases = true},
      {.architecture = "qwen3", .head_dim = 32, .head_norms = true},
      {.architecture = "gemma3",
       .layers = 6,
       .head_norms = true,
       .outer_norms = true,
       .more = [](gguf::Writer& w) { w.set("gemma3.attention.sliding_window", std::uint32_t{20}); }},
  };
  return list;
}

TEST_F(LanguageModelTest, a_prompt_in_chunks_gives_the_same_bits_as_in_one_piece) {
  for (const TinyLlama& tiny : shapes())
    for (const Precision precision : {Precision::fast, Precision::exact}) {
      const auto model = load(tiny, precision);
      const std::vector<std::int32_t> prompt = ids(140, 1);
      LanguageRunner runner(model, pool_, 9, 1, 9);
      const std::vector<float> whole = all_logits(runner, prompt, prompt.size());
      for (const std::size_t chunk : {1, 7, 16, 64, 139}) EXPECT_EQ(all_logits(runner, prompt, chunk), whole) << "chunks of " << chunk;
    }
}

TEST_F(LanguageModelTest, a_table_that_is_the_head_too_is_in_memory_once) {
  const auto weights = [&](bool tied) {
    quern::testing::write_tiny_llama(path_, {.tied = tied});
    const MemoryNeed need = memory_need(std::make_shared<const gguf::File>(gguf::File::open(path_)), {}, 512);
    return std::pair(need.packed_weights + need.mapped_weights, need.mapped_weights);
  };
  const auto [tied, tied_read] = weights(true);
  const auto [untied, untied_read] = weights(false);
  const std::int64_t table = 288 * 64 / 32 * 34;
  EXPECT_EQ(untied, tied + table);
  EXPECT_EQ(untied_read, tied_read + table);
}

TEST_F(LanguageModelTest, a_sequence_among_others_has_the_same_bits_as_alone) {
  for (const TinyLlama& tiny : shapes()) {
    const auto model = load(tiny);
    constexpr std::int32_t kSequences = 8;
    std::vector<std::vector<std::int32_t>> prompts;
    std::vector<std::vector<float>> alone;
    for (std::int32_t s = 0; s < kSequences; ++s) {
      LanguageRunner runner(model, pool_, 12, 1, 12);
      prompts.push_back(ids(static_cast<std::size_t>(60 + 9 * s), static_cast<unsigned>(s)));
      alone.push_back(all_logits(runner, prompts.back(), 1000));
    }
    // Together: every step takes a few tokens of each, more of some than of others.
    LanguageRunner runner(model, pool_, 12 * kSequences, kSequences, 12);
    std::vector<std::size_t> done(kSequences, 0);
    std::vector<std::vector<float>> together(kSequences);
    std::mt19937 random(5);
    for (bool more = true; more;) {
      more = false;
      Step step(runner);
      std::vector<std::pair<std::size_t, std::size_t>> parts;  // sequence, tokens
      for (std::size_t s = 0; s < kSequences; ++s) {
        const std::size_t left = prompts[s].size() - done[s], take = std::min<std::size_t>(left, random() % 12);
        if (take > 0)
          step.add(static_cast<std::int32_t>(s), std::span(prompts[s]).subspan(done[s], take), static_cast<std::int32_t>(done[s]));
        parts.emplace_back(s, take);
        done[s] += take;
        more |= done[s] < prompts[s].size();
      }
      const std::span<const float> logits = runner.run(step.batch());
      const auto vocabulary = static_cast<std::size_t>(model->vocabulary());
      std::size_t row = 0;
      for (const auto& [s, take] : parts) {
        const auto part = logits.subspan(row * vocabulary, take * vocabulary);
        together[s].insert(together[s].end(), part.begin(), part.end());
        row += take;
      }
    }
    for (std::size_t s = 0; s < kSequences; ++s) EXPECT_EQ(together[s], alone[s]) << "sequence " << s;
  }
}

TEST_F(LanguageModelTest, any_number_of_workers_gives_the_same_bits) {
  for (const TinyLlama& tiny : shapes()) {
    const auto model = load(tiny);
    const std::vector<std::int32_t> prompt = ids(100, 2);
    LanguageRunner alone(model, one_, 7, 1, 7), many(model, pool_, 7, 1, 7);
    const std::vector<float> expected = all_logits(alone, prompt, 64);
    EXPECT_EQ(all_logits(many, prompt, 64), expected);
    EXPECT_EQ(all_logits(many, prompt, 64, 2), expected);
    EXPECT_EQ(all_logits(many, prompt, 64, 1), expected);
  }
}

TEST_F(LanguageModelTest, what_lay_in_the_cache_before_does_not_matter) {
  const auto model = load();
  const std::vector<std::int32_t> prompt = ids(70, 3);
  LanguageRunner fresh(model, pool_, 10, 2, 5), used(model, pool_, 10, 2, 5);
  all_logits(used, ids(80, 4), 80, ~0u, 1);
  all_logits(used, ids(80, 5), 80, ~0u, 0);
  EXPECT_EQ(all_logits(used, prompt, 33), all_logits(fresh, prompt, 33));
}

TEST_F(LanguageModelTest, only_the_rows_that_are_wanted_come_back) {
  const auto model = load();
  const std::vector<std::int32_t> prompt = ids(40, 6);
  LanguageRunner runner(model, pool_, 3, 1, 3);
  const std::vector<float> all = all_logits(runner, prompt, 40);
  Step step(runner);
  step.add(0, prompt, 0, 38);
  const auto rows = runner.run(step.batch());
  ASSERT_EQ(rows.size(), static_cast<std::size_t>(2 * model->vocabulary()));
  EXPECT_TRUE(std::equal(rows.begin(), rows.end(), all.end() - 2 * model->vocabulary()));
}

TEST_F(LanguageModelTest, fast_is_close_to_exact) {
  for (const TinyLlama& tiny : shapes()) {
    const std::vector<std::int32_t> prompt = ids(100, 7);
    const auto exact_model = load(tiny, Precision::exact), fast_model = LanguageModel::load(path_);
    LanguageRunner exact(exact_model, pool_, 7, 1, 7), fast(fast_model, pool_, 7, 1, 7);
    const std::vector<float> a = all_logits(exact, prompt, 100), b = all_logits(fast, prompt, 100);
    double error = 0, size = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      ASSERT_TRUE(std::isfinite(a[i]) && std::isfinite(b[i]));
      error += (double(a[i]) - b[i]) * (double(a[i]) - b[i]);
      size += double(a[i]) * a[i];
    }
    // Two roundings to 8 bits a layer and the head, each of some 1/255 of a block's range (about 4 deviations): a few percent in all.
    EXPECT_LT(std::sqrt(error / size), 0.05);
    EXPECT_GT(size, 0);
  }
}

TEST_F(LanguageModelTest, a_step_of_sizes_seen_before_allocates_nothing) {
  if (!quern::testing::counts_allocations()) GTEST_SKIP() << "a sanitizer's allocator is in use";
  for (const Precision precision : {Precision::fast, Precision::exact}) {
    const auto model = load({}, precision);
    LanguageRunner runner(model, pool_, 16, 2, 8);
    const std::vector<std::int32_t> prompt = ids(100, 8);
    std::vector<Step> steps;
    for (std::int32_t position = 0; position < 100; ++position) {
      Step& step = steps.emplace_back(runner);
      step.add(0, std::span(prompt).subspan(static_cast<std::size_t>(position), 1), position);
      step.add(1, std::span(prompt).subspan(static_cast<std::size_t>(position), 1), position);
    }
    runner.run(steps[0].batch());
    const std::size_t before = quern::testing::allocations();
    for (std::size_t i = 1; i < steps.size(); ++i) runner.run(steps[i].batch());
    EXPECT_EQ(quern::testing::allocations(), before);
  }
}

TEST_F(LanguageModelTest, places_outside_the_model_or_the_cache_are_errors_and_the_next_run_works) {
  const auto model = load();
  const std::vector<std::int32_t> prompt = ids(20, 9);
  LanguageRunner runner(model, pool_, 2, 1, 2);
  const std::vector<float> expected = all_logits(runner, prompt, 20);
  const auto what = [&](std::int32_t id, std::int32_t position, std::int32_t sequence, std::int32_t slot, std::int32_t block,
                        std::int32_t row) {
    const std::int32_t table[] = {block, 1};
    try {
      runner.run({.ids = {&id, 1},
                  .positions = {&position, 1},
                  .sequence = {&sequence, 1},
                  .slots = {&slot, 1},
                  .block_table = table,
                  .rows = {&row, 1}});
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::invalid_argument);
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(what(3, 0, 0, 0, 0, 0), "");
  for (const std::int32_t bad : {-1, 288, INT32_MAX, INT32_MIN})
    EXPECT_EQ(what(bad, 0, 0, 0, 0, 0), "embedding: an id is outside the table (in node 'embedding')");
  for (const std::int32_t bad : {-1, 32, INT32_MAX, INT32_MIN})
    EXPECT_THAT(what(3, bad, 0, 0, 0, 0), HasSubstr("a position is outside the block table"));
  for (const std::int32_t bad : {-1, 1, INT32_MAX})
    EXPECT_THAT(what(3, 0, bad, 0, 0, 0), HasSubstr("a sequence is outside the block table"));
  for (const std::int32_t bad : {32, INT32_MAX}) EXPECT_THAT(what(3, 0, 0, bad, 0, 0), HasSubstr("a slot is outside the cache"));
  for (const std::int32_t bad : {-1, 2, INT32_MAX}) EXPECT_THAT(what(3, 0, 0, 0, bad, 0), HasSubstr("a block is outside the cache"));
  for (const std::int32_t bad : {-1, 1, INT32_MAX}) EXPECT_THAT(what(3, 0, 0, 0, 0, bad), HasSubstr("a row is outside the input"));
  EXPECT_EQ(all_logits(runner, prompt, 20), expected);
}

TEST_F(LanguageModelTest, a_batch_of_no_tokens_or_no_rows_gives_no_logits) {
  const auto model = load();
  LanguageRunner runner(model, pool_, 2, 1, 2);
  EXPECT_TRUE(runner.run(Step(runner).batch()).empty());
  Step step(runner);
  step.add(0, ids(5, 1), 0, 1000);
  EXPECT_TRUE(runner.run(step.batch()).empty());
}

TEST_F(LanguageModelTest, says_what_the_cache_needs) {
  const auto model = load({.layers = 3, .kv_heads = 2, .head_dim = 16});
  EXPECT_EQ(model->kv_block_bytes(), 3 * 2 * (2 * 16 * 16 * 2));  // layers, keys and values, heads x head size x tokens x f16
  EXPECT_EQ(load({}, Precision::exact)->kv_block_bytes(), 2 * 2 * (2 * 16 * 16 * 4));
  load({.head_dim = 32});
  for (const auto& [dtype, bytes_of_32] : {std::pair{ir::DType::bf16, 64}, {ir::DType::q8_0, 34}, {ir::DType::q4_1, 20}})
    EXPECT_EQ(LanguageModel::load(path_, {.kv_dtype = dtype})->kv_block_bytes(), 2 * 2 * (2 * 16 * bytes_of_32)) << ir::name(dtype);
}

TEST_F(LanguageModelTest, a_quantised_cache_gives_the_same_bits_in_any_chunks_and_is_near_the_others) {
  load({.head_dim = 32});
  const std::vector<std::int32_t> prompt = ids(40, 3);
  const auto logits = [&](ir::DType dtype, std::size_t chunk) {
    // Exact, so that nothing but the cache is rounded.
    const auto model = LanguageModel::load(path_, {.precision = Precision::exact, .kv_dtype = dtype});
    LanguageRunner runner(model, pool_, 8, 1, 8);
    return all_logits(runner, prompt, chunk);
  };
  const auto expected = logits(ir::DType::f32, 40);
  double size = 0;
  for (const float l : expected) size = std::max(size, std::abs(double(l)));
  // Nothing is asked of four bits: what a random model makes of their rounding is large.
  for (const auto& [dtype, share] :
       {std::pair{ir::DType::f16, 0.002}, {ir::DType::bf16, 0.02}, {ir::DType::q8_0, 0.02}, {ir::DType::q4_1, HUGE_VAL}}) {
    const auto whole = logits(dtype, 40);
    EXPECT_EQ(whole, logits(dtype, 7)) << ir::name(dtype);
    double worst = 0;
    for (std::size_t i = 0; i < whole.size(); ++i) worst = std::max(worst, std::abs(double(whole[i]) - expected[i]));
    EXPECT_LE(worst, share * size) << ir::name(dtype);
  }
}

TEST_F(LanguageModelTest, a_cache_type_that_does_not_divide_a_head_is_refused) {
  load({.head_dim = 16});
  try {
    LanguageModel::load(path_, {.kv_dtype = ir::DType::q8_0});
    FAIL() << "was loaded";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::invalid_argument);
    EXPECT_THAT(e.what(), HasSubstr("multiple of 32 elements; this model's have 16"));
  }
}

TEST_F(LanguageModelTest, runners_share_a_model_on_one_pool_from_threads_of_their_own) {
  const auto model = load();
  const std::vector<std::int32_t> prompt = ids(60, 10);
  LanguageRunner first(model, pool_, 4, 1, 4);
  const std::vector<float> expected = all_logits(first, prompt, 13);
  std::vector<std::thread> threads;
  std::vector<std::vector<float>> results(3);
  for (std::vector<float>& result : results)
    threads.emplace_back([&] {
      LanguageRunner runner(model, pool_, 4, 1, 4);
      result = all_logits(runner, prompt, 13);
    });
  for (std::thread& t : threads) t.join();
  for (const std::vector<float>& result : results) EXPECT_EQ(result, expected);
}

}  // namespace
}  // namespace quern::runtime
