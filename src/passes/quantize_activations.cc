#include <vector>

#include "ops/registry.h"
#include "passes/passes.h"

namespace quern::passes {

void quantize_activations(ir::Graph& graph, bool (*has_integer_product)(ir::DType weights, std::int64_t width)) {
  std::vector<ir::Node*> products;
  for (const auto& node : graph.nodes()) {
    if (node->op != &ops::linear) continue;
    const ir::Type &x = node->inputs[0]->type, &w = node->inputs[1]->type;
    const auto width = w.shape[1].constant();
    if (x.dtype == ir::DType::f32 && ir::is_block(w.dtype) && width && *width % ir::block_elements(ir::DType::a8) == 0 &&
        has_integer_product(w.dtype, *width))
      products.push_back(node.get());
  }
  for (ir::Node* node : products) {
    const std::string name = node->inputs[0]->name + ".a8";
    node->inputs[0] = graph.insert_before(node, ops::quantize_activations, {node->inputs[0]}, {}, name)->outputs[0];
  }
  eliminate_common(graph);  // queries, keys and values take the same input
}

}  // namespace quern::passes
