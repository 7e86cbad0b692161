#include "node_by_node.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "ir/op.h"

namespace quern::plan::testing {

std::vector<Bytes> run_node_by_node(const ir::Graph& graph, const ir::SymbolValues& symbols, const std::map<std::string, Bytes>& inputs) {
  std::map<const ir::Value*, Bytes> bytes;
  std::map<const ir::Value*, ir::TensorView> views;
  const auto view = [&](const ir::Value* value) -> ir::TensorView& {
    ir::TensorView& v = views[value];
    v.dtype = value->type.dtype;
    v.rank = static_cast<std::int64_t>(value->type.shape.size());
    for (std::int64_t d = 0; d < v.rank; ++d) v.dims[d] = value->type.shape[static_cast<std::size_t>(d)].evaluate(symbols);
    v.data = bytes[value].data();
    return v;
  };
  for (const ir::Value* value : graph.inputs()) {
    bytes[value] = inputs.at(value->name);
    view(value);
  }
  for (const ir::Value* value : graph.constants()) {
    bytes[value].assign(value->constant->data, value->constant->data + value->constant->bytes);
    view(value);
  }
  for (const auto& node : graph.nodes()) {
    std::vector<const ir::TensorView*> operands;
    for (const ir::Value* value : node->inputs) operands.push_back(value == nullptr ? nullptr : &views.at(value));
    for (std::size_t i = 0; i < node->outputs.size(); ++i) {
      const ir::Value* value = node->outputs[i];
      bytes[value].resize(static_cast<std::size_t>(byte_size(value->type).evaluate(symbols)));
      if (i == 0 && (has(node->op->traits, ir::Trait::view) || has(node->op->traits, ir::Trait::writes_state)))
        bytes[value] = bytes.at(node->inputs[0]);
      operands.push_back(&view(value));
    }
    if (has(node->op->traits, ir::Trait::view)) continue;
    std::atomic<const char*> failure{nullptr};
    node->op->reference(ir::Call{node.get(), operands.data(), operands.data() + node->inputs.size(), &failure});
    EXPECT_EQ(failure.load(), nullptr) << node->op->name;
  }
  std::vector<Bytes> outputs;
  for (const ir::Value* value : graph.outputs()) outputs.push_back(bytes.at(value));
  return outputs;
}

}  // namespace quern::plan::testing
