#include <vector>

#include "ops/registry.h"
#include "passes/detail/users.h"
#include "passes/passes.h"

namespace quern::passes {

void fuse_gates(ir::Graph& graph) {
  const Users users(graph);
  std::vector<ir::Node*> nodes;
  for (const auto& node : graph.nodes())
    if (node->op == &ops::glu) nodes.push_back(node.get());
  for (ir::Node* node : nodes) {
    const ir::Value *gate = node->inputs[0], *up = node->inputs[1];
    ir::Node* products = gate->producer;
    if (products == nullptr || products->op != &ops::linear || up->producer != products || products->outputs.size() != 2) continue;
    if (users.only_user(*gate) != node || users.only_user(*up) != node) continue;
    const ir::Node* fused =
        graph.insert_before(node, ops::linear_glu,
                            {products->inputs[0], products->inputs[1 + gate->producer_output], products->inputs[1 + up->producer_output]},
                            node->attributes, products->name);
    graph.replace_uses(node->outputs[0], fused->outputs[0]);
  }
  graph.remove_unused();
}

}  // namespace quern::passes
