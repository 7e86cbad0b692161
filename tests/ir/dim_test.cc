#include "ir/dim.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"

namespace quern::ir {
namespace {

constexpr const char* kSymbols[] = {"T", "batch", "x.y"};

/// An expression as a tree, so that it can be built into a Dim and, by plain arithmetic, into a number.
struct Tree {
  char op;  // 'n' number, 's' symbol, + - *, '/' and '%' (positive divisors), 'm' min, 'M' max
  std::int64_t value = 0;
  std::vector<Tree> operands;
};

std::ostream& operator<<(std::ostream& out, const Tree& t) {
  if (t.op == 'n') return out << t.value;
  if (t.op == 's') return out << kSymbols[t.value];
  return out << "(" << t.operands[0] << " " << t.op << " " << t.operands[1] << ")";
}

rc::Gen<Tree> tree(int depth) {
  auto number = rc::gen::map(rc::gen::inRange<std::int64_t>(-8, 9), [](std::int64_t n) { return Tree{'n', n, {}}; });
  auto symbol = rc::gen::map(rc::gen::inRange<std::int64_t>(0, 3), [](std::int64_t n) { return Tree{'s', n, {}}; });
  if (depth == 0) return rc::gen::oneOf(number, symbol);
  auto operation = rc::gen::apply(
      [](char op, Tree a, Tree b, std::int64_t divisor) {
        if (op == '/' || op == '%') b = Tree{'n', divisor, {}};
        return Tree{op, 0, {std::move(a), std::move(b)}};
      },
      rc::gen::element('+', '-', '*', '/', '%', 'm', 'M'), tree(depth - 1), tree(depth - 1), rc::gen::inRange<std::int64_t>(1, 9));
  return rc::gen::weightedOneOf<Tree>({{1, number}, {2, symbol}, {6, operation}});
}

rc::Gen<SymbolValues> values() {
  return rc::gen::apply(
      [](std::int64_t a, std::int64_t b, std::int64_t c) { return SymbolValues{{kSymbols[0], a}, {kSymbols[1], b}, {kSymbols[2], c}}; },
      rc::gen::inRange<std::int64_t>(0, 20), rc::gen::inRange<std::int64_t>(0, 20), rc::gen::inRange<std::int64_t>(0, 20));
}

Dim apply(char op, const Dim& a, const Dim& b) {
  switch (op) {
    case '+': return a + b;
    case '-': return a - b;
    case '*': return a * b;
    case '/': return floor_div(a, b);
    case '%': return mod(a, b);
    case 'm': return min(a, b);
    default: return max(a, b);
  }
}

std::int64_t apply(char op, std::int64_t a, std::int64_t b) {
  const auto floor = [](std::int64_t x, std::int64_t y) { return static_cast<std::int64_t>(std::floor(double(x) / double(y))); };
  switch (op) {
    case '+': return a + b;
    case '-': return a - b;
    case '*': return a * b;
    case '/': return floor(a, b);
    case '%': return a - b * floor(a, b);
    case 'm': return std::min(a, b);
    default: return std::max(a, b);
  }
}

Dim build(const Tree& t) {
  if (t.op == 'n') return t.value;
  if (t.op == 's') return Dim::symbol(kSymbols[t.value]);
  return apply(t.op, build(t.operands[0]), build(t.operands[1]));
}

std::int64_t compute(const Tree& t, const SymbolValues& values) {
  if (t.op == 'n') return t.value;
  if (t.op == 's') return values.at(kSymbols[t.value]);
  return apply(t.op, compute(t.operands[0], values), compute(t.operands[1], values));
}

/// The same expression, written otherwise: operands swapped, differences as sums of negatives, remainders by their definition.
Dim build_otherwise(const Tree& t) {
  if (t.op == 'n' || t.op == 's') return build(t);
  const Dim a = build_otherwise(t.operands[0]), b = build_otherwise(t.operands[1]);
  switch (t.op) {
    case '-': return Dim(-1) * b + a;
    case '/':
    case '%': return apply(t.op, a, b);
    default: return apply(t.op, b, a);
  }
}

RC_GTEST_PROP(DimProperty, building_and_then_evaluating_is_plain_arithmetic, ()) {
  const Tree t = *tree(4);
  const SymbolValues v = *values();
  RC_ASSERT(build(t).evaluate(v) == compute(t, v));
}

RC_GTEST_PROP(DimProperty, one_expression_built_two_ways_is_equal, ()) {
  const Tree t = *tree(4);
  RC_ASSERT(build(t) == build_otherwise(t));
  RC_ASSERT(build(t).to_string() == build_otherwise(t).to_string());
}

RC_GTEST_PROP(DimProperty, equal_dims_have_equal_values, ()) {
  const Tree s = *tree(1), t = *tree(1);
  const SymbolValues v = *values();
  if (build(s) == build(t)) RC_ASSERT(compute(s, v) == compute(t, v));
}

RC_GTEST_PROP(DimProperty, the_text_reads_back_as_the_same_dim, ()) {
  const Dim d = build(*tree(5));
  RC_ASSERT(Dim::parse(d.to_string()) == d);
  RC_ASSERT(Dim::parse(d.to_string()).to_string() == d.to_string());
}

RC_GTEST_PROP(DimProperty, bounds_hold_for_every_value, ()) {
  const Tree t = *tree(4);
  const SymbolValues v = *values();
  const Dim d = build(t);
  const std::int64_t n = compute(t, v);
  if (const auto low = d.lower_bound()) RC_ASSERT(*low <= n);
  if (const auto high = d.upper_bound()) RC_ASSERT(n <= *high);
}

RC_GTEST_PROP(DimProperty, proven_divisibility_holds_for_every_value, ()) {
  const Tree t = *tree(3);
  const SymbolValues v = *values();
  const std::int64_t n = *rc::gen::inRange<std::int64_t>(1, 9);
  const Dim d = build(t);
  if (d.divisible_by(n)) RC_ASSERT(compute(t, v) % n == 0);
  RC_ASSERT((d * n).divisible_by(n));
}

RC_GTEST_PROP(DimProperty, substituting_and_then_evaluating_is_evaluating_with_the_values_of_the_replacements, ()) {
  const Tree t = *tree(3);
  // Replacements are sizes, so they are never negative.
  const Tree r0 = Tree{'M', 0, {*tree(2), Tree{'n', 0, {}}}}, r1 = Tree{'M', 0, {*tree(2), Tree{'n', 0, {}}}};
  const SymbolValues v = *values();
  const Dim d = build(t).substitute({{kSymbols[0], build(r0)}, {kSymbols[1], build(r1)}});
  RC_ASSERT(d.evaluate(v) == compute(t, {{kSymbols[0], compute(r0, v)}, {kSymbols[1], compute(r1, v)}, {kSymbols[2], v.at(kSymbols[2])}}));
}

RC_GTEST_PROP(DimProperty, dividing_by_a_symbolic_size_of_one_or_more_rounds_down, ()) {
  const Tree t = *tree(2), divisor = Tree{'M', 0, {*tree(2), Tree{'n', 1, {}}}};
  const SymbolValues v = *values();
  const std::int64_t a = compute(t, v), b = compute(divisor, v);
  RC_ASSERT(floor_div(build(t), build(divisor)).evaluate(v) == apply('/', a, b));
  RC_ASSERT(ceil_div(build(t), build(divisor)).evaluate(v) == -apply('/', -a, b));
  RC_ASSERT(mod(build(t), build(divisor)).evaluate(v) == apply('%', a, b));
}

const Dim a = Dim::symbol("a"), b = Dim::symbol("b"), c = Dim::symbol("c");

TEST(Dim, proves_the_identities_that_shape_inference_meets) {
  EXPECT_EQ(floor_div(a * b, b), a);
  EXPECT_EQ(floor_div(4 * a + 8, 4), a + 2);
  EXPECT_EQ(floor_div(4 * a + 11, 4), a + 2);
  EXPECT_EQ(a + b, b + a);
  EXPECT_EQ(max(a, a + 1), a + 1);
  EXPECT_EQ(min(a, a + 1), a);
  EXPECT_EQ(max(a, b), max(b, a));
  EXPECT_EQ(max(a, 0), a);
  EXPECT_EQ(min(a, 0), Dim(0));
  EXPECT_EQ(mod(4 * a + 3, 4), Dim(3));
  EXPECT_EQ(mod(a, 1), Dim(0));
  EXPECT_EQ(mod(5 * a, 4), mod(a, 4));
  EXPECT_EQ((a + b) * (a - b), a * a - b * b);
  EXPECT_EQ((a + b) * c, c * b + c * a);
  EXPECT_EQ(floor_div(6 * a * b * c, 2 * b), 3 * a * c);
  EXPECT_EQ(ceil_div(32 * a, 32), a);
  EXPECT_EQ(floor_div(a, a), Dim(1));
  EXPECT_EQ(mod(a * b, b), Dim(0));
  EXPECT_EQ(floor_div(mod(a, 8), 8), Dim(0));
  EXPECT_EQ(element_count({a, 4, b}), 4 * a * b);
}

TEST(Dim, different_sizes_are_not_equal) {
  EXPECT_FALSE(a == b);
  EXPECT_FALSE(a == a + 1);
  EXPECT_FALSE(floor_div(a, 2) * 2 == a);
  EXPECT_FALSE(floor_div(a, 2) == floor_div(a, 3));
  EXPECT_FALSE(min(a, b) == max(a, b));
}

TEST(Dim, prints_what_a_reader_would_write) {
  EXPECT_EQ((3 * a * b - a + 7).to_string(), "-a + 3*a*b + 7");
  EXPECT_EQ(floor_div(a + 1, 2).to_string(), "div(a + 1, 2)");
  EXPECT_EQ(max(a, b - 1).to_string(), "max(a, b - 1)");
  EXPECT_EQ(to_string(Shape{a, 4}), "[a, 4]");
}

TEST(Dim, parses_any_order_and_parentheses) { EXPECT_EQ(Dim::parse(" ( b+a )*2 -div( a,3 ) "), 2 * a + 2 * b - floor_div(a, 3)); }

std::string error_of(std::string_view text) {
  try {
    Dim::parse(text);
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(Dim, says_where_a_text_is_wrong) {
  EXPECT_EQ(error_of(""), "a size was expected in the size '' (in column 1)");
  EXPECT_EQ(error_of("a +"), "a size was expected in the size 'a +' (in column 4)");
  EXPECT_EQ(error_of("a b"), "unexpected text in the size 'a b' (in column 3)");
  EXPECT_EQ(error_of("f(a, b)"), "unknown function in the size 'f(a, b)' (in column 8)");
  EXPECT_EQ(error_of("div(a)"), "',' was expected in the size 'div(a)' (in column 6)");
  EXPECT_EQ(error_of("99999999999999999999"), "a tensor size overflows 64 bits");
  EXPECT_EQ(error_of("div(a, 0)"), "a tensor size is divided by zero");
}

TEST(Dim, the_ends_of_64_bits_are_exact_or_refused) {
  constexpr std::int64_t low = std::numeric_limits<std::int64_t>::min(), high = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(Dim::parse(Dim(low).to_string()), Dim(low));
  EXPECT_EQ(Dim::parse((a * low).to_string()), a * low);
  EXPECT_EQ(mod(a + low, 3), mod(a + 1, 3));
  EXPECT_EQ(mod(a * low, 3), mod(a, 3));
  EXPECT_EQ(min(Dim(high), Dim(-5)), Dim(-5));
  EXPECT_EQ(max(Dim(high), Dim(low)), Dim(high));
  EXPECT_TRUE(Dim(low).divisible_by(-1));
  EXPECT_THROW(Dim(high) + 1, Error);
  EXPECT_THROW(a * high * 2, Error);
  EXPECT_THROW((a + 1).evaluate({{"a", high}}), Error);
}

TEST(Dim, questions_about_deep_expressions_are_quick) {
  Dim d = a;
  for (int i = 0; i < 60; ++i) d = floor_div(d + 1, 2);
  EXPECT_EQ(d.lower_bound(), 0);
  EXPECT_EQ(d.upper_bound(), std::nullopt);
  EXPECT_EQ(Dim::parse(d.to_string()), d);
}

TEST(Dim, expressions_stay_bounded) {
  Dim deep = a, wide = 1;
  const auto nest = [&] {
    for (int i = 0; i < 10000; ++i) deep = floor_div(deep + 1, 2);
  };
  EXPECT_THROW(nest(), Error);
  const auto widen = [&] {
    for (int i = 0; i < 10000; ++i) wide = wide * (Dim::symbol("s" + std::to_string(i)) + 1);
  };
  EXPECT_THROW(widen(), Error);
  EXPECT_THROW(Dim::parse(std::string(100000, '(')), Error);
  std::string slow = "(s0";
  for (int i = 1; i < 500; ++i) slow += "+s" + std::to_string(i);
  slow += ")";
  while (slow.size() < 60000) slow += "*1";
  EXPECT_THROW(Dim::parse(slow), Error);
}

TEST(Dim, a_symbol_without_a_value_is_named) {
  try {
    (a + b).evaluate({{"a", 1}});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.message(), "the size 'b' has no value");
  }
}

}  // namespace
}  // namespace quern::ir
