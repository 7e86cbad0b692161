// Element-wise kernels against their references.
#include <gtest/gtest.h>

#include <limits>

#include "kernel_case.h"
#include "ops/registry.h"

namespace quern::cpu::test {
namespace {

using Sizes = std::vector<std::int64_t>;
constexpr double kUlp = 0x1p-23;
constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

struct Function {
  const ir::Op* op;
  double ulps;
  float low, high;
  ir::Attributes attributes = {};
};

std::vector<float> magnitudes_of(const KernelCase& node) {
  std::vector<float> sizes = as_floats(node.reference());
  for (float& s : sizes) s = std::abs(s);
  return sizes;
}

TEST(Unary, equals_the_reference_over_its_range_and_special_values) {
  std::mt19937 random(1);
  const Function functions[] = {{&ops::abs, 0, -9, 9},
                                {&ops::ceil, 0, -9, 9},
                                {&ops::floor, 0, -9, 9},
                                {&ops::round, 0, -9, 9},
                                {&ops::neg, 0, -9, 9},
                                {&ops::relu, 0, -9, 9},
                                {&ops::reciprocal, 0, -9, 9},
                                {&ops::sqrt, 0, -1, 9},
                                {&ops::erf, 6, -6, 6},
                                {&ops::exp, 2, -100, 100},
                                {&ops::tanh, 6, -12, 12},
                                {&ops::sigmoid, 4, -80, 90},
                                {&ops::hard_sigmoid, 2, -9, 9, {{"alpha", 0.2}, {"beta", 0.5}}},
                                {&ops::hard_swish, 4, -9, 9},
                                {&ops::leaky_relu, 1, -9, 9, {{"alpha", 0.3}}}};
  for (const Function& f : functions)
    for (const std::int64_t n : {1, 7, 16, 4096, 5001}) {
      Operand x = floats({n}, random, false, f.low, f.high);
      if (n > 100) {
        std::vector<float> values = as_floats(x.bytes);
        const float special[] = {0.0f, -0.0f, kInfinity, -kInfinity, kNan, 1e-30f, -1e-30f, 3e38f, -3e38f, 0.5f, 1.5f, 2.5f};
        std::copy(std::begin(special), std::end(special), values.begin());
        x = floats_of({n}, values);
      }
      const KernelCase node(*f.op, {x}, f.attributes);
      EXPECT_EQ(differs(node, magnitudes_of(node), f.ulps * kUlp), "") << f.op->name << " of " << n;
    }
}

TEST(Unary, gelu_is_right_to_a_few_roundings_of_its_argument) {
  std::mt19937 random(2);
  const Operand x = floats({3000}, random, false, -7, 7);
  EXPECT_EQ(differs(KernelCase(ops::gelu, {x}), as_floats(magnitudes({x})[0].bytes), 4 * kUlp), "");
}

TEST(Unary, clip_has_either_bound_or_both_and_keeps_nan) {
  std::mt19937 random(3);
  std::vector<float> values = as_floats(floats({70}, random, false, -9, 9).bytes);
  values[3] = kNan;
  const Operand x = floats_of({70}, values), low = floats_of({}, {-1.5f}), high = floats_of({}, {2.0f});
  Operand none = low;
  none.absent = true;
  EXPECT_EQ(differs(KernelCase(ops::clip, {x}), values, 0), "");
  EXPECT_EQ(differs(KernelCase(ops::clip, {x, low}), values, 0), "");
  EXPECT_EQ(differs(KernelCase(ops::clip, {x, none, high}), values, 0), "");
  EXPECT_EQ(differs(KernelCase(ops::clip, {x, low, high}), values, 0), "");
  EXPECT_EQ(differs(KernelCase(ops::clip, {x, high, low}), values, 0), "");
}

const std::pair<Sizes, Sizes> kShapes[] = {
    {{5}, {5}},          {{5000}, {5000}},  {{3, 5000}, {1}},     {{}, {7, 9}},           {{}, {}},
    {{4, 33}, {33}},     {{4, 33}, {4, 1}}, {{2, 3, 20}, {3, 1}}, {{1, 5, 1}, {4, 1, 6}}, {{2, 1, 3, 1, 5}, {1, 4, 1, 6, 1}},
    {{70, 70}, {1, 70}}, {{0, 5}, {5}},     {{64, 1}, {64, 200}}, {{2, 3, 4}, {2, 1, 4}}};

TEST(Binary, broadcasts_as_the_reference_does_with_its_bits) {
  std::mt19937 random(4);
  for (const ir::Op* op : {&ops::add, &ops::sub, &ops::mul, &ops::div, &ops::min, &ops::max})
    for (const auto& [a, b] : kShapes)
      EXPECT_EQ(differs_at_all(KernelCase(*op, {floats(a, random), floats(b, random)})), "") << op->name << " rank " << a.size();
}

TEST(Binary, minimum_and_maximum_let_nan_win) {
  const Operand a = floats_of({4}, {kNan, 1, kNan, -0.0f}), b = floats_of({4}, {1, kNan, kNan, 0.0f});
  for (const ir::Op* op : {&ops::min, &ops::max}) EXPECT_EQ(differs(KernelCase(*op, {a, b}), {1, 1, 1, 1}, 0), "");
}

TEST(Binary, small_whole_powers_are_products) {
  std::mt19937 random(5);
  const Operand x = floats({300}, random, false, -3, 3);
  for (const float power : {2.0f, 3.0f}) {
    const KernelCase node(ops::pow, {x, floats_of({}, {power}, true)});
    EXPECT_EQ(differs(node, magnitudes_of(node), 2 * kUlp), "");
  }
  EXPECT_FALSE(KernelCase(ops::pow, {x, floats_of({}, {2.5f}, true)}).is_fast());
  EXPECT_FALSE(KernelCase(ops::pow, {x, floats_of({}, {2.0f})}).is_fast());
}

Operand integers(ir::DType type, Sizes dims, std::mt19937& random) {
  Operand operand{std::move(dims), {}, false, type};
  for (std::int64_t i = 0; i < operand.elements(); ++i) {
    const std::int64_t value = static_cast<std::int64_t>(random() % 7) - (type == ir::DType::u8 || type == ir::DType::boolean ? 0 : 3);
    const std::int64_t stored = type == ir::DType::boolean ? value & 1 : value;
    const auto* p = reinterpret_cast<const std::byte*>(&stored);
    operand.bytes.insert(operand.bytes.end(), p, p + ir::block_bytes(type));
  }
  return operand;
}

TEST(Relation, equals_the_reference_for_every_type_and_broadcast) {
  std::mt19937 random(6);
  for (const auto& [a, b] : kShapes) {
    for (const ir::Op* op : {&ops::equal, &ops::less, &ops::less_or_equal, &ops::greater, &ops::greater_or_equal}) {
      for (const ir::DType type : {ir::DType::i32, ir::DType::i64})
        EXPECT_EQ(differs_at_all(KernelCase(*op, {integers(type, a, random), integers(type, b, random)})), "") << op->name;
      EXPECT_EQ(differs_at_all(KernelCase(*op, {floats(a, random), floats(b, random)})), "") << op->name;
    }
    for (const ir::Op* op : {&ops::and_, &ops::or_, &ops::xor_, &ops::equal})
      EXPECT_EQ(differs_at_all(KernelCase(*op, {integers(ir::DType::boolean, a, random), integers(ir::DType::boolean, b, random)})), "")
          << op->name;
  }
}

TEST(Where, chooses_with_every_broadcast) {
  std::mt19937 random(7);
  for (const Sizes& c : {Sizes{}, {6}, {5, 1}, {4, 1, 6}, {4, 5, 6}})
    for (const Sizes& a : {Sizes{}, {6}, {4, 5, 6}})
      for (const Sizes& b : {Sizes{}, {5, 6}, {4, 5, 6}}) {
        const Operand condition = integers(ir::DType::boolean, c, random);
        EXPECT_EQ(differs_at_all(KernelCase(ops::where, {condition, floats(a, random), floats(b, random)})), "");
        EXPECT_EQ(
            differs_at_all(KernelCase(ops::where, {condition, integers(ir::DType::i64, a, random), integers(ir::DType::i64, b, random)})),
            "");
      }
}

TEST(IsNan, tells_nan_from_everything_else) {
  EXPECT_EQ(differs_at_all(KernelCase(ops::isnan, {floats_of({5}, {kNan, 0, kInfinity, -kInfinity, -kNan})})), "");
}

TEST(Cast, equals_the_reference_between_all_common_types) {
  std::mt19937 random(8);
  const ir::DType types[] = {ir::DType::f32, ir::DType::i32, ir::DType::i64, ir::DType::boolean, ir::DType::i8, ir::DType::u8};
  std::vector<float> values = as_floats(floats({5000}, random, false, -300, 300).bytes);
  const float special[] = {0.0f, -0.0f, kInfinity, -kInfinity, kNan, 3e9f, -3e9f, 1e19f, -1e19f, 0.5f, -0.5f};
  std::copy(std::begin(special), std::end(special), values.begin());
  for (const ir::DType from : types)
    for (const ir::DType to : types) {
      const Operand x = from == ir::DType::f32 ? floats_of({5000}, values) : integers(from, {5000}, random);
      EXPECT_EQ(differs_at_all(KernelCase(ops::cast, {x}, {{"to", to}})), "") << ir::name(from) << " to " << ir::name(to);
    }
}

}  // namespace
}  // namespace quern::cpu::test
