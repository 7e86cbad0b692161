// Kernels that move elements, against their references.
#include <gtest/gtest.h>

#include <numeric>

#include "kernel_case.h"
#include "ops/registry.h"

namespace quern::cpu::test {
namespace {

using Sizes = std::vector<std::int64_t>;

/// Elements of a type, every one different where the type allows.
Operand counted(Sizes dims, ir::DType type = ir::DType::f32) {
  Operand operand{std::move(dims), {}, false, type};
  for (std::int64_t i = 0; i < operand.elements(); ++i) {
    const std::int64_t value = i + 1;
    const auto* p = reinterpret_cast<const std::byte*>(&value);
    operand.bytes.insert(operand.bytes.end(), p, p + ir::block_bytes(type));
  }
  return operand;
}
constexpr ir::DType kTypes[] = {ir::DType::u8, ir::DType::f16, ir::DType::f32, ir::DType::i64};

TEST(Transpose, equals_the_reference_for_every_order_of_axes) {
  for (const ir::DType type : kTypes)
    for (const Sizes& dims : {Sizes{5}, {1, 7}, {67, 70}, {3, 130, 9}, {2, 3, 5, 6}, {2, 1, 9, 4}, {3, 0, 4}}) {
      Sizes perm(dims.size());
      std::iota(perm.begin(), perm.end(), 0);
      do EXPECT_EQ(differs_at_all(KernelCase(ops::transpose, {counted(dims, type)}, {{"perm", perm}})), "");
      while (std::next_permutation(perm.begin(), perm.end()));
      EXPECT_EQ(differs_at_all(KernelCase(ops::transpose, {counted(dims, type)})), "");
    }
}

TEST(Expand, repeats_axes) {
  for (const ir::DType type : kTypes)
    for (const auto& [from, to] :
         {std::pair<Sizes, Sizes>{{}, {3, 5}}, {{4, 1, 6}, {2, 4, 5, 6}}, {{7}, {7}}, {{5, 1}, {5, 4000}}, {{1, 3}, {0, 3}}})
      EXPECT_EQ(differs_at_all(KernelCase(ops::expand, {counted(from, type), integers_of({static_cast<std::int64_t>(to.size())}, to)})),
                "");
}

TEST(Slice, takes_any_start_and_step) {
  struct Case {
    Sizes starts, ends, axes, steps;
  };
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max(), kLeast = std::numeric_limits<std::int64_t>::min() + 1;
  for (const Case& c : {Case{{1}, {4}, {0}, {1}},
                        {{2, 1}, {7, 3}, {2, 0}, {2, 1}},
                        {{-1}, {kLeast}, {1}, {-1}},
                        {{-3, 4}, {kMost, 0}, {-1, 0}, {1, -2}},
                        {{3}, {3}, {0}, {1}},
                        {{0}, {kMost}, {2}, {5}}})
    for (const ir::DType type : kTypes) {
      const auto list = [](const Sizes& values) { return integers_of({static_cast<std::int64_t>(values.size())}, values); };
      EXPECT_EQ(
          differs_at_all(KernelCase(ops::slice, {counted({5, 6, 9}, type), list(c.starts), list(c.ends), list(c.axes), list(c.steps)})),
          "");
    }
}

TEST(Concat, joins_along_every_axis) {
  for (const ir::DType type : kTypes)
    for (const std::int64_t axis : {0, 1, -1}) {
      std::vector<Operand> parts;
      for (const std::int64_t size : {3, 0, 1, 8}) {
        Sizes dims{4, 5, 6};
        dims[static_cast<std::size_t>(axis < 0 ? axis + 3 : axis)] = size;
        parts.push_back(counted(dims, type));
      }
      EXPECT_EQ(differs_at_all(KernelCase(ops::concat, parts, {{"axis", axis}})), "");
    }
}

TEST(Pad, fills_around_and_cuts_off) {
  for (const ir::DType type : kTypes)
    for (const Sizes& pads : {Sizes{0, 0, 0, 0, 0, 0},
                              {1, 2, 3, 4, 5, 6},
                              {0, 2, 0, 0, 1, 0},
                              {3, 0, 0, 2, 0, 0},
                              {-1, 1, -2, 0, -2, 3},
                              {0, 0, 9, 0, 0, -3},
                              {-9, 0, 0, 9, 0, 0}})
      for (const bool value : {false, true}) {
        std::vector<Operand> operands{counted({4, 5, 6}, type), integers_of({6}, pads)};
        if (value) operands.push_back(counted({}, type));
        EXPECT_EQ(differs_at_all(KernelCase(ops::pad, operands)), "");
      }
  EXPECT_EQ(differs_at_all(KernelCase(ops::pad, {counted({7}), integers_of({2}, {2, 3})})), "");
  EXPECT_EQ(differs_at_all(KernelCase(ops::pad, {counted({4, 5, 6}), integers_of({2}, {2, 3}), counted({}), integers_of({1}, {-2})})), "");
}

TEST(Pad, repeats_the_edge) {
  for (const ir::DType type : kTypes)
    for (const Sizes& pads :
         {Sizes{1, 2, 3, 4, 5, 6}, {0, 2, 0, 0, 1, 0}, {3, 0, 0, 2, 0, 0}, {-1, 1, -2, 0, -2, 3}, {0, 0, 5000, 0, 0, 3}})
      EXPECT_EQ(differs_at_all(KernelCase(ops::pad, {counted({4, 5, 6}, type), integers_of({6}, pads)}, {{"mode", "edge"}})), "");
  EXPECT_FALSE(KernelCase(ops::pad, {counted({7}), integers_of({2}, {2, 3})}, {{"mode", "reflect"}}).is_fast());
}

TEST(Gather, takes_slices_and_fails_with_zeros_where_an_index_is_outside) {
  for (const ir::DType type : kTypes)
    for (const std::int64_t axis : {0, 1, 2})
      for (const Sizes& shape : {Sizes{}, {5}, {2, 3}}) {
        Operand indices{shape, {}, false, ir::DType::i64};
        Sizes values;
        for (std::int64_t i = 0; i < indices.elements(); ++i) values.push_back(i * 3 - 7);
        EXPECT_EQ(differs_at_all(KernelCase(ops::gather, {counted({4, 5, 6}, type), integers_of(shape, values, false)}, {{"axis", axis}})),
                  "");
      }
  for (const auto& [index, wanted] :
       {std::pair{-4, ""}, {3, ""}, {-5, "an index is outside its axis"}, {4, "an index is outside its axis"}}) {
    const KernelCase node(ops::gather, {counted({4, 5}), integers_of({2}, {0, index}, false)});
    EXPECT_EQ(node.failure(), wanted) << index;
    EXPECT_EQ(node.reference_failure(), wanted) << index;
  }
}

TEST(Indices, outside_their_axis_fail_in_every_op_that_takes_them) {
  const std::vector<std::pair<const ir::Op*, Sizes>> ops = {
      {&ops::gather_elements, {1, 2}}, {&ops::gather_nd, {1, 2}}, {&ops::scatter_elements, {1, 2}}, {&ops::scatter_nd, {1, 2}}};
  for (const auto& [op, shape] : ops)
    for (const auto& [index, wanted] :
         {std::pair{3, ""}, {-4, ""}, {4, "an index is outside its axis"}, {-5, "an index is outside its axis"}}) {
      std::vector<Operand> operands = {counted({4, 5}), integers_of(shape, {0, index}, false)};
      if (op == &ops::scatter_elements) operands.push_back(counted({1, 2}));
      if (op == &ops::scatter_nd) operands.push_back(counted({1}));
      ir::Attributes attributes;
      if (op == &ops::gather_elements || op == &ops::scatter_elements) attributes["axis"] = std::int64_t{0};
      // As coordinates the second is one of the five columns.
      const bool nd = op == &ops::gather_nd || op == &ops::scatter_nd;
      const std::int64_t shift = !nd ? 0 : index > 0 ? 1 : -1;
      if (nd) operands[1] = integers_of(shape, {0, index + shift}, false);
      EXPECT_EQ(KernelCase(*op, operands, attributes).reference_failure(), wanted) << op->name << " " << index;
    }
}

}  // namespace
}  // namespace quern::cpu::test
