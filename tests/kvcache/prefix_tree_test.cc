#include "kvcache/prefix_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "support/allocations.h"

namespace quern::kvcache {
namespace {

using Tokens = std::vector<std::int32_t>;
constexpr std::int64_t kBlock = 4;

/// Puts whole blocks of tokens into the tree, as a sequence that ends at once does. False when there is no room.
bool insert(BlockPool& pool, PrefixTree& tree, const Tokens& tokens, std::uint64_t partition = 0) {
  PrefixTree::Node node = PrefixTree::kRoot;
  std::vector<std::int32_t> held;
  bool room = true;
  for (std::size_t i = 0; i + kBlock <= tokens.size() && room; i += kBlock) {
    auto block = pool.allocate();
    if (!block && tree.evict(1) == 1) block = pool.allocate();
    room = block.has_value();
    if (!room) break;
    node = tree.extend(node, partition, std::span(tokens).subspan(i, kBlock), *block);
    if (node != *block) {
      pool.add_reference(node);
      pool.release(*block);
    }
    held.push_back(node);
  }
  for (const std::int32_t block : held) pool.release(block);
  return room;
}

std::int64_t known(PrefixTree& tree, const Tokens& tokens, std::uint64_t partition = 0) {
  std::vector<std::int32_t> blocks;
  const PrefixTree::Match match = tree.find(tokens, partition, blocks);
  return static_cast<std::int64_t>(blocks.size()) * kBlock + match.partial_tokens;
}

void hold(PrefixTree& tree, const Tokens& tokens, double until) {
  std::vector<std::int32_t> blocks;
  tree.hold(tree.find(tokens, 0, blocks).node, until);
}

TEST(PrefixTree, finds_the_longest_known_beginning_to_the_token) {
  BlockPool pool(100);
  PrefixTree tree(pool, kBlock);
  EXPECT_TRUE(insert(pool, tree, {1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_TRUE(insert(pool, tree, {1, 2, 3, 4, 5, 6, 70, 80}));
  EXPECT_EQ(tree.size(), 3);
  EXPECT_EQ(known(tree, {1, 2, 3, 4, 5, 6, 7, 8, 9}), 8);
  EXPECT_EQ(known(tree, {1, 2, 3, 4, 5, 6, 70, 8}), 7);
  EXPECT_EQ(known(tree, {1, 2, 3, 5}), 3);
  EXPECT_EQ(known(tree, {1, 2}), 2);
  EXPECT_EQ(known(tree, {2, 1}), 0);
  EXPECT_EQ(known(tree, {}), 0);
}

TEST(PrefixTree, what_is_held_goes_last_until_its_time_is_over) {
  BlockPool pool(10);
  PrefixTree tree(pool, kBlock);
  const Tokens kept = {1, 2, 3, 4, 5, 6, 7, 8}, other = {9, 9, 9, 9, 8, 8, 8, 8, 7, 7, 7, 7, 6, 6, 6, 6};
  insert(pool, tree, kept);
  hold(tree, kept, 60);
  insert(pool, tree, other);
  EXPECT_EQ(tree.evict(4), 4);
  EXPECT_EQ(known(tree, kept), 8) << "the oldest, but held";
  EXPECT_EQ(known(tree, other), 0);
  EXPECT_EQ(tree.evict(1), 1) << "there is nothing else";
  EXPECT_EQ(known(tree, kept), 4);

  insert(pool, tree, kept);
  hold(tree, kept, 100);
  insert(pool, tree, other);
  tree.set_time(101);
  tree.evict(2);
  EXPECT_EQ(known(tree, kept), 0);
  EXPECT_EQ(known(tree, other), 16);
}

TEST(PrefixTree, half_of_the_blocks_can_be_held_of_the_rest_the_beginning) {
  BlockPool pool(8);
  PrefixTree tree(pool, kBlock);
  Tokens longest(24), second = {50, 51, 52, 53};
  for (std::size_t i = 0; i < longest.size(); ++i) longest[i] = static_cast<std::int32_t>(i);
  insert(pool, tree, longest);
  hold(tree, longest, 10);
  insert(pool, tree, second);
  hold(tree, second, 10);
  tree.evict(3);
  EXPECT_EQ(known(tree, longest), 16);
  EXPECT_EQ(known(tree, second), 0);
  tree.set_time(11);
  insert(pool, tree, second);
  hold(tree, second, 20);  // the time of the others is over
  tree.evict(4);
  EXPECT_EQ(known(tree, longest), 0);
  EXPECT_EQ(known(tree, second), 4);
}

TEST(PrefixTree, partitions_do_not_see_each_other) {
  BlockPool pool(100);
  PrefixTree tree(pool, kBlock);
  EXPECT_TRUE(insert(pool, tree, {1, 2, 3, 4}, 1));
  EXPECT_EQ(known(tree, {1, 2, 3, 4}, 2), 0);
  EXPECT_EQ(known(tree, {1, 2, 3, 4}, 1), 4);
}

TEST(PrefixTree, gives_back_the_longest_unused_leaves_and_never_what_is_in_use) {
  BlockPool pool(4);
  PrefixTree tree(pool, kBlock);
  insert(pool, tree, {1, 1, 1, 1, 2, 2, 2, 2});
  insert(pool, tree, {3, 3, 3, 3});
  insert(pool, tree, {4, 4, 4, 4});
  std::vector<std::int32_t> used;
  tree.find(Tokens{3, 3, 3, 3}, 0, used);
  pool.add_reference(used[0]);
  EXPECT_EQ(pool.idle_blocks(), 3);
  EXPECT_EQ(tree.evict(1), 1);
  EXPECT_EQ(known(tree, {1, 1, 1, 1, 2, 2, 2, 2}), 4);  // a leaf first
  EXPECT_EQ(tree.evict(100), 2);
  EXPECT_EQ(tree.size(), 1);
  EXPECT_EQ(known(tree, {3, 3, 3, 3}), 4);
  pool.release(used[0]);
  EXPECT_EQ(tree.evict(100), 1);
  EXPECT_EQ(pool.free_blocks(), 4);
  EXPECT_EQ(pool.idle_blocks(), 0);
}

TEST(PrefixTree, agrees_with_a_list_of_all_it_was_told_while_there_is_room) {
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    BlockPool pool(2000);
    PrefixTree tree(pool, kBlock);
    std::vector<Tokens> told;
    for (int i = 0; i < 60; ++i) {
      Tokens tokens(random() % 40);
      for (auto& id : tokens) id = static_cast<std::int32_t>(random() % 2);
      std::int64_t expected = 0;
      for (const Tokens& other : told) {
        const auto alike = std::ranges::mismatch(other, tokens).in1 - other.begin();
        expected =
            std::max<std::int64_t>(expected, std::min<std::int64_t>(alike, static_cast<std::int64_t>(other.size()) / kBlock * kBlock));
      }
      ASSERT_EQ(known(tree, tokens), expected);
      ASSERT_TRUE(insert(pool, tree, tokens));
      told.push_back(tokens);
    }
    ASSERT_EQ(pool.idle_blocks(), tree.size());
    const std::int64_t all = tree.size();
    ASSERT_EQ(tree.evict(100000), all);
    ASSERT_EQ(pool.free_blocks(), pool.blocks());
  }
}

TEST(PrefixTree, a_small_pool_is_never_lost_and_nothing_is_allocated) {
  std::mt19937 random(2);
  BlockPool pool(12);
  PrefixTree tree(pool, kBlock);
  std::vector<Tokens> texts(300);
  for (Tokens& tokens : texts) {
    tokens.resize(random() % 48);
    for (auto& id : tokens) id = static_cast<std::int32_t>(random() % 3);
  }
  std::vector<std::int32_t> blocks;
  blocks.reserve(100);
  for (const Tokens& tokens : texts) {
    insert(pool, tree, tokens);
    ASSERT_EQ(pool.free_blocks() + pool.idle_blocks(), 12);
    ASSERT_EQ(pool.idle_blocks(), tree.size());
    blocks.clear();
    const std::size_t before = quern::testing::allocations();
    tree.find(tokens, 0, blocks);
    ASSERT_EQ(quern::testing::allocations(), before);
  }
}

}  // namespace
}  // namespace quern::kvcache
