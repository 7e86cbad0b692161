// Symbolic sizes through chains of ops, and the errors of inference.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "ops/registry.h"

namespace quern {
namespace {
using ir::Dim;
using ir::DType;
using ir::Graph;
using ir::Shape;
using ir::Value;
using testing::HasSubstr;
using Ints = std::vector<std::int64_t>;

Shape shape_of(std::initializer_list<const char*> sizes) {
  Shape shape;
  for (const char* text : sizes) shape.push_back(Dim::parse(text));
  return shape;
}

/// A graph under construction, with calls that read like the model's own code.
struct Model {
  Graph graph;

  Value* input(std::initializer_list<const char*> sizes, DType dtype = DType::f32) {
    return graph.add_input("x", {dtype, shape_of(sizes)});
  }
  Value* numbers(Ints values) { return graph.add_integers(values); }
  Value* number(std::int64_t value) { return graph.add_integers(Ints{value}, true); }
  Value* op(const ir::Op& op, std::vector<Value*> inputs, ir::Attributes attributes = {}) {
    return graph.append(op, std::move(inputs), std::move(attributes), "n")->outputs[0];
  }
  /// shape(x)[axis], as a scalar.
  Value* size(Value* x, std::int64_t axis) { return op(ops::gather, {op(ops::shape, {x}), number(axis)}); }
  Value* row(Value* x) { return op(ops::unsqueeze, {x, numbers({0})}); }
};

std::string text(const Value* v) { return ir::to_string(v->type); }
std::string contents(const Value* v) { return v->contents ? ir::to_string(*v->contents) : "unknown"; }

std::string error_of(const auto& f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_NE(e.code(), Code::internal) << e.what();
    return e.what();
  }
  return "no error";
}

TEST(Inference, heads_are_split_and_merged_by_formulas) {
  Model m;
  Value* x = m.input({"B", "T", "384"});
  Value* b = m.row(m.size(x, 0));
  Value* t = m.row(m.size(x, 1));
  Value* heads = m.op(ops::reshape, {x, m.op(ops::concat, {b, t, m.numbers({12, 32})}, {{"axis", 0}})});
  EXPECT_EQ(text(heads), "f32[B, T, 12, 32]");
  Value* q = m.op(ops::transpose,
                  {
                      heads,
                  },
                  {{"perm", Ints{0, 2, 1, 3}}});
  Value* k = m.op(ops::transpose, {heads}, {{"perm", Ints{0, 2, 3, 1}}});
  Value* scores = m.op(ops::matmul, {q, k});
  EXPECT_EQ(text(scores), "f32[B, 12, T, T]");
  Value* mixed = m.op(ops::matmul, {m.op(ops::softmax, {scores}), q});
  Value* back = m.op(ops::transpose, {mixed}, {{"perm", Ints{0, 2, 1, 3}}});
  Value* merged = m.op(ops::reshape, {back, m.op(ops::concat, {b, t, m.numbers({-1})}, {{"axis", 0}})});
  EXPECT_EQ(text(merged), "f32[B, T, 384]");
}

TEST(Inference, a_flattened_batch_keeps_its_formula) {
  Model m;
  Value* x = m.input({"N", "3", "H", "W"});
  Value* flat = m.op(ops::reshape, {x, m.numbers({0, -1})});
  EXPECT_EQ(flat->type.shape, shape_of({"N", "3*H*W"}));
  EXPECT_EQ(m.op(ops::flatten, {x}, {{"axis", 2}})->type.shape, shape_of({"3*N", "H*W"}));
  EXPECT_EQ(m.op(ops::reshape, {flat, m.op(ops::shape, {x})})->type.shape, x->type.shape);
}

TEST(Inference, sizes_survive_arithmetic_casts_slices_and_choices) {
  Model m;
  Value* x = m.input({"B", "T", "8"});
  Value* t = m.size(x, 1);
  EXPECT_EQ(contents(m.op(ops::add, {m.op(ops::mul, {t, m.number(2)}), m.number(1)})), "[2*T + 1]");
  EXPECT_EQ(contents(m.op(ops::div, {m.op(ops::mul, {t, m.number(4)}), m.number(2)})), "[2*T]");
  EXPECT_EQ(contents(m.op(ops::cast, {t}, {{"to", DType::i32}})), "[T]");
  EXPECT_EQ(contents(m.op(ops::cast, {t}, {{"to", DType::f32}})), "unknown");
  EXPECT_EQ(contents(m.op(ops::slice, {m.op(ops::shape, {x}), m.numbers({-2}), m.numbers({1 << 30}), m.numbers({0})})), "[T, 8]");
  EXPECT_EQ(contents(m.op(ops::reduce_prod, {m.op(ops::shape, {x})}, {{"keepdims", 0}})), "[8*B*T]");
  // The idiom of Expand: -1 keeps the size of x.
  Value* wanted = m.op(ops::concat, {m.numbers({-1}), m.row(t), m.numbers({-1})}, {{"axis", 0}});
  Value* ones = m.op(ops::constant_of_shape, {m.numbers({3}), m.graph.add_integers(Ints{1})});
  Value* is_kept = m.op(ops::equal, {wanted, m.numbers({-1})});
  EXPECT_EQ(contents(is_kept), "[1, 0, 1]");
  EXPECT_EQ(contents(m.op(ops::where, {is_kept, ones, wanted})), "[1, T, 1]");
}

TEST(Inference, ranges_and_masks_follow_the_length) {
  Model m;
  Value* x = m.input({"B", "T"}, DType::i64);
  Value* positions = m.op(ops::range, {m.number(0), m.size(x, 1), m.number(1)});
  EXPECT_EQ(text(positions), "i64[T]");
  Value* column = m.op(ops::unsqueeze, {positions, m.numbers({1})});
  EXPECT_EQ(text(m.op(ops::less_or_equal, {positions, column})), "boolean[T, T]");
  EXPECT_EQ(contents(m.op(ops::range, {m.number(3), m.number(9), m.number(2)})), "[3, 5, 7]");
}

TEST(Inference, a_slice_may_start_and_end_at_expressions) {
  Model m;
  Value* x = m.input({"T", "4"});
  Value* t = m.size(x, 0);
  const auto sliced = [&](Value* start, Value* end) { return m.op(ops::slice, {x, start, end, m.numbers({0})})->type.shape[0]; };
  EXPECT_EQ(sliced(m.numbers({0}), m.row(t)), Dim::parse("T"));
  EXPECT_EQ(sliced(m.numbers({0}), m.numbers({5})), Dim::parse("min(T, 5)"));
  // Whether T - 3 is negative, and so counts from the end, is not known: the formula holds for both.
  const Dim size = sliced(m.row(m.op(ops::sub, {t, m.number(3)})), m.numbers({1000000000000}));
  for (const std::int64_t n : {0, 1, 2, 3, 4, 9}) {
    const std::int64_t start = n - 3 < 0 ? std::max<std::int64_t>(0, 2 * n - 3) : n - 3;
    EXPECT_EQ(size.evaluate({{"T", n}}), std::max<std::int64_t>(0, n - start)) << n;
  }
}

TEST(Inference, windows_slide_over_symbols) {
  Model m;
  Value* x = m.input({"N", "3", "H", "W"});
  Value* w = m.graph.add_input("w", {DType::f32, {64, 3, 7, 7}});
  Value* y = m.op(ops::conv, {x, w}, {{"strides", Ints{2, 2}}, {"pads", Ints{3, 3, 3, 3}}});
  EXPECT_EQ(y->type.shape, shape_of({"N", "64", "div(H + 1, 2)", "div(W + 1, 2)"}));
  EXPECT_EQ(m.op(ops::global_average_pool, {y})->type.shape, shape_of({"N", "64", "1", "1"}));
}

TEST(Inference, one_gives_way_to_symbols_and_numbers_win) {
  Model m;
  Value* a = m.input({"1", "S", "4"});
  Value* b = m.input({"B", "1", "4"});
  EXPECT_EQ(text(m.op(ops::add, {a, b})), "f32[B, S, 4]");
  EXPECT_EQ(text(m.op(ops::add, {m.input({"S"}), m.input({"7"})})), "f32[7]");
  EXPECT_EQ(text(m.op(ops::add, {m.input({"S"}), m.input({"T"})})), "f32[S]");  // taken to be equal
}

TEST(Inference, a_mismatch_that_can_be_proved_is_an_error_that_names_it) {
  Model m;
  Value* x = m.input({"N", "4"});
  EXPECT_THAT(error_of([&] { m.op(ops::add, {x, m.input({"3"})}); }), HasSubstr("add: the sizes 4 and 3 do not broadcast"));
  EXPECT_THAT(error_of([&] { m.op(ops::matmul, {x, m.input({"5", "2"})}); }), HasSubstr("matmul: the sizes 4 and 5 must be equal"));
  EXPECT_THAT(error_of([&] { m.op(ops::add, {x, m.input({"N", "4"}, DType::f16)}); }), HasSubstr("input 1 is f16 where input 0 is f32"));
  EXPECT_THAT(error_of([&] { m.op(ops::reshape, {x, m.graph.add_input("s", {DType::i64, {2}})}); }),
              HasSubstr("the values of input 1 must be known"));
  EXPECT_THAT(error_of([&] { m.op(ops::reshape, {m.input({"6"}), m.numbers({4, 2})}); }), HasSubstr("cannot make [4, 2] of [6]"));
  EXPECT_THAT(error_of([&] { m.op(ops::reshape, {x, m.numbers({-1, -1})}); }), HasSubstr("more than one size"));
  EXPECT_THAT(error_of([&] { m.op(ops::gather, {m.input({"2"}), m.number(2)}); }), HasSubstr("index 2 is outside"));
  EXPECT_THAT(error_of([&] { m.op(ops::softmax, {x}, {{"axis", 2}}); }), HasSubstr("axis 2 is outside a tensor of rank 2"));
  EXPECT_THAT(error_of([&] { m.op(ops::erf, {m.input({"2"}, DType::i32)}); }), HasSubstr("input 0 may not be i32"));
  EXPECT_THAT(error_of([&] { m.op(ops::transpose, {x}, {{"perm", Ints{0, 0}}}); }), HasSubstr("named twice"));
}

TEST(Inference, absurd_attributes_are_errors_not_crashes) {
  Model m;
  Value* x = m.input({"1", "2", "5"});
  Value* w = m.input({"3", "2", "3"});
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max(), least = std::numeric_limits<std::int64_t>::min();
  for (const std::int64_t v : {huge, least, std::int64_t(-1)}) {
    for (const char* name : {"strides", "dilations"})
      EXPECT_NE(error_of([&] { m.op(ops::conv, {x, w}, {{name, Ints{v}}}); }), "no error") << name;
    EXPECT_NE(error_of([&] { m.op(ops::conv, {x, w}, {{"pads", Ints{v, v}}}); }), "no error");
    EXPECT_NE(error_of([&] { m.op(ops::conv, {x, w}, {{"group", v}}); }), "no error");
    EXPECT_NE(error_of([&] { m.op(ops::max_pool, {x}, {{"kernel_shape", Ints{v}}}); }), "no error");
    EXPECT_NE(error_of([&] { m.op(ops::concat, {x}, {{"axis", v == -1 ? 3 : v}}); }), "no error");
    EXPECT_NE(error_of([&] { m.op(ops::tile, {x, m.numbers({v, v, v})}); }), "no error");
    EXPECT_NE(error_of([&] { m.op(ops::reshape, {x, m.numbers({v, v})}); }), "no error");
    EXPECT_NE(error_of([&] { m.op(ops::depth_to_space, {m.input({"1", "4", "2", "2"})}, {{"blocksize", v}}); }), "no error");
  }
  EXPECT_NE(error_of([&] { m.op(ops::slice, {x, m.numbers({0}), m.numbers({1}), m.numbers({0}), m.numbers({0})}); }), "no error");
  EXPECT_EQ(text(m.op(ops::slice, {x, m.numbers({huge}), m.numbers({least}), m.numbers({2}), m.numbers({-huge})})), "f32[1, 2, 1]");
}

}  // namespace
}  // namespace quern
