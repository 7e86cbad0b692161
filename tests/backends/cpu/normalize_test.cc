// Kernels over rows and windows of f32, against their references.
#include <gtest/gtest.h>

#include <limits>

#include "kernel_case.h"
#include "ops/registry.h"

namespace quern::cpu::test {
namespace {

using Sizes = std::vector<std::int64_t>;
constexpr double kUlp = 0x1p-23;
constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

TEST(Softmax, equals_the_reference_for_every_length) {
  std::mt19937 random(1);
  for (std::int64_t n : {1, 2, 5, 15, 16, 17, 31, 32, 33, 100, 1000}) {
    const KernelCase node(ops::softmax, {floats({3, 2, n}, random, false, -20, 20)});
    // Up to 40 below the largest, the difference to it is rounded by up to 20 ulps of 1, which the exponential makes relative.
    EXPECT_EQ(differs(node, as_floats(node.reference()), double(n / 32 + 12 + 20) * kUlp), "") << n;
  }
}

TEST(Softmax, takes_infinities_and_nan_as_the_reference_does) {
  const Operand x =
      floats_of({5, 3}, {-kInfinity, 0, 1, -kInfinity, -kInfinity, -kInfinity, kInfinity, 0, 1, kNan, 0, 1, 3e38f, -3e38f, 0});
  EXPECT_EQ(differs(KernelCase(ops::softmax, {x}), std::vector<float>(15, 1), 4 * kUlp), "");
}

TEST(LayerNormalization, equals_the_reference) {
  std::mt19937 random(2);
  for (const std::int64_t n : {1, 3, 16, 33, 384, 1000})
    for (const float shift : {0.0f, 1000.0f})
      for (const bool bias : {false, true}) {
        std::vector<Operand> operands{floats({4, n}, random, false, shift - 1, shift + 1), floats({n}, random)};
        if (bias) operands.push_back(floats({n}, random));
        // x - mean is as good as x was stored; all else is a few roundings and the sums of n terms.
        const std::vector<float> sizes(static_cast<std::size_t>(4 * n), n == 1 ? 1.0f : 4.0f);
        EXPECT_EQ(differs(KernelCase(ops::layer_normalization, operands), sizes, (double(n) / 16 + 8 + shift) * kUlp), "")
            << n << " " << shift;
      }
  EXPECT_EQ(differs(KernelCase(ops::layer_normalization, {floats({2, 3, 4, 5}, random), floats({4, 5}, random)}, {{"axis", 2}}),
                    std::vector<float>(120, 2), 16 * kUlp),
            "");
}

TEST(Reduce, sums_neighbouring_axes) {
  std::mt19937 random(3);
  for (const ir::Op* op : {&ops::reduce_sum, &ops::reduce_mean})
    for (const Sizes& axes : {Sizes{}, {0}, {1}, {2}, {-1, -2}, {0, 1}, {0, 1, 2}})
      for (const Sizes& dims : {Sizes{3, 4, 5}, {2, 50, 300}, {1, 7, 1000}, {5, 0, 3}})
        for (const std::int64_t keep : {0, 1}) {
          const std::vector<Operand> operands{floats(dims, random), integers_of({static_cast<std::int64_t>(axes.size())}, axes)};
          const ir::Attributes attributes{{"keepdims", keep}};
          const KernelCase node(*op, operands, attributes), sizes(*op, magnitudes(operands), attributes);
          EXPECT_EQ(differs(node, as_floats(sizes.reference()), 300 * kUlp), "") << op->name;
        }
  EXPECT_FALSE(KernelCase(ops::reduce_sum, {floats({3, 4, 5}, random), integers_of({2}, {0, 2})}).is_fast());
}

struct PoolCase {
  Sizes x, kernel, strides = {}, dilations = {}, pads = {};
  std::string auto_pad = "NOTSET";
  std::int64_t ceil = 0;
};

TEST(Pool, equals_the_reference) {
  std::mt19937 random(4);
  const PoolCase cases[] = {{{2, 3, 9, 11}, {3, 3}},
                            {{1, 2, 112, 112}, {3, 3}, {2, 2}, {}, {1, 1, 1, 1}},
                            {{1, 2, 13, 40}, {2, 3}, {2, 1}, {1, 2}, {1, 0, 1, 2}},
                            {{1, 2, 13, 14}, {3, 2}, {2, 2}, {}, {}, "SAME_UPPER"},
                            {{1, 2, 13, 14}, {3, 2}, {2, 2}, {}, {}, "SAME_LOWER"},
                            {{1, 2, 13, 14}, {3, 2}, {2, 2}, {}, {}, "VALID"},
                            {{1, 2, 8, 9}, {3, 3}, {2, 2}, {}, {1, 1, 1, 1}, "NOTSET", 1},
                            {{2, 3, 40}, {4}, {3}, {}, {1, 2}}};
  for (const PoolCase& c : cases) {
    ir::Attributes attributes{{"kernel_shape", c.kernel}, {"strides", c.strides},   {"dilations", c.dilations},
                              {"pads", c.pads},           {"auto_pad", c.auto_pad}, {"ceil_mode", c.ceil}};
    const Operand x = floats(c.x, random);
    EXPECT_EQ(differs_at_all(KernelCase(ops::max_pool, {x}, attributes)), "");
    for (const std::int64_t counted : {0, 1}) {
      attributes["count_include_pad"] = counted;
      const KernelCase node(ops::average_pool, {x}, attributes), sizes(ops::average_pool, magnitudes({x}), attributes);
      EXPECT_EQ(differs(node, as_floats(sizes.reference()), 12 * kUlp), "");
    }
  }
}

TEST(Pool, nan_wins_a_maximum) {
  const Operand x = floats_of({1, 1, 2, 3}, {1, kNan, 2, 3, 4, -kInfinity});
  EXPECT_EQ(differs(KernelCase(ops::max_pool, {x}, {{"kernel_shape", Sizes{2, 2}}}), {1, 1}, 0), "");
}

TEST(Pool, global_average_takes_all_axes_after_the_second) {
  std::mt19937 random(5);
  for (const Sizes& dims : {Sizes{2, 3, 7, 7}, {2, 3, 50}}) {
    const Operand x = floats(dims, random);
    EXPECT_EQ(differs(KernelCase(ops::global_average_pool, {x}), std::vector<float>(6, 1), 50 * kUlp), "");
  }
}

}  // namespace
}  // namespace quern::cpu::test
