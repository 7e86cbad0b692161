#pragma once

#include "ir/graph.h"

namespace quern::ir {

/// Infers every node once more with numbers in place of the symbols, and compares with what the formulas give. Inference over symbols takes
/// dimensions for equal that a model's author meant to be equal (two axes that are added); here it shows whether they are.
/// Errors: invalid_argument naming the node, when sizes do not fit each other or come out negative.
void check_sizes(const Graph& graph, const SymbolValues& values);

}  // namespace quern::ir
