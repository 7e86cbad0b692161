#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "models/checkpoint.h"

namespace quern::models {

/// What a caller may choose when a graph is made.
struct GraphOptions {
  ir::DType kv_dtype = ir::DType::f16;  // f32, f16, bf16, q8_0 or q4_1
  std::int64_t kv_block_tokens = 16;    // tokens a block of the cache
  std::int64_t context_length = 0;      // the longest sequence that will be run, 0: what the model was trained for
};

/// How many blocks the cache of layers with a window has, where others have one of their own.
inline constexpr const char* kWindowBlocks = "window_blocks";

/// A language model as a graph, and what the rest of the house must know of it. Inputs, in this order (symbols in brackets):
///   ids, positions, sequence, slots: i32[tokens]; block_table: i32[sequences, blocks_per_sequence]; rows: i32[rows];
///   hidden_rows: i32[hidden_rows]; where some layers see a window and others all, window_slots and window_block_table, for the former's
///   cache; then for each layer the states keys.N and values.N, of [blocks, …] or, for the former, of [window_blocks, …].
/// Outputs: logits f32[rows, vocabulary], hidden f32[hidden_rows, width], then the states. `rows` names the tokens whose logits are wanted,
/// `hidden_rows` those whose final states are: behind the last norm, before the head.
struct LanguageModel {
  std::unique_ptr<ir::Graph> graph;
  std::string architecture;
  std::int64_t vocabulary = 0, context_length = 0, layers = 0, width = 0, kv_heads = 0, head_dim = 0;
  /// Tokens that a layer with window_blocks sees at most, the newest included; 0: there is none.
  std::int64_t window = 0;
};

/// An architecture: one file in models/, one row in families.inc.
struct Family {
  std::string_view architecture;  // as GGUF's general.architecture has it
  std::string_view models;        // which models people know by it
  LanguageModel (*build)(const Checkpoint&, const GraphOptions&);
};

/// All families, in the order of families.inc.
const std::vector<Family>& families();
/// Builds the graph of a checkpoint. Errors: unsupported (an architecture or a variant we do not have; the message lists those we have),
/// data_corrupt (a missing tensor, a shape that does not fit, a hyper-parameter that makes no sense).
LanguageModel build(const Checkpoint& checkpoint, const GraphOptions& options);

}  // namespace quern::models
