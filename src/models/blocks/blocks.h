#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "models/blocks/config.h"
#include "models/family.h"

namespace quern::models {

using Value = ir::Value*;

/// Which elements of a head turn together: neighbours (2i, 2i + 1), as files of the llama architecture are written, or (i, i + half) as the
/// papers draw it.
enum class RopePairs { neighbours, halves };

/// How a layer attends: scores are kept within ±softcap, or 0: as they are.
struct AttentionOptions {
  double softcap = 0;
};

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
  Value scale(Value x, double factor);
  /// cap * tanh(x / cap); a cap of 0 leaves x.
  Value softcap(Value x, double cap);
  /// [tokens, heads * head_dim] to [tokens, heads, head_dim], and back.
  Value split_heads(Value x, std::int64_t heads);
  Value merge_heads(Value x);
  /// Queries [tokens, heads, head_dim], keys and values [tokens, kv_heads, head_dim] with `<name>.attn_q`, `attn_k`, `attn_v`.
  struct Heads {
    Value q, k, v;
  };
  Heads qkv(Value x, const std::string& name);
  /// The rotation of each token's position, for rope(). `name` is unique in the graph.
  Value rotations(const RopeFrequencies& frequencies, const std::string& name = "rope");
  Value rope(Value x, Value rotations, RopePairs pairs);
  /// Writes keys and values into layer's cache and attends over what the layer sees of it; the heads' results side by side: [tokens, heads
  /// * head_dim].
  Value attention(std::int64_t layer, const Heads& heads, const AttentionOptions& options = {});
  /// Feed-forward of gated linear units, down(f(gate(x)) * up(x)) with `<name>.ffn_gate`, `ffn_up`, `ffn_down`; f is silu or tanh's gelu.
  Value swiglu(Value x, const std::string& name);
  Value geglu(Value x, const std::string& name);
  /// Logits of the rows that are wanted: norm with `output_norm`, head `output` (or the token table where the file has none). The final
  /// states of hidden_rows, which finish() makes an output, are those behind the norm.
  Value head(Value x);

  /// Ends the graph.
  LanguageModel finish(Value logits);

 private:
  Value weight(const std::string& name, std::vector<std::int64_t> shape);
  Value optional_weight(const std::string& name, std::vector<std::int64_t> shape);
  Value glu(Value x, const std::string& name, const char* activation);
  std::int64_t window_of(std::int64_t layer) const;

  const Checkpoint& checkpoint_;
  const Config& config_;
  std::unique_ptr<ir::Graph> graph_;
  Value ids_, positions_, sequence_, rows_, hidden_rows_, hidden_ = nullptr;
  /// Where the tokens of a step lie in the cache of some layers.
  struct Places {
    Value slots, block_table;
  };
  Places places_, window_places_ = {};  // window_places_: of layers with a window, where there are others, too
  std::int64_t window_ = 0;             // the widest of these
  std::vector<Value> states_;           // keys.0, values.0, keys.1 … as they stand now
  std::map<std::string, Value> weights_;
};

}  // namespace quern::models
