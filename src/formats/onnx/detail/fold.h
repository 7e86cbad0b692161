#pragma once

#include <vector>

#include "ir/graph.h"

namespace quern::onnx {

/// Computes a node at once when all it reads is known and small, and returns constants in place of its outputs; empty when it is not so.
/// Exporters write the sizes of Pad, Slice and Reshape as little programs over small matrices, which inference, that follows vectors only,
/// cannot see through. The node stays in the graph, without uses.
std::vector<ir::Value*> fold(ir::Graph& graph, const ir::Node& node);

}  // namespace quern::onnx
