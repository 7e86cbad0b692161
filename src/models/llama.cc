// Llama 1–3.x, Mistral, SmolLM and SmolLM2: pre-norm transformer with grouped-query attention, rotary positions and SwiGLU.
// Sources: Llama, Touvron et al. 2023; Llama 3, Grattafiori et al. 2024; Mistral 7B, Jiang et al. 2023; SmolLM3 blog, Hugging Face 2025.
#include "models/blocks/blocks.h"

namespace quern::models {
namespace {

Value layer(Blocks& b, const Config& c, std::int64_t i, Value x,
            Value rotations) {  // x: [tokens, width]; rotations: null: without positions
  const std::string name = "blk." + std::to_string(i);
  Blocks::Heads h = b.qkv(b.rms_norm(x, name + ".attn_norm"), name);
  if (rotations != nullptr) {
    h.q = b.rope(h.q, rotations, RopePairs::neighbours);
    h.k = b.rope(h.k, rotations, RopePairs::neighbours);
  }
  x = b.add(x, b.linear(b.attention(i, h), name + ".attn_output", c.width));
  return b.add(x, b.swiglu(b.rms_norm(x, name + ".ffn_norm"), name));
}

/// Every `unrotated`-th layer goes without positions; 0: none does.
LanguageModel build(const Checkpoint& checkpoint, const GraphOptions& options, std::int64_t unrotated) {
  const Config c = read_config(checkpoint);
  Blocks b(checkpoint, c, options);
  const Value rotations = b.rotations(rope_frequencies(checkpoint, c, options.context_length));
  Value x = b.embed();
  for (std::int64_t i = 0; i < c.layers; ++i) x = layer(b, c, i, x, unrotated != 0 && (i + 1) % unrotated == 0 ? nullptr : rotations);
  return b.finish(b.head(x));
}

}  // namespace

LanguageModel build_llama(const Checkpoint& checkpoint, const GraphOptions& options) { return build(checkpoint, options, 0); }
LanguageModel build_smollm3(const Checkpoint& checkpoint, const GraphOptions& options) { return build(checkpoint, options, 4); }

}  // namespace quern::models
