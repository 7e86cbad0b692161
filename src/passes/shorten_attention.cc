#include "ops/registry.h"
#include "passes/passes.h"

namespace quern::passes {

void shorten_attention(ir::Graph& graph, ir::DType (*products)(ir::DType cache)) {
  for (const auto& node : graph.nodes())
    if (node->op == &ops::paged_attention) node->attributes.insert_or_assign("products", products(node->inputs[1]->type.dtype));
}

}  // namespace quern::passes
