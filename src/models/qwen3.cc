// Qwen3, dense = Qwen2 without biases, + an RMS norm of each query and key head before the rotation.
// Source: Qwen3, Yang et al. 2025, section 2.
#include "models/blocks/blocks.h"

namespace quern::models {
namespace {

Value layer(Blocks& b, const Config& c, std::int64_t i, Value x, Value rotations) {  // x: [tokens, width]
  const std::string name = "blk." + std::to_string(i);
  Blocks::Heads h = b.qkv(b.rms_norm(x, name + ".attn_norm"), name);
  h.q = b.rope(b.rms_norm(h.q, name + ".attn_q_norm"), rotations, RopePairs::halves);
  h.k = b.rope(b.rms_norm(h.k, name + ".attn_k_norm"), rotations, RopePairs::halves);
  x = b.add(x, b.linear(b.attention(i, h), name + ".attn_output", c.width));
  return b.add(x, b.swiglu(b.rms_norm(x, name + ".ffn_norm"), name));
}

}  // namespace

LanguageModel build_qwen3(const Checkpoint& checkpoint, const GraphOptions& options) {
  const Config c = read_config(checkpoint);
  Blocks b(checkpoint, c, options);
  const Value rotations = b.rotations(rope_frequencies(checkpoint, c, options.context_length));
  Value x = b.embed();
  for (std::int64_t i = 0; i < c.layers; ++i) x = layer(b, c, i, x, rotations);
  return b.finish(b.head(x));
}

}  // namespace quern::models
