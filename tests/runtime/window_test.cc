// Layers that see a window of tokens have a cache of their own, where only what a step sees needs to be.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "runtime/language_model.h"
#include "runtime/memory_need.h"
#include "sequences.h"
#include "support/tiny_llama.h"

namespace quern::runtime {
namespace {

using testing::all_logits;
using testing::Step;

constexpr std::int64_t kWindow = 40, kBlock = 16;

quern::testing::TinyLlama with_window(std::int64_t layers = 7) {
  return {.architecture = "gemma3", .layers = layers, .head_dim = 32, .head_norms = true, .outer_norms = true, .more = [](gguf::Writer& w) {
            w.set("gemma3.attention.sliding_window", std::uint32_t{kWindow});
          }};
}

class WindowTest : public ::testing::Test {
 protected:
  WindowTest() { quern::testing::write_tiny_llama(path_, with_window()); }
  ~WindowTest() override { std::filesystem::remove(path_); }

  static std::vector<std::int32_t> ids(std::size_t n, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<std::int32_t> made(n);
    for (std::int32_t& id : made) id = static_cast<std::int32_t>(random() % 288);
    return made;
  }

  const std::string path_ = ::testing::TempDir() + "window_test." + std::to_string(getpid()) + ".gguf";
  ThreadPool pool_{3};
};

/// As all_logits, with a small cache for layers with a window: blocks that a step does not see hold nothing but NaN, and so does the one
/// that stands for them in the block table.
std::vector<float> logits_of_few_blocks(LanguageRunner& runner, std::span<const std::int32_t> ids, std::size_t chunk) {
  const auto ring = static_cast<std::int32_t>(runner.window_blocks() - 1);
  const auto per_sequence = static_cast<std::int32_t>(runner.max_blocks_per_sequence());
  std::vector<float> logits;
  for (std::size_t first = 0; first < ids.size(); first += chunk) {
    const auto begin = static_cast<std::int32_t>(first);
    const auto part = ids.subspan(first, std::min(chunk, ids.size() - first));
    const auto end = begin + static_cast<std::int32_t>(part.size());
    const std::int32_t low = std::max<std::int32_t>(0, begin - static_cast<std::int32_t>(kWindow) + 1) / kBlock;
    std::vector<std::int32_t> table(static_cast<std::size_t>(per_sequence), 0), slots;
    std::vector<bool> used(static_cast<std::size_t>(ring) + 1, false);
    for (std::int32_t b = low; b * kBlock < end; ++b) table[static_cast<std::size_t>(b)] = 1 + b % ring;
    for (std::int32_t b = low; b * kBlock < begin; ++b) used[static_cast<std::size_t>(1 + b % ring)] = true;
    for (std::int32_t b = 0; b <= ring; ++b)
      if (!used[static_cast<std::size_t>(b)]) std::ranges::fill(runner.window_block(b), std::byte{0xff});
    for (std::int32_t p = begin; p < end; ++p)
      slots.push_back(table[static_cast<std::size_t>(p / kBlock)] * static_cast<std::int32_t>(kBlock) +
                      p % static_cast<std::int32_t>(kBlock));
    Step step(runner);
    step.add(0, part, begin);
    Batch batch = step.batch();
    batch.window_slots = slots;
    batch.window_block_table = table;
    const auto rows = runner.run(batch);
    logits.insert(logits.end(), rows.begin(), rows.end());
  }
  return logits;
}

TEST_F(WindowTest, layers_with_a_window_need_no_block_that_no_token_of_a_step_sees) {
  for (const Precision precision : {Precision::fast, Precision::exact})
    for (const ir::DType dtype : {ir::DType::f32, ir::DType::f16, ir::DType::bf16, ir::DType::q8_0, ir::DType::q4_1}) {
      const auto model = LanguageModel::load(path_, {.precision = precision, .kv_dtype = dtype});
      ASSERT_EQ(model->kv_window(), kWindow);
      const std::vector<std::int32_t> prompt = ids(600, 1);
      LanguageRunner all(model, pool_, 38, 1, 38);
      const std::vector<float> whole = all_logits(all, prompt, 64);
      for (const std::size_t chunk : {1, 3, 7, 16, 50, 64}) {
        LanguageRunner few(model, pool_, 38, 1, 38, 9);
        const std::vector<float> logits = logits_of_few_blocks(few, prompt, chunk);
        ASSERT_EQ(logits.size(), whole.size());
        EXPECT_EQ(std::memcmp(logits.data(), whole.data(), whole.size() * sizeof(float)), 0)
            << ir::name(dtype) << " in chunks of " << chunk;
      }
    }
}

TEST_F(WindowTest, each_kind_of_layer_has_the_bytes_of_its_blocks) {
  const auto model = LanguageModel::load(path_, {.kv_dtype = ir::DType::f16});
  const std::int64_t layer = 2 * 2 * 32 * kBlock * 2;  // keys and values, heads, head size, tokens, f16
  EXPECT_EQ(model->kv_block_bytes(), layer);
  EXPECT_EQ(model->kv_window_block_bytes(), 6 * layer);
  LanguageRunner runner(model, pool_, 32, 1, 32, 10);
  EXPECT_EQ(runner.cache_bytes(), 32 * layer + 10 * 6 * layer);
  EXPECT_EQ(runner.block(31).size(), static_cast<std::size_t>(layer));
  EXPECT_EQ(runner.window_block(9).size(), static_cast<std::size_t>(6 * layer));

  const MemoryNeed need = memory_need(std::make_shared<const gguf::File>(gguf::File::open(path_)), {.kv_dtype = ir::DType::f16}, 64);
  EXPECT_EQ(need.window, kWindow);
  EXPECT_EQ(need.cache_per_token, layer / kBlock);
  EXPECT_EQ(need.cache_of_window, (3 + 2 + 64 / kBlock + 1) * 6 * layer) << "the window, two blocks begun, and a step";
}

TEST_F(WindowTest, a_model_whose_layers_are_all_alike_has_one_cache) {
  quern::testing::write_tiny_llama(path_, with_window(5));  // the sixth would be the first to see all
  const auto model = LanguageModel::load(path_, {.kv_dtype = ir::DType::f16});
  EXPECT_EQ(model->kv_window(), 0);
  EXPECT_EQ(model->kv_window_block_bytes(), 0);
  EXPECT_EQ(model->kv_block_bytes(), 5 * 2 * 2 * 32 * kBlock * 2);
}

TEST(WindowBlocks, are_enough_for_all_that_runs_and_never_more_than_the_others) {
  EXPECT_EQ(window_blocks_for(0, 16, 1000, 8, 512), 0) << "no layer has a window";
  EXPECT_EQ(window_blocks_for(512, 16, 2048, 8, 512), 512) << "a quarter";
  EXPECT_EQ(window_blocks_for(512, 16, 1024, 8, 512), 8 * (32 + 2) + 32 + 1);
  EXPECT_EQ(window_blocks_for(512, 16, 100, 8, 512), 100);
  EXPECT_EQ(window_blocks_for(1 << 30, 16, 100, 1, 1), 100);
}

}  // namespace
}  // namespace quern::runtime
