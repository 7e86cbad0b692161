#include <cstdint>
#include <vector>

#include "ops/registry.h"
#include "passes/detail/users.h"
#include "passes/passes.h"

namespace quern::passes {

void fuse_residuals(ir::Graph& graph) {
  const Users users(graph);
  std::vector<ir::Node*> norms;
  for (const auto& node : graph.nodes())
    if (node->op == &ops::rms_norm && !node->has_input(2)) norms.push_back(node.get());
  for (ir::Node* norm : norms) {
    ir::Value* sum = norm->inputs[0];
    const ir::Node* add = sum->producer;
    if (add == nullptr || add->op != &ops::add || add->inputs[0]->type != sum->type || add->inputs[1]->type != sum->type) continue;
    // The sum is now made where the norm stands: nobody may read it before.
    const auto readers = users.of(*sum);
    if (readers.empty() || readers.front() != norm) continue;
    ir::Attributes attributes = norm->attributes;
    attributes["outputs"] = std::int64_t{2};
    const ir::Node* fused = graph.insert_before(norm, ops::rms_norm, {add->inputs[0], norm->inputs[1], add->inputs[1]},
                                                std::move(attributes), norm->outputs[0]->name);
    graph.replace_uses(norm->outputs[0], fused->outputs[0]);
    graph.replace_uses(sum, fused->outputs[1]);
  }
  graph.remove_unused();
}

}  // namespace quern::passes
