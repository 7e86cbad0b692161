#include "engine/detail/disk_tier.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include "byte_tokens.h"

namespace quern::engine::detail {
namespace {

constexpr std::int64_t kBlocks = 8, kBlockTokens = 4, kBlockBytes = 64;

class DiskTierTest : public ::testing::Test {
 protected:
  DiskTierTest() : memory_(kBlocks * kBlockBytes) { std::filesystem::remove_all(folder_); }
  ~DiskTierTest() override { std::filesystem::remove_all(folder_); }

  std::span<std::byte> bytes(std::int32_t block) {
    return std::span(memory_).subspan(static_cast<std::size_t>(block) * kBlockBytes, kBlockBytes);
  }
  /// A prompt of one whole block and a token more.
  std::unique_ptr<Sequence> sequence(std::int32_t token) {
    Request request{.prompt = std::vector<std::int32_t>(kBlockTokens + 1, token), .max_tokens = 4};
    return std::make_unique<Sequence>(std::move(request), 64, 256, *words_.tokenizer);
  }
  /// The sequence's first block is computed, `value` in every byte, and nobody uses it any more.
  std::int32_t compute(DiskTier& tier, Sequence& sequence, std::int32_t value) {
    const std::int32_t block = *pool_.allocate();
    std::memset(bytes(block).data(), value, kBlockBytes);
    EXPECT_EQ(tree_.extend(kvcache::PrefixTree::kRoot, 0, sequence.tokens().first(kBlockTokens), block), block);
    tier.add(sequence, 0, block);
    pool_.release(block);
    return block;
  }

  const std::string folder_ = ::testing::TempDir() + "disk_tier_test." + std::to_string(::getpid());
  std::vector<std::byte> memory_;
  kvcache::BlockPool pool_{kBlocks};
  kvcache::PrefixTree tree_{pool_, kBlockTokens};
  kvcache::DiskStore store_{{.folder = folder_, .model = "none", .block_bytes = kBlockBytes}};
  testing::ByteTokens words_{{}};
};

TEST_F(DiskTierTest, what_is_read_into_a_block_is_not_written_under_the_name_of_what_the_block_held_before) {
  DiskTier tier(store_, pool_, tree_, kBlockTokens, [this](std::int32_t block) { return bytes(block); });
  const auto on_disk = sequence(1), written_first = sequence(2), gone = sequence(3);
  compute(tier, *on_disk, 11);
  tier.finish(10);
  ASSERT_EQ(tree_.evict(1), 1);

  // A small cache writes one block at a time: the second waits in the queue, and has to go before its turn.
  compute(tier, *written_first, 22);
  const std::int32_t block = compute(tier, *gone, 33);
  tier.write();
  while (pool_.free_blocks() > 0) ASSERT_TRUE(pool_.allocate());
  ASSERT_EQ(tree_.evict(1), 1);

  ASSERT_TRUE(tier.fetch(*on_disk, {}, 0, StepCost()));
  for (int i = 0; i < 10'000 && !tree_.knows(block); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    tier.collect();
  }
  ASSERT_TRUE(tree_.knows(block)) << "the only free block is what it was read into";
  EXPECT_EQ(bytes(block)[0], std::byte{11});
  tier.finish(10);
  const kvcache::BlockKey key = store_.next(store_.first(0), gone->tokens().first(kBlockTokens));
  EXPECT_EQ(store_.leading({&key, 1}), 0u);
}

}  // namespace
}  // namespace quern::engine::detail
