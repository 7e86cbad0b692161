#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "models/blocks/config.h"
#include "models/family.h"

namespace quern::models {

using Value = ir::Value*;

/// The pieces that families are put together from. Each call appends nodes to the graph being built and returns the result; weights are
/// named as GGUF names them and checked against the shape that the place needs.
class Blocks {
 public:
  Blocks(const Checkpoint& checkpoint, const Config& config, const GraphOptions& options);

  /// The rows of the token table: [tokens, width].
  Value embed();
  /// RMS norm with `<name>.weight`.
  Value rms_norm(Value x, const std::string& name);
  /// x · wᵀ with `<name>.weight` of [out, in], plus `<name>.bias` where the file has one.
  Value linear(Value x, const std::string& name, std::int64_t out);
  Value add(Value a, Value b);
  /// [tokens, heads * head_dim] to [tokens, heads, head_dim], and back.
  Value split_heads(Value x, std::int64_t heads);
  Value merge_heads(Value x);
  /// Rotates by the tokens' positions; `interleaved`: pairs are neighbours, as Llama has them in GGUF.
  Value rope(Value x, bool interleaved);
  /// Writes keys and values into layer's cache and attends over it: q [tokens, heads, head_dim], k and v [tokens, kv_heads, head_dim].
  Value attention(std::int64_t layer, Value q, Value k, Value v);
  /// down(silu(gate(x)) * up(x)) with `<name>.ffn_gate`, `ffn_up`, `ffn_down`.
  Value swiglu(Value x, const std::string& name);
  /// Logits of the rows that are wanted: norm with `output_norm`, head `output` (or the token table where the file has none).
  Value head(Value x);

  /// Ends the graph.
  LanguageModel finish(Value logits);

 private:
  Value weight(const std::string& name, std::vector<std::int64_t> shape);
  Value optional_weight(const std::string& name, std::vector<std::int64_t> shape);

  const Checkpoint& checkpoint_;
  const Config& config_;
  std::unique_ptr<ir::Graph> graph_;
  Value ids_, positions_, sequence_, slots_, block_table_, rows_;
  Value rope_table_;
  std::vector<Value> states_;  // keys.0, values.0, keys.1 … as they stand now
  std::map<std::string, Value> weights_;
};

}  // namespace quern::models
