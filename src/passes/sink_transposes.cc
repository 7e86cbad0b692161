#include <algorithm>
#include <vector>

#include "ir/op.h"
#include "ops/registry.h"
#include "passes/detail/users.h"
#include "passes/passes.h"

namespace quern::passes {
namespace {

using Order = std::vector<std::int64_t>;

bool is_elementwise(const ir::Node& node) { return has(node.op->traits, ir::Trait::elementwise) && node.outputs.size() == 1; }

/// The order of axes that an operand was brought into by a transpose, or null.
const Order* order_of(const ir::Value& value) {
  if (value.producer == nullptr || value.producer->op != &ops::transpose || value.producer->integers("perm").empty()) return nullptr;
  return &value.producer->integers("perm");
}

Order inverse(const Order& order) {
  Order out(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) out[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  return out;
}

bool is_one_element(const ir::Value& value) {
  return std::all_of(value.type.shape.begin(), value.type.shape.end(), [](const ir::Dim& d) { return d == ir::Dim(1); });
}

bool has_known_shape(const ir::Value& value) {
  return std::all_of(value.type.shape.begin(), value.type.shape.end(), [](const ir::Dim& d) { return d.is_constant(); });
}

class Sink {
 public:
  explicit Sink(ir::Graph& graph) : graph_(graph), users_(graph) {}

  void run() {
    std::vector<ir::Node*> nodes;
    for (const auto& node : graph_.nodes()) nodes.push_back(node.get());
    for (ir::Node* node : nodes)
      if (const Order* order = common_order(*node)) sink(*node, Order(*order));
    graph_.remove_unused();
  }

 private:
  /// The one order in which all operands of an element-wise node come from transposes; constants and single elements fit any. Null where
  /// there is none, or where a transpose would stay because something else needs it too.
  const Order* common_order(const ir::Node& node) const {
    if (!is_elementwise(node) || !node.regions.empty()) return nullptr;
    const Order* common = nullptr;
    for (const ir::Value* value : node.inputs) {
      if (value == nullptr || is_one_element(*value) || (value->constant != nullptr && has_known_shape(*value))) continue;
      const Order* order = order_of(*value);
      if (order == nullptr || (common != nullptr && *order != *common) || !goes_away(*value)) return nullptr;
      common = order;
    }
    return common != nullptr && common->size() == node.outputs[0]->type.shape.size() ? common : nullptr;
  }

  /// Whether all that reads a transposed value can do without: other element-wise nodes and transposes.
  bool goes_away(const ir::Value& value) const {
    const auto users = users_.of(value);
    return std::all_of(users.begin(), users.end(),
                       [](const ir::Node* user) { return user != nullptr && (is_elementwise(*user) || user->op == &ops::transpose); });
  }

  void sink(ir::Node& node, const Order& order) {
    std::vector<ir::Value*> inputs;
    for (ir::Value* value : node.inputs) {
      if (value == nullptr || is_one_element(*value))
        inputs.push_back(value);
      else if (order_of(*value) != nullptr)
        inputs.push_back(value->producer->inputs[0]);
      else
        inputs.push_back(in_source_order(node, *value, order));
    }
    const ir::Node* computed = graph_.insert_before(&node, *node.op, inputs, node.attributes, node.outputs[0]->name);
    ir::Value* result =
        graph_.insert_before(&node, ops::transpose, {computed->outputs[0]}, {{"perm", order}}, node.outputs[0]->name)->outputs[0];
    users_.take_over(*node.outputs[0], *result);
    graph_.replace_uses(node.outputs[0], result);
  }

  /// A constant as it must lie beside what is not transposed: all axes written out, then in the order before the transpose.
  ir::Value* in_source_order(const ir::Node& node, ir::Value& value, const Order& order) {
    std::vector<std::int64_t> shape(order.size() - value.type.shape.size(), 1);
    for (const ir::Dim& d : value.type.shape) shape.push_back(*d.constant());
    ir::Value* full =
        graph_.insert_before(&node, ops::reshape, {&value, graph_.add_integers(shape)}, {{"allowzero", 1}}, value.name)->outputs[0];
    return graph_.insert_before(&node, ops::transpose, {full}, {{"perm", inverse(order)}}, value.name)->outputs[0];
  }

  ir::Graph& graph_;
  Users users_;
};

}  // namespace

void sink_transposes(ir::Graph& graph) {
  Sink(graph).run();
  remove_identities(graph);
  fold_constants(graph);
}

}  // namespace quern::passes
