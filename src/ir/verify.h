#pragma once

#include "ir/graph.h"

namespace quern::ir {

/// Checks what every pass relies on, in the graph and its regions:
///   each value is made once, before it is used, in this graph or one around it; names are unique;
///   inputs and attributes are what the op declares, with defaults filled in; types are what inference gives again;
///   constants have the bytes of their type; graph outputs exist;
///   a state is overwritten by at most one node (by one in each region of a node) and not used afterwards.
/// Errors: invalid_argument saying which node and value; whatever inference throws.
void verify(const Graph& graph);

}  // namespace quern::ir
