#pragma once

#include <cstdint>
#include <vector>

#include "models/checkpoint.h"

namespace quern::models {

/// The hyper-parameters that nearly all decoder-only transformers share, read and checked. A family adds its own beside them.
struct Config {
  std::int64_t layers, width, heads, kv_heads, head_dim, ffn_width, context_length, vocabulary;
  double norm_epsilon;
  double attention_scale;  // of the scores: 1 / sqrt(head_dim) unless the file says otherwise
  std::int64_t rope_dim;   // elements of a head that are rotated
};

/// Errors: data_corrupt naming the key that is missing or makes no sense.
Config read_config(const Checkpoint& checkpoint);

/// The rotation a position adds to each pair of a head, in radians, and how much longer rotated vectors become.
struct RopeFrequencies {
  std::vector<float> radians;  // [rope_dim / 2]
  double magnitude = 1.0;
};

/// Base frequencies with the file's scaling applied: none, linear, Llama 3 and longrope factors (tensors), YaRN.
/// Sources: RoFormer 2021; YaRN, Peng et al. 2023; Llama 3.1 model card; LongRoPE, Ding et al. 2024.
RopeFrequencies rope_frequencies(const Checkpoint& checkpoint, const Config& config, std::int64_t context_length);

}  // namespace quern::models
