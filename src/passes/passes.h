#pragma once

#include "ir/graph.h"

namespace quern::passes {

/// Evaluates, with the ops' reference kernels, what depends on constants alone, and values whose contents shape inference knows. What would
/// take more than `max_bytes` of results in all, products of large matrices, and what is left after ten seconds stays in the graph: a small
/// hostile file must not cost much memory or time.
void fold_constants(ir::Graph& graph, std::int64_t max_bytes);
/// The same with results of at most 64 MiB and eight times the bytes of the graph's own constants.
void fold_constants(ir::Graph& graph);

/// Computes equal things once: pure nodes with the same op, inputs and attributes.
void eliminate_common(ir::Graph& graph);

/// Removes what gives its input back: identity, casts to the type that it has, transposes that change nothing. Two transposes in a row
/// become one.
void remove_identities(ir::Graph& graph);

/// Moves transposes past element-wise nodes, toward the outputs, so that those of a model that was made for another order of axes meet and
/// cancel. Only where all operands were transposed alike and nothing else needs the transposed values. Includes remove_identities and
/// fold_constants.
void sink_transposes(ir::Graph& graph);

/// Additions, subtractions, products and quotients by one constant a channel, and batch normalizations, that follow a convolution become
/// part of its weights and bias. They are put together in f64; each weight that is scaled is rounded once more.
void fold_into_conv(ir::Graph& graph);

/// Lets products run on shorter numbers: their input goes through quantize_activations first. This is what makes precision `fast` of a
/// language model; a graph without this pass computes in float32. `activations(type, width)` of their weights says what the backend takes:
/// a8, bf16, or f32 where it has no better product.
void quantize_activations(ir::Graph& graph, ir::DType (*activations)(ir::DType weights, std::int64_t width));

/// Lets attention multiply shorter numbers: `products(type)` of its cache, f32 or bf16, becomes its attribute of that name. The other part
/// of precision `fast`.
void shorten_attention(ir::Graph& graph, ir::DType (*products)(ir::DType cache));

/// Products of one value with several constant weights become one node: queries, keys and values; gates and ups. Fewer steps, and one look
/// at the value.
void merge_linears(ir::Graph& graph);

/// An addition whose sum an rms_norm reads becomes part of it, the sum being its second output: one walk over a row instead of two.
void fuse_residuals(ir::Graph& graph);

/// quantize_activations becomes part of the op that makes its input, where that op can give its result (it has the attribute `dtype`) and
/// nothing else reads the floats.
void fuse_quantization(ir::Graph& graph);

/// Element-wise nodes that nothing but each other reads become one node with a body (ops::fused), which walks its operands once, a piece in
/// the cache at a time. `fits` says which nodes the backend has loops for; they must be over f32. Last of all passes: others do not look
/// into bodies.
void fuse_elementwise(ir::Graph& graph, bool (*fits)(const ir::Node&));

/// A glu of two products of one value, which nothing else reads, becomes one node with them: gates and ups, the widest values of a language
/// model, are then never written whole. After merge_linears and fuse_quantization.
void fuse_gates(ir::Graph& graph);

}  // namespace quern::passes
