#include "ir/graph.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "test_ops.h"

namespace quern::ir {
namespace {

const Dim T = Dim::symbol("T");
const Type vec4{DType::f32, {4}};

template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

std::vector<std::string> names(std::span<Value* const> values) {
  std::vector<std::string> out;
  for (const Value* v : values) out.push_back(v->name);
  return out;
}

TEST(Graph, names_are_made_unique_across_regions) {
  Graph g;
  EXPECT_EQ(g.add_input("x", vec4)->name, "x");
  EXPECT_EQ(g.add_input("x", vec4)->name, "x_1");
  EXPECT_EQ(g.add_input("x_2", vec4)->name, "x_2");
  EXPECT_EQ(g.add_input("x", vec4)->name, "x_3");
  EXPECT_EQ(g.add_input("", vec4)->name, "v4");
  Graph region("body", &g);
  EXPECT_EQ(region.add_input("x", vec4)->name, "x_4");
}

TEST(Graph, renaming_sets_the_old_name_free) {
  Graph g;
  Value* x = g.add_input("x", vec4);
  g.rename(x, "x");
  EXPECT_EQ(x->name, "x");
  g.rename(x, "y");
  EXPECT_EQ(g.add_input("x", vec4)->name, "x");
  EXPECT_EQ(g.add_input("y", vec4)->name, "y_1");
}

TEST(Graph, further_outputs_are_numbered_after_the_node) {
  Graph g;
  Node* n = g.append(test::split, {g.add_input("x", vec4)}, {}, "s");
  EXPECT_EQ(names(n->outputs), (std::vector<std::string>{"s", "s.1"}));
  EXPECT_EQ(n->outputs[1]->producer, n);
  EXPECT_EQ(n->outputs[1]->producer_output, 1);
  EXPECT_EQ(n->integer("axis"), 0) << "defaults are filled in";
}

TEST(Graph, replacing_a_value_reaches_regions_and_outputs) {
  Graph g;
  Value* x = g.add_input("x", vec4);
  Value* y = g.add_input("y", vec4);
  Value* cond = g.add_input("cond", {DType::boolean, {}});
  std::vector<std::unique_ptr<Graph>> regions;
  for (const char* name : {"then", "else"}) {
    regions.push_back(std::make_unique<Graph>(name, &g));
    regions.back()->set_outputs({regions.back()->append(test::add, {x, x})->outputs[0]});
  }
  Node* choose = g.append(test::choose, {cond}, {}, "z", std::move(regions));
  g.set_outputs({x, choose->outputs[0]});
  g.replace_uses(x, y);
  EXPECT_EQ(g.outputs()[0], y);
  for (const auto& region : choose->regions) EXPECT_EQ(region->nodes()[0]->inputs, (std::vector<Value*>{y, y}));
}

TEST(Graph, removing_unused_nodes_keeps_effects_and_what_they_need) {
  Graph g;
  Value* x = g.add_input("x", vec4);
  Value* weight = g.add_constant("w", vec4, std::vector<std::byte>(16));
  g.add_constant("unused", vec4, std::vector<std::byte>(16));
  Node* shown = g.append(test::add, {x, weight}, {}, "shown");
  g.append(test::print, {shown->outputs[0]});
  Node* dead = g.append(test::add, {x, x}, {}, "dead");
  g.append(test::add, {dead->outputs[0], x}, {}, "deader");
  Node* kept = g.append(test::split, {x}, {}, "kept");
  g.set_outputs({kept->outputs[1]});
  EXPECT_EQ(g.remove_unused(), 2);
  ASSERT_EQ(g.nodes().size(), 3u);
  EXPECT_EQ(g.nodes()[0].get(), shown);
  EXPECT_EQ(g.nodes()[2].get(), kept);
  EXPECT_EQ(names(g.constants()), (std::vector<std::string>{"w"}));
  EXPECT_EQ(names(g.inputs()), (std::vector<std::string>{"x"})) << "inputs stay: they are the graph's signature";
  EXPECT_EQ(g.remove_unused(), 0);
  EXPECT_EQ(g.add_input("dead", vec4)->name, "dead");
}

TEST(Graph, removing_unused_nodes_looks_into_regions) {
  Graph g;
  Value* cond = g.add_input("cond", {DType::boolean, {}});
  Value* x = g.add_input("x", vec4);
  Node* only_dead_code_uses_it = g.append(test::add, {x, x});
  std::vector<std::unique_ptr<Graph>> regions;
  for (const char* name : {"then", "else"}) {
    regions.push_back(std::make_unique<Graph>(name, &g));
    regions.back()->append(test::add, {only_dead_code_uses_it->outputs[0], x});
    regions.back()->append(test::print, {x});
    regions.back()->set_outputs({x});
  }
  g.append(test::choose, {cond}, {}, "z", std::move(regions));
  EXPECT_EQ(g.remove_unused(), 3);
  ASSERT_EQ(g.nodes().size(), 1u) << "nobody uses its value, but its regions print";
  EXPECT_EQ(g.nodes()[0]->regions[0]->nodes().size(), 1u);
}

TEST(Graph, elements_of_small_integer_constants_are_known) {
  Graph g;
  const std::int64_t values[] = {1, -2, 3};
  EXPECT_EQ(g.add_integers(values)->contents, (std::vector<Dim>{1, -2, 3}));
  EXPECT_EQ(g.add_integers(std::span(values, 1), true)->contents, (std::vector<Dim>{1}));
  const std::int32_t narrow[] = {-7};
  EXPECT_EQ(g.add_constant("n", {DType::i32, {1}}, std::as_bytes(std::span(narrow)))->contents, (std::vector<Dim>{-7}));
  EXPECT_EQ(g.add_scalar(1.0f)->contents, std::nullopt);
  EXPECT_EQ(g.add_integers(std::vector<std::int64_t>(65))->contents, std::nullopt);
  EXPECT_EQ(g.add_constant("m", {DType::i32, {1, 1}}, std::as_bytes(std::span(narrow)))->contents, std::nullopt);
}

TEST(Graph, known_elements_pass_through_inference) {
  Graph g;
  Value* x = g.add_input("x", {DType::f32, {T, 4}});
  Value* shape = g.append(test::shape_of, {x})->outputs[0];
  EXPECT_EQ(shape->contents, (std::vector<Dim>{T, 4}));
  Value* flat = g.add_input("flat", {DType::f32, {T * 4}});
  EXPECT_EQ(g.append(test::reshape, {flat, shape})->outputs[0]->type, x->type);
}

TEST(Graph, symbols_are_those_of_the_inputs) {
  Graph g;
  g.add_input("x", {DType::f32, {T, floor_div(Dim::symbol("B") + 1, 2)}});
  g.add_input("y", {DType::f32, {T}});
  EXPECT_EQ(input_symbols(g), (std::vector<std::string>{"B", "T"}));
}

TEST(Graph, signature_errors_name_op_node_and_attribute) {
  Graph g;
  Value* x = g.add_input("x", vec4);
  const std::int64_t one = 1;
  EXPECT_EQ(error_of([&] { g.append(test::add, {x}, {}, "sum"); }), "add 'sum' takes 2 inputs, not 1");
  EXPECT_EQ(error_of([&] { g.append(test::maybe, {x, x, x, x}); }), "maybe takes 1 to 3 inputs, not 4");
  EXPECT_EQ(error_of([&] { g.append(test::add, {nullptr, x}); }), "add: input 0 is missing");
  EXPECT_EQ(error_of([&] { g.append(test::split, {x}, {{"axes", one}}, "s"); }), "split 's' has no attribute 'axes'");
  EXPECT_EQ(error_of([&] { g.append(test::split, {x}, {{"axis", 1.0}}, "s"); }), "split 's': attribute 'axis' has the wrong type");
  EXPECT_EQ(error_of([&] { g.append(test::required, {x}); }), "required: attribute 'axis' is missing");
  EXPECT_EQ(error_of([&] { g.append(test::required, {x}, {{"axis", {}}}); }), "required: attribute 'axis' has the wrong type");
  EXPECT_EQ(error_of([&] { g.append(test::required, {x}, {{"axis", std::string("one")}}, "r"); }),
            "required: attribute 'axis' has the wrong type (in node 'r')");
  EXPECT_EQ(error_of([&] { g.append(test::split, {x}, {{"axis", one}}, "s"); }),
            "split: axis 1 is outside a tensor of rank 1 (in node 's')");
  EXPECT_EQ(error_of([&] { g.append(test::split, {x}, {{"outputs", std::int64_t{0}}}, "s"); }),
            "split: has an impossible number of outputs (in node 's')");
  EXPECT_EQ(error_of([&] { g.add_constant("c", vec4, std::vector<std::byte>(15)); }), "constant 'c' of type f32[4] has 15 bytes");
  EXPECT_EQ(error_of([&] { g.add_input("i", {DType::f32, Shape(9)}); }), "tensors of rank 9 are not supported: at most 8");
  EXPECT_EQ(error_of([&] { g.add_input("i", {DType::f32, {-1}}); }), "a dimension is negative: f32[-1]");
}

TEST(Graph, a_refused_node_leaves_nothing_behind) {
  Graph g;
  Value* x = g.add_input("x", vec4);
  Value* y = g.add_input("y", {DType::f32, {5}});
  EXPECT_THROW(g.append(test::add, {x, y}, {}, "sum"), Error);
  EXPECT_TRUE(g.nodes().empty());
  EXPECT_EQ(g.append(test::add, {x, x}, {}, "sum")->outputs[0]->name, "sum");
}

TEST(Graph, trailing_absent_inputs_are_dropped) {
  Graph g;
  Value* x = g.add_input("x", vec4);
  Node* n = g.append(test::maybe, {x, nullptr, nullptr});
  EXPECT_EQ(n->inputs.size(), 1u);
  EXPECT_FALSE(n->has_input(1));
  EXPECT_TRUE(g.append(test::maybe, {x, nullptr, x})->has_input(2));
}

TEST(Graph, a_node_can_be_placed_before_another) {
  Graph g;
  Value* x = g.add_input("x", vec4);
  Node* second = g.append(test::add, {x, x});
  Node* first = g.insert_before(second, test::add, {x, x}, {}, "first");
  EXPECT_EQ(g.nodes()[0].get(), first);
  EXPECT_EQ(g.nodes()[1].get(), second);
}

}  // namespace
}  // namespace quern::ir
