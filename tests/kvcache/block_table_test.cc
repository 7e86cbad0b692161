#include "kvcache/block_table.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "base/error.h"
#include "support/allocations.h"

namespace quern::kvcache {
namespace {

TEST(BlockPool, gives_every_block_once_and_takes_it_back) {
  BlockPool pool(3);
  std::set<std::int32_t> blocks;
  for (int i = 0; i < 3; ++i) blocks.insert(pool.allocate().value());
  EXPECT_EQ(blocks, (std::set<std::int32_t>{0, 1, 2}));
  EXPECT_FALSE(pool.allocate());
  pool.add_reference(1);
  pool.release(1);
  EXPECT_EQ(pool.free_blocks(), 0);
  pool.release(1);
  EXPECT_EQ(pool.free_blocks(), 1);
  EXPECT_EQ(pool.allocate(), 1);
}

TEST(BlockPool, a_block_cannot_be_freed_twice) {
  BlockPool pool(2);
  const std::int32_t block = pool.allocate().value();
  pool.release(block);
  EXPECT_THROW(pool.release(block), Error);
  EXPECT_THROW(pool.add_reference(block), Error);
  EXPECT_THROW(pool.release(7), Error);
  EXPECT_THROW(pool.release(-1), Error);
  EXPECT_THROW(BlockPool(-1), Error);
}

TEST(BlockTable, grows_by_blocks_and_gives_places_in_order) {
  BlockPool pool(4);
  std::optional<BlockCopy> copy;
  {
    BlockTable table(pool, 4, 3);
    EXPECT_EQ(table.blocks_needed(5), 2);
    ASSERT_TRUE(table.append(5, copy));
    EXPECT_FALSE(copy);
    EXPECT_EQ(pool.free_blocks(), 2);
    EXPECT_EQ(table.slot(0), table.blocks()[0] * 4);
    EXPECT_EQ(table.slot(4), table.blocks()[1] * 4);
    EXPECT_TRUE(table.append(3, copy));
    EXPECT_EQ(pool.free_blocks(), 2);
    EXPECT_EQ(table.slot(7), table.blocks()[1] * 4 + 3);
    EXPECT_FALSE(table.append(5, copy)) << "three blocks are the most for one sequence";
    EXPECT_EQ(table.tokens(), 8);
    table.truncate(4);
    EXPECT_EQ(pool.free_blocks(), 3);
  }
  EXPECT_EQ(pool.free_blocks(), 4);
}

TEST(BlockTable, a_fork_shares_blocks_until_it_writes_into_one) {
  BlockPool pool(5);
  std::optional<BlockCopy> copy;
  BlockTable table(pool, 4, 5);
  ASSERT_TRUE(table.append(6, copy));
  BlockTable fork = table.fork();
  EXPECT_EQ(pool.free_blocks(), 3);
  const std::int32_t shared = table.blocks()[1];
  EXPECT_EQ(fork.blocks_needed(1), 1);
  ASSERT_TRUE(fork.append(1, copy));
  ASSERT_TRUE(copy);
  EXPECT_EQ(copy->from, shared);
  EXPECT_EQ(copy->to, fork.blocks()[1]);
  EXPECT_EQ(copy->tokens, 2);
  EXPECT_NE(fork.blocks()[1], shared);
  EXPECT_EQ(fork.blocks()[0], table.blocks()[0]);
  ASSERT_TRUE(table.append(1, copy));
  EXPECT_FALSE(copy) << "the other has left, the block is its own again";
  ASSERT_TRUE(table.append(1, copy));
  BlockTable at_border = table.fork();
  ASSERT_TRUE(at_border.append(1, copy));
  EXPECT_FALSE(copy) << "a full block is never written";
}

/// What sequences do, at random: every reference is somebody's, what one sequence writes no other one reads, and nothing is lost.
TEST(BlockTable, no_block_is_leaked_shared_wrongly_or_freed_twice) {
  EXPECT_TRUE(rc::check([] {
    const std::int64_t block = *rc::gen::inRange<std::int64_t>(1, 6), blocks = *rc::gen::inRange<std::int64_t>(0, 24),
                       most = *rc::gen::inRange<std::int64_t>(1, 12);
    BlockPool pool(blocks);
    std::vector<BlockTable> tables;
    std::vector<std::vector<int>> texts;                                    // what each sequence should read
    std::vector<int> memory(static_cast<std::size_t>(blocks * block), -1);  // the cache, by slot
    int next = 0;
    for (const int action : *rc::gen::container<std::vector<int>>(60, rc::gen::inRange(0, 100))) {
      const std::size_t i = tables.empty() ? 0 : static_cast<std::size_t>(action) % tables.size();
      if (tables.empty() || action < 15) {
        tables.emplace_back(pool, block, most);
        texts.emplace_back();
      } else if (action < 65) {
        const std::int64_t count = action % 9, needed = tables[i].blocks_needed(count), before = pool.free_blocks();
        std::optional<BlockCopy> copy;
        const bool fits = tables[i].tokens() + count <= most * block && needed <= before;
        RC_ASSERT(tables[i].append(count, copy) == fits);
        RC_ASSERT(pool.free_blocks() == before - (fits ? needed : 0));
        if (!fits) continue;
        if (copy) std::copy_n(memory.begin() + copy->from * block, copy->tokens, memory.begin() + copy->to * block);
        for (std::int64_t c = 0; c < count; ++c) {
          memory[static_cast<std::size_t>(tables[i].slot(static_cast<std::int64_t>(texts[i].size())))] = next;
          texts[i].push_back(next++);
        }
      } else if (action < 80) {
        tables.push_back(tables[i].fork());
        texts.push_back(std::vector<int>(texts[i]));
      } else if (action < 90) {
        texts[i].resize(texts[i].size() * static_cast<std::size_t>(action % 10) / 10);
        tables[i].truncate(static_cast<std::int64_t>(texts[i].size()));
      } else {
        std::swap(texts[i], texts.back());
        std::vector<BlockTable> others;
        for (std::size_t k = 0; k + 1 < tables.size(); ++k) others.push_back(std::move(tables[k == i ? tables.size() - 1 : k]));
        tables = std::move(others);
        texts.pop_back();
      }
      std::map<std::int32_t, std::int32_t> used;
      for (std::size_t s = 0; s < tables.size(); ++s) {
        RC_ASSERT(tables[s].tokens() == static_cast<std::int64_t>(texts[s].size()));
        for (std::size_t t = 0; t < texts[s].size(); ++t)
          RC_ASSERT(memory[static_cast<std::size_t>(tables[s].slot(static_cast<std::int64_t>(t)))] == texts[s][t]);
        for (const std::int32_t b : tables[s].blocks()) ++used[b];
      }
      for (const auto& [b, count] : used) RC_ASSERT(pool.references(b) == count);
      RC_ASSERT(pool.free_blocks() == blocks - static_cast<std::int64_t>(used.size()));
    }
    tables.clear();
    RC_ASSERT(pool.free_blocks() == blocks);
  }));
}

TEST(BlockTable, allocates_nothing_after_construction) {
  BlockPool pool(64);
  BlockTable table(pool, 16, 64);
  std::optional<BlockCopy> copy;
  const std::uint64_t before = quern::testing::allocations();
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(table.append(1, copy));
  table.clear();
  EXPECT_EQ(quern::testing::allocations() - before, 0u);
}

}  // namespace
}  // namespace quern::kvcache
