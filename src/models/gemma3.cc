// Gemma 3 (text) = Qwen3 + norms also behind attention and feed-forward, GeGLU, scaled embeddings, and five of six layers that see only a
// window and turn by frequencies of their own. GGUF's norm weights have the 1 added that the paper's formula adds.
// Source: Gemma 3, Gemma Team 2025, section 2; its configuration files.
#include <cmath>

#include "models/blocks/blocks.h"

namespace quern::models {
namespace {

Value layer(Blocks& b, const Config& c, std::int64_t i, Value x, Value rotations, const AttentionOptions& options) {  // x: [tokens, width]
  const std::string name = "blk." + std::to_string(i);
  Blocks::Heads h = b.qkv(b.rms_norm(x, name + ".attn_norm"), name);
  h.q = b.rope(b.rms_norm(h.q, name + ".attn_q_norm"), rotations, RopePairs::halves);
  h.k = b.rope(b.rms_norm(h.k, name + ".attn_k_norm"), rotations, RopePairs::halves);
  const Value attended = b.linear(b.attention(i, h, options), name + ".attn_output", c.width);
  x = b.add(x, b.rms_norm(attended, name + ".post_attention_norm"));
  return b.add(x, b.rms_norm(b.geglu(b.rms_norm(x, name + ".ffn_norm"), name), name + ".post_ffw_norm"));
}

}  // namespace

LanguageModel build_gemma3(const Checkpoint& checkpoint, const GraphOptions& options) {
  Config c = read_config(checkpoint);
  // The 27B model, which no hyper-parameter in the file tells apart, divides by another number than its heads' size.
  if (c.layers == 62) c.attention_scale = 1.0 / std::sqrt(double(c.width) / double(c.heads));
  const std::int64_t window = count_or(checkpoint, "attention.sliding_window", 0);
  const std::int64_t pattern = count_or(checkpoint, "attention.sliding_window_pattern", 6);  // the last of so many sees all
  const double local_base = number_or(checkpoint, "rope.freq_base_swa", 10000);
  const double softcap = number_or(checkpoint, "attn_logit_softcapping", 0);

  for (std::int64_t i = 0; i < c.layers; ++i) c.windows.push_back(pattern > 0 && (i + 1) % pattern == 0 ? 0 : window);

  Blocks b(checkpoint, c, options);
  const Value global = b.rotations(rope_frequencies(checkpoint, c, options.context_length));
  const Value local = window > 0 ? b.rotations(plain_rope_frequencies(checkpoint, c, local_base), "rope_local") : global;

  Value x = b.scale(b.embed(), std::sqrt(double(c.width)));
  for (std::int64_t i = 0; i < c.layers; ++i)
    x = layer(b, c, i, x, c.windows[static_cast<std::size_t>(i)] > 0 ? local : global, {.softcap = softcap});
  return b.finish(b.softcap(b.head(x), number_or(checkpoint, "final_logit_softcapping", 0)));
}

}  // namespace quern::models
