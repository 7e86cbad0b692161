#include <vector>

#include "ops/registry.h"
#include "passes/detail/users.h"
#include "passes/passes.h"

namespace quern::passes {
namespace {

constexpr std::size_t kMostWeights = 8;  // what one node of three or four projections ever needs, and kernels keep on the stack

bool has_one_constant_weight(const ir::Node& node) {
  return node.op == &ops::linear && node.inputs.size() == 2 && node.inputs[1]->constant;
}

}  // namespace

void merge_linears(ir::Graph& graph) {
  const Users users(graph);
  std::vector<ir::Node*> firsts;
  for (const auto& node : graph.nodes())
    if (has_one_constant_weight(*node)) firsts.push_back(node.get());
  for (ir::Node* first : firsts) {
    std::vector<ir::Node*> together;
    for (ir::Node* user : users.of(*first->inputs[0]))
      if (user != nullptr && has_one_constant_weight(*user) && together.size() < kMostWeights) together.push_back(user);
    if (together.size() < 2 || together.front() != first) continue;  // the first of them does it for all
    std::vector<ir::Value*> inputs{first->inputs[0]};
    for (const ir::Node* node : together) inputs.push_back(node->inputs[1]);
    const ir::Node* merged =
        graph.insert_before(first, ops::linear, inputs, {{"outputs", static_cast<std::int64_t>(together.size())}}, first->name);
    for (std::size_t i = 0; i < together.size(); ++i) graph.replace_uses(together[i]->outputs[0], merged->outputs[i]);
  }
  graph.remove_unused();
}

}  // namespace quern::passes
