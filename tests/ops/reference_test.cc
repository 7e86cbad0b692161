// Every op against what others answer: types, shapes (with numbers and with symbols) and the values of the reference kernel.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <set>

#include "base/error.h"
#include "cases.h"
#include "ops/detail/element.h"
#include "ops/registry.h"

namespace quern {
namespace {
using ir::Dim;
using ir::DType;
using test::Case;
using test::Input;
using test::Tensor;

std::byte* data_of(const Tensor& t) { return const_cast<std::byte*>(t.bytes.data()); }

ir::TensorView view_of(const Tensor& t) {
  ir::TensorView v;
  v.data = data_of(t);
  v.dtype = t.dtype;
  v.rank = static_cast<std::int64_t>(t.dims.size());
  std::copy(t.dims.begin(), t.dims.end(), v.dims);
  return v;
}

/// How a case's sizes enter the graph: as numbers, or each size n > 1 of a run-time input as the symbol "n<n>".
enum class Sizes { numbers, symbols };

ir::Shape shape_of(const Tensor& t, Sizes sizes, ir::SymbolValues& values) {
  ir::Shape shape;
  for (const std::int64_t d : t.dims) {
    if (sizes == Sizes::numbers || d <= 1) {
      shape.emplace_back(d);
    } else {
      const std::string name = "n" + std::to_string(d);
      shape.push_back(Dim::symbol(name));
      values[name] = d;
    }
  }
  return shape;
}

bool close(double got, double want, const Tensor& expected) {
  if (std::isnan(want)) return std::isnan(got);
  return got == want || std::abs(got - want) <= expected.relative * std::abs(want) + expected.absolute;
}

void compare(const Tensor& expected, const Tensor& got) {
  ASSERT_EQ(ir::name(got.dtype), ir::name(expected.dtype));
  ASSERT_EQ(got.dims, expected.dims);
  if (!ir::is_float(expected.dtype)) {
    EXPECT_EQ(got.bytes, expected.bytes);
    return;
  }
  const ir::TensorView g = view_of(got), w = view_of(expected);
  for (std::int64_t i = 0; i < g.elements(); ++i) {
    const double a = ops::detail::number_at(g, i), b = ops::detail::number_at(w, i);
    ASSERT_TRUE(close(a, b, expected)) << "element " << i << " is " << a << " where " << b << " is right";
  }
}

/// Infers the case's node, runs its reference kernel and compares all outputs.
void check(const Case& c, Sizes sizes) {
  const ir::Op* op = ops::find(c.op);
  ASSERT_NE(op, nullptr);
  ir::Graph graph;
  ir::SymbolValues values;
  std::vector<ir::Value*> inputs;
  for (const Input& input : c.inputs) {
    if (input.kind == Input::absent) {
      inputs.push_back(nullptr);
    } else if (input.kind == Input::runtime) {
      inputs.push_back(graph.add_input("", {input.tensor.dtype, shape_of(input.tensor, sizes, values)}));
    } else {
      inputs.push_back(graph.add_constant("", {input.tensor.dtype, shape_of(input.tensor, Sizes::numbers, values)}, input.tensor.bytes));
    }
  }
  ir::Attributes attributes = c.attributes;
  if (op->outputs == ir::Op::kVariadic) attributes["outputs"] = static_cast<std::int64_t>(c.outputs.size());
  const ir::Node* node = graph.append(*op, inputs, attributes);
  ASSERT_EQ(node->outputs.size(), c.outputs.size());

  std::vector<Tensor> outputs;
  for (const ir::Value* value : node->outputs) {
    Tensor t{.dtype = value->type.dtype, .dims = {}, .bytes = {}};
    std::int64_t bytes = ir::block_bytes(t.dtype);
    for (const Dim& d : value->type.shape) bytes *= t.dims.emplace_back(d.evaluate(values));
    ASSERT_EQ(t.dims, c.outputs[outputs.size()].dims) << "inferred " << ir::to_string(value->type);
    t.bytes.assign(static_cast<std::size_t>(bytes), std::byte{0xcd});
    outputs.push_back(std::move(t));
  }
  std::vector<ir::TensorView> views;
  for (const Input& input : c.inputs) views.push_back(view_of(input.tensor));
  for (const Tensor& t : outputs) views.push_back(view_of(t));
  std::vector<const ir::TensorView*> in, out;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) in.push_back(c.inputs[i].kind == Input::absent ? nullptr : &views[i]);
  for (std::size_t i = 0; i < outputs.size(); ++i) out.push_back(&views[c.inputs.size() + i]);
  op->reference(ir::Call{node, in.data(), out.data()});
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    SCOPED_TRACE("output " + std::to_string(i));
    compare(c.outputs[i], outputs[i]);
    if (const auto& contents = node->outputs[i]->contents) {
      ASSERT_EQ(static_cast<std::int64_t>(contents->size()), views[c.inputs.size() + i].elements());
      for (std::size_t k = 0; k < contents->size(); ++k)
        EXPECT_EQ(contents->at(k).evaluate(values), ops::detail::integer_at(view_of(outputs[i]), static_cast<std::int64_t>(k)))
            << "contents";
    }
  }
}

/// The ops of the list without those of language models and fused, which have tests of their own.
std::vector<std::string> tested_ops() {
  std::ifstream list(QUERN_SOURCE_DIR "/src/ops/ops.inc");
  std::vector<std::string> names;
  bool language = false;
  for (std::string line; std::getline(list, line);) {
    if (line.starts_with("// ") && line.ends_with(".cc"))
      language = line == "// language.cc" || line == "// linear.cc" || line == "// fused.cc";
    if (language || !line.starts_with("QUERN_OP(")) continue;
    std::string name = line.substr(9, line.find(')') - 9);
    if (name.ends_with('_')) name.pop_back();
    names.push_back(std::move(name));
  }
  return names;
}

class ReferenceOf : public testing::TestWithParam<std::string> {};

TEST_P(ReferenceOf, gives_what_onnx_gives) {
  int cases = 0;
  for (const Case& c : test::all_cases()) {
    if (c.op != GetParam()) continue;
    ++cases;
    for (const Sizes sizes : {Sizes::numbers, Sizes::symbols}) {
      if (sizes == Sizes::symbols && c.numbers_only) continue;
      SCOPED_TRACE(c.file + ": " + c.op + ", " + c.label + (sizes == Sizes::symbols ? ", with symbols" : ""));
      try {
        check(c, sizes);
      } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
      }
    }
  }
  EXPECT_GT(cases, 0) << "this op has no case: add some to tests/ops/make_cases.py";
}

INSTANTIATE_TEST_SUITE_P(Ops, ReferenceOf, testing::ValuesIn(tested_ops()), [](const auto& info) { return info.param; });

TEST(Ops, names_are_those_of_the_list) {
  std::set<std::string_view> names;
  for (const ir::Op* op : ops::all()) {
    EXPECT_TRUE(names.insert(op->name).second) << op->name << " is there twice";
    EXPECT_NE(op->infer, nullptr) << op->name;
    EXPECT_NE(op->reference, nullptr) << op->name;
  }
  for (const std::string& name : tested_ops()) EXPECT_NE(ops::find(name), nullptr) << name;
}

}  // namespace
}  // namespace quern
