// Kernels of matmul, gemm and conv against their references.
#include <gtest/gtest.h>

#include "kernel_case.h"
#include "ops/registry.h"

namespace quern::cpu::test {
namespace {

using Sizes = std::vector<std::int64_t>;
constexpr double kEpsilon = 0x1p-23;

/// Tolerance of a sum of `terms` products: (terms + 2) roundings of the sum of magnitudes.
void expect_product(const ir::Op& op, const std::vector<Operand>& operands, const ir::Attributes& attributes, std::int64_t terms,
                    const std::string& what) {
  const KernelCase node(op, operands, attributes), sizes(op, magnitudes(operands), attributes);
  EXPECT_EQ(differs(node, as_floats(sizes.reference()), double(terms + 2) * kEpsilon), "") << what;
}

std::string text(const Sizes& sizes) {
  std::string out = "[";
  for (const std::int64_t s : sizes) out += std::to_string(s) + " ";
  return out + "]";
}

TEST(Matmul, equals_the_reference_for_every_number_of_rows_and_columns) {
  std::mt19937 random(1);
  for (const bool constant : {false, true})
    for (std::int64_t m = 1; m <= 27; ++m)
      for (const std::int64_t n : {1, 15, 16, 17, 33, 48, 130}) {
        const std::int64_t k = m % 3 == 0 ? 300 : m % 7 + 1;
        expect_product(ops::matmul, {floats({m, k}, random), floats({k, n}, random, constant)}, {}, k, text({m, k, n}));
      }
}

TEST(Matmul, takes_many_rows_columns_and_a_deep_sum) {
  std::mt19937 random(2);
  for (const bool constant : {false, true})
    for (const Sizes& s : {Sizes{200, 64, 64}, {385, 20, 130}, {5, 1025, 70}, {64, 513, 32}})
      expect_product(ops::matmul, {floats({s[0], s[1]}, random), floats({s[1], s[2]}, random, constant)}, {}, s[1], text(s));
}

TEST(Matmul, broadcasts_stacks_as_numpy_does) {
  std::mt19937 random(3);
  const std::pair<Sizes, Sizes> shapes[] = {{{7}, {7}},
                                            {{7}, {7, 5}},
                                            {{3, 7}, {7}},
                                            {{2, 3, 7}, {7, 5}},
                                            {{2, 3, 7}, {7}},
                                            {{7}, {2, 7, 5}},
                                            {{4, 3, 7}, {4, 7, 5}},
                                            {{3, 7}, {4, 7, 5}},
                                            {{4, 1, 3, 7}, {2, 7, 5}},
                                            {{2, 3, 4, 6}, {2, 1, 6, 5}},
                                            {{1, 3, 7}, {4, 7, 5}},
                                            {{2, 0, 7}, {2, 7, 5}},
                                            {{2, 3, 7}, {2, 7, 0}},
                                            {{3, 0}, {0, 4}},
                                            {{2, 2, 3, 4, 6}, {3, 6, 20}}};
  for (const auto& [a, b] : shapes)
    for (const bool constant : {false, true})
      expect_product(ops::matmul, {floats(a, random), floats(b, random, constant)}, {}, 8, text(a) + text(b));
}

TEST(Matmul, a_row_has_the_same_bits_whatever_rows_are_beside_it) {
  std::mt19937 random(4);
  const std::int64_t k = 300, n = 70, most = 40;
  for (const bool constant : {false, true}) {
    const Operand b = floats({k, n}, random, constant), a = floats({most, k}, random);
    const auto all = KernelCase(ops::matmul, {a, b}).run();
    for (std::int64_t m = 1; m <= 14; ++m)
      for (std::int64_t first = 0; first + m <= most; first += 9) {
        const Operand part{{m, k}, {a.bytes.begin() + first * k * 4, a.bytes.begin() + (first + m) * k * 4}};
        const auto rows = KernelCase(ops::matmul, {part, b}).run();
        ASSERT_TRUE(std::equal(rows.begin(), rows.end(), all.begin() + first * n * 4)) << m << " rows from " << first;
      }
  }
}

TEST(Matmul, packed_and_unpacked_weights_give_the_same_bits) {
  std::mt19937 random(5);
  Operand a = floats({19, 700}, random), b = floats({700, 45}, random);
  const auto unpacked = KernelCase(ops::matmul, {a, b}).run();
  b.constant = true;
  EXPECT_EQ(KernelCase(ops::matmul, {a, b}).run(), unpacked);
}

TEST(Gemm, equals_the_reference_with_every_attribute) {
  std::mt19937 random(6);
  const std::int64_t m = 21, k = 35, n = 37;
  for (const bool constant : {false, true})
    for (const std::int64_t ta : {0, 1})
      for (const std::int64_t tb : {0, 1})
        for (const Sizes& c : {Sizes{}, {1}, {n}, {m, 1}, {1, n}, {m, n}, {-1}})
          for (const double alpha : {1.0, 0.5}) {
            std::vector<Operand> operands{floats(ta ? Sizes{k, m} : Sizes{m, k}, random),
                                          floats(tb ? Sizes{n, k} : Sizes{k, n}, random, constant)};
            if (c != Sizes{-1}) operands.push_back(floats(c, random));
            expect_product(ops::gemm, operands, {{"alpha", alpha}, {"beta", 2.0}, {"transA", ta}, {"transB", tb}}, k + 2, text(c));
          }
}

struct ConvCase {
  Sizes x, w;
  std::int64_t group = 1;
  Sizes strides = {}, dilations = {}, pads = {};
  std::string auto_pad = "NOTSET";
};

TEST(Conv, equals_the_reference) {
  std::mt19937 random(7);
  const ConvCase cases[] = {
      {{1, 3, 9, 9}, {5, 3, 3, 3}},
      {{2, 3, 9, 11}, {13, 3, 3, 3}, 1, {1, 1}, {1, 1}, {1, 1, 1, 1}},
      {{2, 3, 17, 15}, {13, 3, 7, 7}, 1, {2, 2}, {}, {3, 3, 3, 3}},
      {{1, 40, 14, 14}, {70, 40, 1, 1}},
      {{2, 40, 14, 14}, {30, 40, 1, 1}, 1, {2, 2}},
      {{1, 40, 7, 7}, {200, 40, 3, 3}, 1, {}, {}, {1, 1, 1, 1}},
      {{1, 8, 30, 30}, {4, 8, 3, 3}, 1, {}, {2, 3}, {2, 3, 2, 3}},
      {{1, 8, 12, 10}, {6, 4, 3, 2}, 2, {1, 2}, {}, {1, 0, 2, 1}},
      {{2, 6, 12, 10}, {6, 1, 3, 3}, 6, {}, {}, {1, 1, 1, 1}},
      {{1, 6, 12, 37}, {12, 1, 5, 3}, 6, {2, 2}, {}, {2, 1, 2, 1}},
      {{1, 5, 12, 37}, {5, 1, 3, 3}, 5, {1, 1}, {2, 2}, {4, 0, 1, 6}},
      {{2, 3, 50}, {7, 3, 5}, 1, {2}, {}, {2, 2}},
      {{2, 4, 50}, {4, 1, 5}, 4, {}, {2}, {4, 4}},
      {{1, 3, 10, 11}, {4, 3, 3, 3}, 1, {2, 2}, {}, {}, "SAME_UPPER"},
      {{1, 3, 10, 11}, {4, 3, 4, 4}, 1, {2, 2}, {}, {}, "SAME_LOWER"},
      {{1, 3, 10, 11}, {4, 3, 4, 4}, 1, {}, {}, {}, "VALID"},
      {{1, 1, 3, 3}, {1, 1, 3, 3}, 1, {}, {}, {5, 5, 5, 5}},    // windows that see padding alone
      {{1, 2, 20, 33}, {3, 2, 1, 1}, 1, {}, {}, {1, 0, 0, 2}},  // one element, padded
      {{0, 3, 9, 9}, {5, 3, 3, 3}},
  };
  for (const ConvCase& c : cases)
    for (const bool bias : {false, true}) {
      std::vector<Operand> operands{floats(c.x, random), floats(c.w, random, true)};
      if (bias) operands.push_back(floats({c.w[0]}, random));
      const ir::Attributes attributes{
          {"group", c.group}, {"strides", c.strides}, {"dilations", c.dilations}, {"pads", c.pads}, {"auto_pad", c.auto_pad}};
      std::int64_t terms = 1;
      for (std::size_t i = 1; i < c.w.size(); ++i) terms *= c.w[i];
      expect_product(ops::conv, operands, attributes, terms + 1, text(c.x) + text(c.w));
    }
}

TEST(Conv, an_image_has_the_same_bits_alone_and_in_a_batch) {
  std::mt19937 random(8);
  const Operand x = floats({3, 20, 19, 18}, random), w = floats({25, 20, 3, 3}, random, true);
  const ir::Attributes attributes{{"pads", Sizes{1, 1, 1, 1}}};
  const auto all = KernelCase(ops::conv, {x, w}, attributes).run();
  const auto size = static_cast<std::ptrdiff_t>(x.bytes.size() / 3);
  for (std::ptrdiff_t i = 0; i < 3; ++i) {
    const Operand one{{1, 20, 19, 18}, {x.bytes.begin() + i * size, x.bytes.begin() + (i + 1) * size}};
    const auto y = KernelCase(ops::conv, {one, w}, attributes).run();
    EXPECT_TRUE(std::equal(y.begin(), y.end(), all.begin() + i * static_cast<std::ptrdiff_t>(y.size())));
  }
}

}  // namespace
}  // namespace quern::cpu::test
