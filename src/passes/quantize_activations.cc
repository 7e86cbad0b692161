#include <vector>

#include "ops/registry.h"
#include "passes/passes.h"

namespace quern::passes {

void quantize_activations(ir::Graph& graph) {
  std::vector<ir::Node*> products;
  for (const auto& node : graph.nodes()) {
    if (node->op != &ops::linear) continue;
    const ir::Type &x = node->inputs[0]->type, &w = node->inputs[1]->type;
    if (x.dtype == ir::DType::f32 && ir::is_block(w.dtype) && x.shape[1].divisible_by(ir::block_elements(ir::DType::a8))) products.push_back(node.get());
  }
  for (ir::Node* node : products) {
    const std::string name = node->inputs[0]->name + ".a8";
    node->inputs[0] = graph.insert_before(node, ops::quantize_activations, {node->inputs[0]}, {}, name)->outputs[0];
  }
  eliminate_common(graph);  // queries, keys and values take the same input
}

}  // namespace quern::passes
