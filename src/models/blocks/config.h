#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "models/checkpoint.h"

namespace quern::models {

/// The hyper-parameters that nearly all decoder-only transformers share, read and checked. A family adds its own beside them.
struct Config {
  std::int64_t layers, width, heads, kv_heads, head_dim, ffn_width, context_length, vocabulary;
  double norm_epsilon;
  double attention_scale;  // of the scores: 1 / sqrt(head_dim) unless the file says otherwise
  std::int64_t rope_dim;   // elements of a head that are rotated
  /// By layer: a token sees itself and the n - 1 tokens before it, or 0: all. Empty: all layers see all. A family sets it before it makes
  /// its Blocks.
  std::vector<std::int64_t> windows = {};
};

/// Errors: data_corrupt naming the key that is missing or makes no sense.
Config read_config(const Checkpoint& checkpoint);

/// The rotation a position adds to each pair of a head, in radians, and how much longer rotated vectors become.
struct RopeFrequencies {
  std::vector<float> radians;  // [rope_dim / 2]
  double magnitude = 1.0;
};

/// Frequencies as the file scales them: none, linear, Llama 3 and longrope factors (tensors), YaRN. `context_length`: the longest sequence
/// that will be run, 0: what the model was trained for.
/// Sources: RoFormer 2021; YaRN, Peng et al. 2023; Llama 3.1 model card; LongRoPE, Ding et al. 2024.
RopeFrequencies rope_frequencies(const Checkpoint& checkpoint, const Config& config, std::int64_t context_length);
/// Those of another base, unscaled. Errors: data_corrupt when they are not finite.
RopeFrequencies plain_rope_frequencies(const Checkpoint& checkpoint, const Config& config, double base);

/// A hyper-parameter of a family's own, no less than 0. Errors: data_corrupt naming the key.
std::int64_t count_or(const Checkpoint& checkpoint, std::string_view key, std::int64_t otherwise);
double number_or(const Checkpoint& checkpoint, std::string_view key, double otherwise);

}  // namespace quern::models
