#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/op.h"
#include "ops/registry.h"
#include "passes/detail/users.h"
#include "passes/passes.h"

namespace quern::passes {
namespace {

// What a kernel keeps in the first-level cache at once, some 1000 elements of each.
constexpr std::size_t kMostNodes = 16, kMostInputs = 8;

/// Constants of one element stay where they are: the body reads them.
bool is_number(const ir::Value& value) { return value.constant != nullptr && ir::element_count(value.type.shape) == ir::Dim(1); }

struct Group {
  std::vector<ir::Node*> nodes;  // from the last to the first
  std::unordered_set<const ir::Node*> members;

  void add(ir::Node* node) {
    nodes.push_back(node);
    members.insert(node);
  }
  /// What the group reads, in the order of the graph; values as large as the result first, since a kernel may write over the first.
  std::vector<ir::Value*> inputs() const {
    std::vector<ir::Value*> found;
    for (const bool large : {true, false})
      for (auto node = nodes.rbegin(); node != nodes.rend(); ++node)
        for (ir::Value* value : (*node)->inputs)
          if (value != nullptr && !is_number(*value) && !members.contains(value->producer) &&
              (value->type == nodes[0]->outputs[0]->type) == large && std::find(found.begin(), found.end(), value) == found.end())
            found.push_back(value);
    return found;
  }
};

/// All that leads to `root` and fits: makers of operands as large as its result that only the group reads.
Group grow(ir::Node* root, const Users& users, bool (*fits)(const ir::Node&)) {
  Group group;
  group.add(root);
  for (std::size_t i = 0; i < group.nodes.size(); ++i)
    for (ir::Value* value : std::vector(group.nodes[i]->inputs)) {
      ir::Node* maker = value == nullptr ? nullptr : value->producer;
      if (maker == nullptr || group.members.contains(maker) || group.nodes.size() == kMostNodes) continue;
      if (value->type != root->outputs[0]->type || !fits(*maker)) continue;
      const auto readers = users.of(*value);
      if (!std::all_of(readers.begin(), readers.end(), [&](const ir::Node* n) { return group.members.contains(n); })) continue;
      Group larger = group;
      larger.add(maker);
      if (larger.inputs().size() <= kMostInputs) group = std::move(larger);
    }
  return group;
}

}  // namespace

void fuse_elementwise(ir::Graph& graph, bool (*fits)(const ir::Node&)) {
  const Users users(graph);
  std::vector<ir::Node*> nodes;
  std::unordered_map<const ir::Node*, std::size_t> position;
  for (const auto& node : graph.nodes()) {
    position[node.get()] = nodes.size();
    nodes.push_back(node.get());
  }
  std::unordered_set<const ir::Node*> taken;
  std::vector<Group> groups;
  for (auto root = nodes.rbegin(); root != nodes.rend(); ++root) {
    if (taken.contains(*root) || !fits(**root)) continue;
    Group group = grow(*root, users, fits);
    const bool reads_something = !group.inputs().empty();
    if (group.nodes.size() < 2 || !reads_something) continue;
    taken.insert(group.members.begin(), group.members.end());
    std::sort(group.nodes.begin(), group.nodes.end(), [&](const auto* a, const auto* b) { return position[a] > position[b]; });
    groups.push_back(std::move(group));
  }
  for (const Group& group : groups) {
    ir::Node* root = group.nodes[0];
    auto body = std::make_unique<ir::Graph>(root->name + ".body", &graph);
    const std::vector<ir::Value*> inputs = group.inputs();
    std::unordered_map<const ir::Value*, ir::Value*> inside;
    for (const ir::Value* value : inputs) inside[value] = body->add_input(value->name, value->type);
    for (auto node = group.nodes.rbegin(); node != group.nodes.rend(); ++node) {
      std::vector<ir::Value*> operands;
      for (ir::Value* value : (*node)->inputs) operands.push_back(inside.contains(value) ? inside[value] : value);
      inside[(*node)->outputs[0]] = body->append(*(*node)->op, std::move(operands), (*node)->attributes, (*node)->name)->outputs[0];
    }
    body->set_outputs({inside[root->outputs[0]]});
    std::vector<std::unique_ptr<ir::Graph>> regions;
    regions.push_back(std::move(body));
    const ir::Node* fused = graph.insert_before(root, ops::fused, inputs, {}, root->name, std::move(regions));
    graph.replace_uses(root->outputs[0], fused->outputs[0]);
  }
  graph.remove_unused();
}

}  // namespace quern::passes
