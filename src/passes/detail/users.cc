#include "passes/detail/users.h"

namespace quern::passes {

Users::Users(const ir::Graph& graph) {
  for (const auto& node : graph.nodes()) {
    for (const ir::Value* value : node->inputs)
      if (value != nullptr) users_[value].push_back(node.get());
    for (const auto& region : node->regions) keep_all(*region);
  }
  for (const ir::Value* value : graph.outputs()) users_[value].push_back(nullptr);
}

std::span<ir::Node* const> Users::of(const ir::Value& value) const {
  const auto found = users_.find(&value);
  return found == users_.end() ? std::span<ir::Node* const>{} : found->second;
}

ir::Node* Users::only_user(const ir::Value& value) const {
  const std::span<ir::Node* const> users = of(value);
  return users.size() == 1 ? users[0] : nullptr;
}

void Users::take_over(const ir::Value& from, const ir::Value& to) {
  users_[&to] = std::vector<ir::Node*>(of(from).begin(), of(from).end());
}

void Users::keep_all(const ir::Graph& region) {
  for (const auto& node : region.nodes()) {
    for (const ir::Value* value : node->inputs)
      if (value != nullptr) users_[value].push_back(nullptr);
    for (const auto& inner : node->regions) keep_all(*inner);
  }
  for (const ir::Value* value : region.outputs()) users_[value].push_back(nullptr);
}

}  // namespace quern::passes
