#include <vector>

#include "ir/op.h"
#include "ops/registry.h"
#include "passes/detail/users.h"
#include "passes/passes.h"

namespace quern::passes {

void fuse_quantization(ir::Graph& graph) {
  const Users users(graph);
  std::vector<ir::Node*> nodes;
  for (const auto& node : graph.nodes())
    if (node->op == &ops::quantize_activations) nodes.push_back(node.get());
  for (ir::Node* node : nodes) {
    const ir::Value* floats = node->inputs[0];
    ir::Node* maker = floats->producer;
    if (maker == nullptr || floats->producer_output != 0 || users.only_user(*floats) != node) continue;
    ir::Attributes attributes = maker->attributes;
    const auto dtype = attributes.find("dtype");
    if ((maker->op != &ops::rms_norm && maker->op != &ops::glu) || dtype == attributes.end()) continue;
    dtype->second = node->dtype("dtype");
    const ir::Node* fused = graph.insert_before(maker, *maker->op, maker->inputs, std::move(attributes), node->outputs[0]->name);
    graph.replace_uses(node->outputs[0], fused->outputs[0]);
    for (std::size_t i = 1; i < maker->outputs.size(); ++i) graph.replace_uses(maker->outputs[i], fused->outputs[i]);
  }
  graph.remove_unused();
}

}  // namespace quern::passes
