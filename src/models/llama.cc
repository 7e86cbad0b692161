// Llama 1–3.x, Mistral, SmolLM and SmolLM2: pre-norm transformer with grouped-query attention, rotary positions and SwiGLU.
// Sources: Llama, Touvron et al. 2023; Llama 3, Grattafiori et al. 2024; Mistral 7B, Jiang et al. 2023; SmolLM3 blog, Hugging Face 2025.
#include "models/blocks/blocks.h"

namespace quern::models {
namespace {

Value layer(Blocks& b, const Config& c, std::int64_t i, Value x, bool rotate) {  // x: [tokens, width]
  const std::string name = "blk." + std::to_string(i);
  Value h = b.rms_norm(x, name + ".attn_norm");
  Value q = b.split_heads(b.linear(h, name + ".attn_q", c.heads * c.head_dim), c.heads);
  Value k = b.split_heads(b.linear(h, name + ".attn_k", c.kv_heads * c.head_dim), c.kv_heads);
  Value v = b.split_heads(b.linear(h, name + ".attn_v", c.kv_heads * c.head_dim), c.kv_heads);
  if (rotate) {
    q = b.rope(q, /*interleaved=*/true);
    k = b.rope(k, /*interleaved=*/true);
  }
  x = b.add(x, b.linear(b.merge_heads(b.attention(i, q, k, v)), name + ".attn_output", c.width));
  return b.add(x, b.swiglu(b.rms_norm(x, name + ".ffn_norm"), name));
}

/// Every `unrotated`-th layer goes without positions; 0: none does.
LanguageModel build(const Checkpoint& checkpoint, const GraphOptions& options, std::int64_t unrotated) {
  const Config c = read_config(checkpoint);
  Blocks b(checkpoint, c, options);
  Value x = b.embed();
  for (std::int64_t i = 0; i < c.layers; ++i) x = layer(b, c, i, x, unrotated == 0 || (i + 1) % unrotated != 0);
  return b.finish(b.head(x));
}

}  // namespace

LanguageModel build_llama(const Checkpoint& checkpoint, const GraphOptions& options) { return build(checkpoint, options, 0); }
LanguageModel build_smollm3(const Checkpoint& checkpoint, const GraphOptions& options) { return build(checkpoint, options, 4); }

}  // namespace quern::models
