#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace quern::plan::testing {

using Bytes = std::vector<std::byte>;

/// What a program must compute: every node with its reference kernel, in order, each value in bytes of its own. `inputs` holds the bytes of
/// every graph input by name, states among them. Returns the bytes of the graph's outputs; errors of kernels are failures of the test.
std::vector<Bytes> run_node_by_node(const ir::Graph& graph, const ir::SymbolValues& symbols, const std::map<std::string, Bytes>& inputs);

}  // namespace quern::plan::testing
