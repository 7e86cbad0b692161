#include <string>
#include <utility>
#include <vector>

#include "ops/registry.h"
#include "passes/passes.h"

namespace quern::passes {

void quantize_activations(ir::Graph& graph, ir::DType (*activations)(ir::DType weights, std::int64_t width)) {
  std::vector<std::pair<ir::Node*, ir::DType>> products;
  for (const auto& node : graph.nodes()) {
    if (node->op != &ops::linear || node->inputs[0]->type.dtype != ir::DType::f32) continue;
    const ir::Type& w = node->inputs[1]->type;
    const auto width = w.shape[1].constant();
    const ir::DType wanted = width ? activations(w.dtype, *width) : ir::DType::f32;
    if (wanted != ir::DType::f32) products.emplace_back(node.get(), wanted);
  }
  for (const auto& [node, wanted] : products) {
    const std::string name = node->inputs[0]->name + "." + std::string(ir::name(wanted));
    node->inputs[0] = graph.insert_before(node, ops::quantize_activations, {node->inputs[0]}, {{"dtype", wanted}}, name)->outputs[0];
  }
  eliminate_common(graph);  // queries, keys and values take the same input
}

}  // namespace quern::passes
