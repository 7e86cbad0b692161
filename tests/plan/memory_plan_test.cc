#include "plan/memory_plan.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

namespace quern::plan {
namespace {

using ir::Dim;

struct Case {
  std::vector<Lifetime> lifetimes;
  ir::SymbolValues values;
};

/// Sizes as models have them: products of symbols and numbers, sums, shares; and values for the symbols, zero among them.
Case make_case() {
  Case made;
  const int n = *rc::gen::inRange(1, 40);
  for (int i = 0; i < n; ++i) {
    const Dim t = Dim::symbol("T"), s = Dim::symbol("S");
    const Dim k = *rc::gen::inRange<std::int64_t>(0, 300);
    const Dim sizes[] = {k, 4 * t * k, t * s * 4, 4 * t * k + s, ceil_div(t * k, 7), max(t, s) * 64, t * t};
    const int first = *rc::gen::inRange(0, 30);
    made.lifetimes.push_back({sizes[*rc::gen::inRange(0, 7)], first, first + *rc::gen::inRange(0, 6)});
  }
  made.values = {{"T", *rc::gen::inRange<std::int64_t>(0, 2000)}, {"S", *rc::gen::inRange<std::int64_t>(0, 2000)}};
  return made;
}

RC_GTEST_PROP(MemoryPlan, no_two_lifetimes_that_overlap_share_a_buffer, ()) {
  const Case c = make_case();
  MemoryPlan plan;
  const std::vector<int> buffer = assign_buffers(c.lifetimes, plan);
  RC_ASSERT(buffer.size() == c.lifetimes.size());
  for (std::size_t i = 0; i < buffer.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const Lifetime &a = c.lifetimes[i], &b = c.lifetimes[j];
      if (a.first <= b.last && b.first <= a.last) RC_ASSERT(buffer[i] != buffer[j]);
    }
}

RC_GTEST_PROP(MemoryPlan, every_buffer_holds_what_lies_in_it_at_every_size, ()) {
  const Case c = make_case();
  MemoryPlan plan;
  const std::vector<int> buffer = assign_buffers(c.lifetimes, plan);
  std::int64_t sum = 0;
  for (const Dim& bytes : plan.buffers) {
    RC_ASSERT(bytes.evaluate(c.values) % 64 == 0);
    sum += bytes.evaluate(c.values);
  }
  RC_ASSERT(plan.total().evaluate(c.values) == sum);
  for (std::size_t i = 0; i < buffer.size(); ++i)
    RC_ASSERT(plan.buffers[static_cast<std::size_t>(buffer[i])].evaluate(c.values) >= c.lifetimes[i].bytes.evaluate(c.values));
}

TEST(MemoryPlan, a_chain_of_equal_values_needs_two_buffers) {
  std::vector<Lifetime> chain;
  for (int i = 0; i < 20; ++i) chain.push_back({4 * Dim::symbol("T") * 576, i, i + 1});
  MemoryPlan plan;
  assign_buffers(chain, plan);
  EXPECT_EQ(plan.buffers.size(), 2u);
}

TEST(MemoryPlan, a_free_buffer_grows_for_a_value_that_is_certainly_larger) {
  const Dim t = Dim::symbol("T");
  const Lifetime lifetimes[] = {{4 * t * 64, 0, 1}, {4 * t * 192, 2, 3}, {4 * t * 128, 4, 5}};
  MemoryPlan plan;
  EXPECT_EQ(assign_buffers(lifetimes, plan), (std::vector{0, 0, 0}));
  EXPECT_EQ(plan.buffers, std::vector{4 * t * 192});
}

TEST(MemoryPlan, sizes_that_cannot_be_compared_get_buffers_of_their_own) {
  const Lifetime lifetimes[] = {{64 * Dim::symbol("T"), 0, 1}, {64 * Dim::symbol("S"), 2, 3}};
  MemoryPlan plan;
  EXPECT_EQ(assign_buffers(lifetimes, plan), (std::vector{0, 1}));
}

TEST(MemoryPlan, nothing_needs_nothing) {
  MemoryPlan plan;
  EXPECT_TRUE(assign_buffers({}, plan).empty());
  EXPECT_EQ(plan.total(), Dim(0));
}

}  // namespace
}  // namespace quern::plan
