#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace quern::sampling {

/// How the next token is chosen from the logits. Steps run in this order: bias, penalties, top-k, top-p, min-p, temperature, draw (the
/// order of llama.cpp, whose truncating samplers see the distribution before temperature). The defaults change nothing but draw at
/// temperature 1.
struct Parameters {
  double temperature = 1.0;                               // 0: the most probable token, ties to the lowest id
  std::int32_t top_k = 0;                                 // ≤ 0: all
  double top_p = 1.0;                                     // in (0, 1]; 1: all
  double min_p = 0.0;                                     // in [0, 1]
  double repeat_penalty = 1.0;                            // > 0
  double frequency_penalty = 0.0;                         // finite
  double presence_penalty = 0.0;                          // finite
  std::int32_t penalty_window = 64;                       // last tokens of prompt and answer that penalties count; -1: all, 0: none
  std::vector<std::pair<std::int32_t, float>> bias = {};  // added to the logits of single tokens; -inf forbids one
  std::optional<std::uint64_t> seed = {};                 // nothing: a new one, which the engine picks
};

}  // namespace quern::sampling
