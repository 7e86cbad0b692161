// Chains of element-wise nodes as one node: the bits are those of the nodes one by one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/kernels/elementwise/element_loop.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ops/registry.h"
#include "passes/passes.h"
#include "plan/session.h"

namespace quern::runtime {
namespace {

std::unique_ptr<ir::Graph> parsed(const std::string& text, bool fuse) {
  auto graph = ir::parse_graph(text, ops::find);
  if (fuse) passes::fuse_elementwise(*graph, cpu::has_element_loop);
  ir::verify(*graph);
  return graph;
}

int count(const ir::Graph& graph, std::string_view op) {
  int n = 0;
  for (const auto& node : graph.nodes()) n += node->op->name == op;
  return n;
}

/// The bytes of a graph's outputs for random inputs in (-3, 3), the same for every call; [N, M] in symbols order.
std::vector<std::vector<float>> run(const ir::Graph& graph, std::vector<std::int64_t> sizes) {
  cpu::CpuBackend backend;
  plan::Backend* const backends[] = {&backend};
  ThreadPool pool(2);
  plan::Session session(plan::Program::compile(graph, backends), pool);
  ir::SymbolValues symbols;
  const auto names = session.program().symbols();
  for (std::size_t i = 0; i < names.size(); ++i) symbols[names[i]] = sizes[names[i] == "N" ? 0 : 1];
  std::mt19937 random(7);
  std::uniform_real_distribution<float> value(-3, 3);
  std::vector<std::vector<float>> data;
  std::vector<const std::byte*> inputs;
  for (const ir::Value* input : graph.inputs()) {
    data.emplace_back(static_cast<std::size_t>(ir::element_count(input->type.shape).evaluate(symbols)));
    for (float& v : data.back()) v = value(random);
    if (data.back().size() > 3) data.back()[1] = NAN, data.back()[2] = INFINITY;
  }
  for (const auto& values : data) inputs.push_back(reinterpret_cast<const std::byte*>(values.data()));
  std::vector<std::int64_t> ordered;
  for (const std::string& name : names) ordered.push_back(symbols[name]);
  plan::Binding& binding = session.bind(ordered);
  session.run(binding, inputs);
  std::vector<std::vector<float>> outputs;
  for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
    const auto& y = binding.output(i);
    outputs.emplace_back(y.as<float>(), y.as<float>() + y.elements());
  }
  return outputs;
}

void expect_same_bits(const std::string& text, int fused) {
  const auto plain = parsed(text, false), shorter = parsed(text, true);
  EXPECT_EQ(count(*shorter, "fused"), fused) << ir::to_text(*shorter);
  for (const auto& sizes : {std::vector<std::int64_t>{1, 1}, {3, 7}, {5, 600}, {40, 333}, {1, 5000}, {0, 4}}) {
    const auto expected = run(*plain, sizes), got = run(*shorter, sizes);
    ASSERT_EQ(expected.size(), got.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(expected[i].size(), got[i].size());
      EXPECT_EQ(std::memcmp(expected[i].data(), got[i].data(), got[i].size() * sizeof(float)), 0)
          << sizes[0] << " x " << sizes[1] << " output " << i << "\n"
          << ir::to_text(*shorter);
    }
  }
}

TEST(Fused, a_gelu_of_parts_with_a_bias_is_one_node) {
  expect_same_bits(R"(graph main(%x: f32[N, M], %bias: f32[M]) {
    %two = constant: f32[] = 1.4142135
    %one = constant: f32[] = 1.0
    %half = constant: f32[] = 0.5
    %h = add(%x, %bias)
    %d = div(%h, %two)
    %e = erf(%d)
    %s = add(%e, %one)
    %m = mul(%h, %s)
    %y = mul(%m, %half)
    return %y
  })",
                   1);
}

TEST(Fused, what_others_read_ends_a_chain) {
  expect_same_bits(R"(graph main(%x: f32[N, M]) {
    %a = neg(%x)
    %b = exp(%a)
    %c = tanh(%b)
    %d = abs(%c)
    return %d, %b
  })",
                   2);
}

TEST(Fused, broadcast_operands_and_bounds_of_clip_go_along) {
  expect_same_bits(R"(graph main(%x: f32[N, M], %row: f32[M], %column: f32[N, 1]) {
    %low = constant: f32[] = -0.5
    %high = constant: f32[] = 1.5
    %r = sigmoid(%row)
    %a = mul(%x, %column)
    %b = sub(%r, %a)
    %c = clip(%b, %low, %high)
    %d = clip(%c, _, %high)
    %y = max(%d, %x)
    return %y
  })",
                   1);
}

TEST(Fused, random_chains_have_the_bits_of_their_nodes) {
  const std::vector<std::string> unary = {"abs",        "ceil", "erf",   "exp",     "floor", "neg",
                                          "reciprocal", "relu", "round", "sigmoid", "sqrt",  "tanh"};
  const std::vector<std::string> binary = {"add", "sub", "mul", "div", "min", "max"};
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    std::vector<std::string> values = {"x", "row", "column", "number"};
    std::string text =
        "graph main(%x: f32[N, M], %row: f32[M], %column: f32[N, 1]) {\n %number = constant: f32[] = 0.75\n %v0 = add(%x, %x)\n";
    values.push_back("v0");
    const auto pick = [&](const std::vector<std::string>& from) { return from[random() % from.size()]; };
    const int length = 3 + static_cast<int>(random() % 30);
    for (int i = 1; i <= length; ++i) {
      const std::string recent = values[values.size() - 1 - random() % std::min<std::size_t>(3, values.size() - 4)];
      text += " %v" + std::to_string(i) + " = " +
              (random() % 2 == 0 ? pick(unary) + "(%" + recent + ")" : pick(binary) + "(%" + recent + ", %" + pick(values) + ")") + "\n";
      values.push_back("v" + std::to_string(i));
    }
    text += " return %v" + std::to_string(length) + ", %v" +
            std::to_string(1 + static_cast<int>(random() % static_cast<unsigned>(length))) + "\n}";
    const auto plain = parsed(text, false), shorter = parsed(text, true);
    EXPECT_LE(shorter->nodes().size(), plain->nodes().size());
    const auto expected = run(*plain, {9, 130}), got = run(*shorter, {9, 130});
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_EQ(std::memcmp(expected[i].data(), got[i].data(), got[i].size() * sizeof(float)), 0) << ir::to_text(*shorter);
  }
}

TEST(Fused, its_reference_is_that_of_its_nodes) {
  const auto graph = parsed(
      "graph main(%x: f32[4, 5], %b: f32[5]) {\n %t = constant: f32[] = 3.0\n %s = add(%x, %b)\n %m = mul(%s, %t)\n"
      " %y = clip(%m, _, %t)\n return %y\n}",
      true);
  ASSERT_EQ(count(*graph, "fused"), 1);
  const ir::Node& node = *graph->nodes()[0];
  std::vector<float> x(20), b(5), y(20);
  for (std::size_t i = 0; i < 20; ++i) x[i] = static_cast<float>(i);
  for (std::size_t i = 0; i < 5; ++i) b[i] = 0.25f * static_cast<float>(i);
  ir::TensorView views[3];
  std::vector<float>* const data[] = {&x, &b, &y};
  for (int i = 0; i < 3; ++i) {
    views[i].data = reinterpret_cast<std::byte*>(data[i]->data());
    views[i].rank = i == 1 ? 1 : 2;
    views[i].dims[0] = i == 1 ? 5 : 4;
    views[i].dims[1] = 5;
  }
  const ir::TensorView *inputs[] = {&views[0], &views[1]}, *outputs[] = {&views[2]};
  node.op->reference(ir::Call{&node, inputs, outputs});
  for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(y[i], std::min((x[i] + b[i % 5]) * 3.0f, 3.0f));
}

}  // namespace
}  // namespace quern::runtime
