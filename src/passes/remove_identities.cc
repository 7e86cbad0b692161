#include <string_view>
#include <vector>

#include "ir/op.h"
#include "ops/registry.h"
#include "passes/passes.h"

namespace quern::passes {
namespace {

/// The order of axes of a transpose; the axes reversed where the attribute is empty.
std::vector<std::int64_t> order_of(const ir::Node& node) {
  std::vector<std::int64_t> order = node.integers("perm");
  for (std::int64_t axis = static_cast<std::int64_t>(node.inputs[0]->type.shape.size()); node.integers("perm").empty() && axis-- > 0;)
    order.push_back(axis);
  return order;
}

bool is_transpose(const ir::Value& value) { return value.producer != nullptr && value.producer->op == &ops::transpose; }

/// What node's output 0 is by another name, or null. May insert a node before it: two transposes in a row become one.
ir::Value* same_as(ir::Graph& graph, const ir::Node& node) {
  if (node.op == &ops::identity) return node.inputs[0];
  if (node.op == &ops::cast || node.op == &ops::cast_like)
    return node.inputs[0]->type.dtype == node.outputs[0]->type.dtype ? node.inputs[0] : nullptr;
  if (node.op != &ops::transpose) return nullptr;
  ir::Value* source = node.inputs[0];
  std::vector<std::int64_t> order = order_of(node);
  const bool twice = is_transpose(*source);
  if (twice) {
    const std::vector<std::int64_t> before = order_of(*source->producer);
    for (std::int64_t& axis : order) axis = before[static_cast<std::size_t>(axis)];
    source = source->producer->inputs[0];
  }
  bool in_order = true;
  for (std::size_t i = 0; i < order.size(); ++i) in_order = in_order && order[i] == static_cast<std::int64_t>(i);
  if (in_order) return source;
  return twice ? graph.insert_before(&node, ops::transpose, {source}, {{"perm", order}}, node.outputs[0]->name)->outputs[0] : nullptr;
}

}  // namespace

void remove_identities(ir::Graph& graph) {
  std::vector<const ir::Node*> nodes;
  for (const auto& node : graph.nodes()) nodes.push_back(node.get());
  for (const ir::Node* node : nodes)
    if (ir::Value* same = same_as(graph, *node)) graph.replace_uses(node->outputs[0], same);
  graph.remove_unused();
}

}  // namespace quern::passes
