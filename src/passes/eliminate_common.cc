#include <map>
#include <tuple>
#include <vector>

#include "ir/op.h"
#include "passes/passes.h"

namespace quern::passes {

void eliminate_common(ir::Graph& graph) {
  using Key = std::tuple<const ir::Op*, std::vector<ir::Value*>, ir::Attributes, std::size_t>;
  std::map<Key, const ir::Node*> first;
  for (const auto& node : graph.nodes()) {
    if (!has(node->op->traits, ir::Trait::pure) || has(node->op->traits, ir::Trait::writes_state) || !node->regions.empty()) continue;
    const auto [found, is_new] = first.emplace(Key{node->op, node->inputs, node->attributes, node->outputs.size()}, node.get());
    if (is_new) continue;
    for (std::size_t i = 0; i < node->outputs.size(); ++i) graph.replace_uses(node->outputs[i], found->second->outputs[i]);
  }
  graph.remove_unused();
}

}  // namespace quern::passes
