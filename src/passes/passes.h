#pragma once

#include "ir/graph.h"

namespace quern::passes {

/// Evaluates, with the ops' reference kernels, what depends on constants alone, and values whose contents shape inference knows. Results larger
/// than `max_bytes` each stay in the graph.
void fold_constants(ir::Graph& graph, std::int64_t max_bytes = std::int64_t{1} << 30);

/// Computes equal things once: pure nodes with the same op, inputs and attributes.
void eliminate_common(ir::Graph& graph);

/// Lets products with block-quantised weights run on integers: their input goes through quantize_activations first. This is what makes precision
/// `fast` of a language model; a graph without this pass computes in float32.
void quantize_activations(ir::Graph& graph);

}  // namespace quern::passes
