#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"

namespace quern::passes {

/// Which nodes of a graph read each of its values, as they stood when this was made. A null user is something that is no node of this
/// graph: its outputs, or a region inside it.
class Users {
 public:
  explicit Users(const ir::Graph& graph);

  /// In the graph's order; a node that reads a value twice stands there twice.
  std::span<ir::Node* const> of(const ir::Value& value) const;
  /// The one node that reads this value, once; null when there is none, or more, or something else reads it.
  ir::Node* only_user(const ir::Value& value) const;
  /// `to` is now read by what reads `from`.
  void take_over(const ir::Value& from, const ir::Value& to);

 private:
  void keep_all(const ir::Graph& region);

  std::unordered_map<const ir::Value*, std::vector<ir::Node*>> users_;
};

}  // namespace quern::passes
