// Qwen2 and Qwen2.5, dense = Llama + biases of queries, keys and values (which Blocks::linear adds where the file has them), and pairs of
// the rotation half a head apart. Sources: Qwen2, Yang et al. 2024, section 2.2; Qwen2.5, Yang et al. 2024.
#include "models/blocks/blocks.h"

namespace quern::models {
namespace {

Value layer(Blocks& b, const Config& c, std::int64_t i, Value x, Value rotations) {  // x: [tokens, width]
  const std::string name = "blk." + std::to_string(i);
  Blocks::Heads h = b.qkv(b.rms_norm(x, name + ".attn_norm"), name);
  h.q = b.rope(h.q, rotations, RopePairs::halves);
  h.k = b.rope(h.k, rotations, RopePairs::halves);
  x = b.add(x, b.linear(b.attention(i, h), name + ".attn_output", c.width));
  return b.add(x, b.swiglu(b.rms_norm(x, name + ".ffn_norm"), name));
}

}  // namespace

LanguageModel build_qwen2(const Checkpoint& checkpoint, const GraphOptions& options) {
  const Config c = read_config(checkpoint);
  Blocks b(checkpoint, c, options);
  const Value rotations = b.rotations(rope_frequencies(checkpoint, c, options.context_length));
  Value x = b.embed();
  for (std::int64_t i = 0; i < c.layers; ++i) x = layer(b, c, i, x, rotations);
  return b.finish(b.head(x));
}

}  // namespace quern::models
