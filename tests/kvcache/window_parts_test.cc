#include "kvcache/window_parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "kvcache/block_table.h"
#include "kvcache/prefix_tree.h"

namespace quern::kvcache {
namespace {

using Tokens = std::vector<std::int32_t>;
constexpr std::int64_t kBlock = 4, kWindow = 6;

/// A tree of texts, and what layers with a window know of them.
class WindowPartsTest : public ::testing::Test {
 protected:
  /// The nodes of a text's whole blocks, each with its part, which nobody uses.
  std::vector<std::int32_t> insert(const Tokens& tokens) {
    std::vector<std::int32_t> nodes;
    for (std::size_t i = 0; i + kBlock <= tokens.size(); i += kBlock) {
      const std::int32_t own = *full_.allocate();
      nodes.push_back(tree_.extend(nodes.empty() ? PrefixTree::kRoot : nodes.back(), 0, std::span(tokens).subspan(i, kBlock), own));
      full_.release(own);
      if (parts_.of(nodes.back()) >= 0) continue;
      const std::int32_t part = *pool_.allocate();
      parts_.give(nodes.back(), part);
      pool_.release(part);
    }
    return nodes;
  }
  std::int64_t usable(const Tokens& tokens) {
    std::vector<std::int32_t> blocks;
    return static_cast<std::int64_t>(tree_.find(tokens, 0, blocks).usable);
  }
  /// A sequence that used this node's part does so no more.
  void let_go(std::int32_t node, bool passed) { parts_.let_go(parts_.of(node), passed); }

  BlockPool full_{50}, pool_{20};
  WindowParts parts_{50, pool_, kBlock, kWindow};
  PrefixTree tree_{full_, kBlock, &parts_};
};

const Tokens kText = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20};

TEST_F(WindowPartsTest, what_comes_after_n_tokens_sees_the_window_less_itself) {
  for (const auto& [tokens, first] : {std::pair{0, 0}, {5, 0}, {6, 0}, {8, 0}, {9, 1}, {12, 1}, {13, 2}, {16, 2}, {20, 3}})
    EXPECT_EQ(parts_.first_seen(tokens), first) << tokens;
}

TEST_F(WindowPartsTest, those_seen_from_the_end_of_what_is_held_go_last) {
  const auto nodes = insert(kText);
  tree_.hold(nodes.back(), 60);
  insert({31, 32, 33, 34, 35, 36, 37, 38});
  EXPECT_EQ(parts_.evict(5), 5);
  EXPECT_EQ(usable(kText), 5);
  tree_.set_time(61);
  EXPECT_EQ(tree_.evict(7), 7);
  EXPECT_EQ(parts_.evict(1), 0);
}

TEST_F(WindowPartsTest, a_beginning_is_usable_where_all_parts_that_are_seen_from_its_end_are_known) {
  const auto nodes = insert(kText);
  ASSERT_EQ(nodes.size(), 5u);
  EXPECT_EQ(usable(kText), 5);
  parts_.drop(nodes[0]);
  parts_.drop(nodes[1]);
  EXPECT_EQ(usable(kText), 5) << "from its end nobody sees them";
  parts_.drop(nodes[3]);
  EXPECT_EQ(usable(kText), 0) << "12 tokens would see the second block, 8 the first two";
  const std::int32_t part = *pool_.allocate();
  parts_.give(nodes[1], part);
  EXPECT_EQ(usable(kText), 3);
  pool_.release(part);
}

TEST_F(WindowPartsTest, a_block_that_begins_alike_is_copied_only_where_it_has_its_part) {
  const auto nodes = insert(kText);
  std::vector<std::int32_t> blocks;
  const Tokens text = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0};
  EXPECT_EQ(tree_.find(text, 0, blocks).partial, nodes[2]);
  EXPECT_EQ(tree_.find(text, 0, blocks).partial_tokens, 2);
  parts_.drop(nodes[2]);
  EXPECT_EQ(tree_.find(text, 0, blocks).partial, -1);
}

TEST_F(WindowPartsTest, what_was_passed_last_goes_first_and_the_ends_of_texts_last) {
  const auto nodes = insert(kText);
  for (const int i : {0, 1, 2}) let_go(nodes[static_cast<std::size_t>(i)], true);
  for (const int i : {3, 4}) let_go(nodes[static_cast<std::size_t>(i)], false);
  std::vector<int> order;
  while (parts_.evict(1) == 1)
    for (int i = 0; i < 5; ++i)
      if (parts_.of(nodes[static_cast<std::size_t>(i)]) < 0 && std::ranges::find(order, i) == order.end()) order.push_back(i);
  EXPECT_EQ(order, (std::vector<int>{2, 1, 0, 3, 4}));
  EXPECT_EQ(pool_.free_blocks(), 20);
}

TEST_F(WindowPartsTest, where_texts_were_seen_to_part_is_kept_though_it_is_passed) {
  const auto nodes = insert(kText);
  EXPECT_EQ(usable({1, 2, 3, 4, 5, 6, 7, 8, 0, 0}), 2);
  for (const int i : {0, 1, 2, 3, 4}) let_go(nodes[static_cast<std::size_t>(i)], true);
  EXPECT_EQ(parts_.evict(3), 3);
  EXPECT_EQ(usable({1, 2, 3, 4, 5, 6, 7, 8, 0, 0}), 2);
}

TEST_F(WindowPartsTest, what_is_in_use_stays_and_a_node_that_goes_takes_its_part_along) {
  const auto nodes = insert(kText);
  const std::int32_t used = parts_.of(nodes[1]);
  pool_.add_reference(used);
  EXPECT_EQ(parts_.evict(20), 4);
  EXPECT_EQ(parts_.of(nodes[1]), used);
  pool_.release(used);
  EXPECT_EQ(tree_.evict(5), 5);
  EXPECT_EQ(pool_.free_blocks(), 20);
}

TEST(BlockTable, gives_back_what_was_passed_and_shares_the_rest) {
  BlockPool pool(10);
  std::optional<BlockCopy> copy;
  {
    BlockTable table(pool, kBlock, 8);
    ASSERT_TRUE(table.append(18, copy));
    table.give_back_before(3);
    EXPECT_EQ(pool.free_blocks(), 10 - 2);
    EXPECT_EQ(table.gone(), 3);
    EXPECT_EQ(table.blocks()[2], BlockTable::kGone);
    EXPECT_EQ(table.tokens(), 18);
    BlockTable other = table.fork();
    ASSERT_TRUE(other.append(1, copy)) << "the last block is copied";
    ASSERT_TRUE(copy);
    EXPECT_EQ(copy->tokens, 2);
    EXPECT_EQ(pool.free_blocks(), 10 - 3);
    table.give_back_before(3);
    other.truncate(13);
    EXPECT_EQ(pool.free_blocks(), 10 - 2);
    ASSERT_TRUE(other.append(12, copy));
    EXPECT_EQ(std::ssize(other.blocks()), 7);
    other.clear();
    EXPECT_EQ(other.gone(), 0);
    ASSERT_TRUE(other.append(3, copy));
  }
  EXPECT_EQ(pool.free_blocks(), 10);
}

}  // namespace
}  // namespace quern::kvcache
