#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace quern::sampling {

/// Two schools. llama, as llama.cpp: the truncating samplers see the distribution before temperature, in the order top-k, top-p, min-p, and
/// frequency and presence penalties count the penalty window. openai, as vLLM: temperature comes first, then min-p, top-k, top-p, and
/// frequency and presence penalties count the answer alone.
enum class Profile : std::uint8_t { llama, openai };

/// How the next token is chosen from the logits: allowed tokens and bad words, bias, penalties, truncation and temperature as the profile
/// has it, draw. The defaults change nothing but draw at temperature 1.
struct Parameters {
  Profile profile = Profile::llama;

  double temperature = 1.0;                               // 0: the most probable token, ties to the lowest id
  std::int32_t top_k = 0;                                 // ≤ 0: all
  double top_p = 1.0;                                     // in (0, 1]; 1: all
  double min_p = 0.0;                                     // in [0, 1]
  double repeat_penalty = 1.0;                            // > 0
  double frequency_penalty = 0.0;                         // finite
  double presence_penalty = 0.0;                          // finite
  std::int32_t penalty_window = 64;                       // last tokens of prompt and answer that penalties count; -1: all, 0: none
  std::vector<std::int32_t> allowed = {};                 // unless it is empty, no other token is chosen
  std::vector<std::vector<std::int32_t>> bad_words = {};  // runs of tokens that the answer must not have
  std::vector<std::pair<std::int32_t, float>> bias = {};  // added to the logits of single tokens; -inf forbids one
  std::optional<std::uint64_t> seed = {};                 // nothing: a new one, which the engine picks
};

}  // namespace quern::sampling
