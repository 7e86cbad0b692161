#pragma once

#include "ir/graph.h"

namespace quern::passes {

/// Evaluates, with the ops' reference kernels, what depends on constants alone, and values whose contents shape inference knows. Results larger
/// than `max_bytes` each stay in the graph.
void fold_constants(ir::Graph& graph, std::int64_t max_bytes = std::int64_t{1} << 30);

/// Computes equal things once: pure nodes with the same op, inputs and attributes.
void eliminate_common(ir::Graph& graph);

/// Removes what gives its input back: identity, casts to the type that it has, transposes that change nothing. Two transposes in a row become one.
void remove_identities(ir::Graph& graph);

/// Moves transposes past element-wise nodes, toward the outputs, so that those of a model that was made for another order of axes meet and cancel.
/// Only where all operands were transposed alike and nothing else needs the transposed values. Includes remove_identities and fold_constants.
void sink_transposes(ir::Graph& graph);

/// Additions, subtractions, products and quotients by one constant a channel, and batch normalizations, that follow a convolution become part of
/// its weights and bias. They are put together in f64; each weight that is scaled is rounded once more.
void fold_into_conv(ir::Graph& graph);

/// Lets products with block-quantised weights run on integers: their input goes through quantize_activations first. This is what makes precision
/// `fast` of a language model; a graph without this pass computes in float32.
void quantize_activations(ir::Graph& graph);

}  // namespace quern::passes
