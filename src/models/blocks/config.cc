#include "models/blocks/config.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <string>
#include <utility>

#include "base/error.h"

namespace quern::models {
namespace {

[[noreturn]] void nonsense(const Checkpoint& c, std::string_view key, const std::string& value, std::string_view wanted) {
  throw Error(Code::data_corrupt, "'" + c.architecture() + "." + std::string(key) + "' is " + value + "; " + std::string(wanted))
      .at(c.path());
}

std::int64_t checked(const Checkpoint& c, std::string_view key, std::int64_t value, std::int64_t most) {
  if (value < 1 || value > most) nonsense(c, key, std::to_string(value), "between 1 and " + std::to_string(most) + " makes sense");
  return value;
}

std::int64_t required(const Checkpoint& c, std::string_view key, std::int64_t most) {
  const auto value = c.integer(key);
  if (!value) throw Error(Code::data_corrupt, "'" + c.architecture() + "." + std::string(key) + "' is missing").at(c.path());
  return checked(c, key, *value, most);
}

std::int64_t optional(const Checkpoint& c, std::string_view key, std::int64_t otherwise, std::int64_t most) {
  return checked(c, key, c.integer(key).value_or(otherwise), most);
}

double positive(const Checkpoint& c, std::string_view key, double otherwise) {
  const double value = c.number(key).value_or(otherwise);
  if (!std::isfinite(value) || value <= 0) nonsense(c, key, std::to_string(value), "a positive number makes sense");
  return value;
}

constexpr std::int64_t kMaxLayers = 1024, kMaxWidth = 1 << 20, kMaxHeads = 4096, kMaxContext = 1 << 27, kMaxVocabulary = 1 << 28;

/// A tensor of factors, one for each pair.
std::vector<float> factors(const Checkpoint& c, std::string_view name, std::size_t pairs) {
  const auto tensor = c.tensor(name);
  if (!tensor) return {};
  if (tensor->dtype != ir::DType::f32 || tensor->shape != std::vector<std::int64_t>{static_cast<std::int64_t>(pairs)})
    throw Error(Code::data_corrupt, "tensor '" + std::string(name) + "' must be f32[" + std::to_string(pairs) + "]").at(c.path());
  std::vector<float> out(pairs);
  std::memcpy(out.data(), tensor->bytes->data, pairs * sizeof(float));
  for (const float f : out)
    if (!std::isfinite(f) || f <= 0)
      throw Error(Code::data_corrupt, "tensor '" + std::string(name) + "' holds a factor that is not positive").at(c.path());
  return out;
}

/// The radians of each pair for `base`, in double precision.
std::vector<double> base_radians(double base, std::int64_t dim) {
  std::vector<double> radians(static_cast<std::size_t>(dim / 2));
  for (std::size_t i = 0; i < radians.size(); ++i) radians[i] = std::pow(base, -2.0 * double(i) / double(dim));
  return radians;
}

RopeFrequencies checked(const Checkpoint& c, RopeFrequencies rope) {
  if (!std::isfinite(rope.magnitude) || !std::all_of(rope.radians.begin(), rope.radians.end(), [](float r) { return std::isfinite(r); }))
    throw Error(Code::data_corrupt, "the hyper-parameters of rotary positions give infinite angles").at(c.path());
  return rope;
}

}  // namespace

std::int64_t count_or(const Checkpoint& c, std::string_view key, std::int64_t otherwise) {
  const std::int64_t value = c.integer(key).value_or(otherwise);
  return value == 0 ? 0 : checked(c, key, value, kMaxContext);
}

double number_or(const Checkpoint& c, std::string_view key, double otherwise) {
  return c.number(key).value_or(otherwise) == 0 ? 0 : positive(c, key, otherwise);
}

Config read_config(const Checkpoint& c) {
  Config config{};
  config.layers = required(c, "block_count", kMaxLayers);
  config.width = required(c, "embedding_length", kMaxWidth);
  config.ffn_width = required(c, "feed_forward_length", kMaxWidth);
  config.heads = required(c, "attention.head_count", kMaxHeads);
  config.kv_heads = optional(c, "attention.head_count_kv", config.heads, kMaxHeads);
  config.context_length = required(c, "context_length", kMaxContext);
  if (config.heads % config.kv_heads != 0)
    nonsense(c, "attention.head_count_kv", std::to_string(config.kv_heads),
             "it must divide the " + std::to_string(config.heads) + " heads");
  if (!c.integer("attention.key_length") && config.width % config.heads != 0)
    nonsense(c, "attention.head_count", std::to_string(config.heads), "it must divide the width " + std::to_string(config.width));
  config.head_dim = optional(c, "attention.key_length", config.width / config.heads, kMaxWidth);
  if (optional(c, "attention.value_length", config.head_dim, kMaxWidth) != config.head_dim)
    throw Error(Code::unsupported, "keys and values of different sizes are not supported").at(c.path());
  config.norm_epsilon = positive(c, "attention.layer_norm_rms_epsilon", 1e-5);
  config.attention_scale = positive(c, "attention.scale", 1.0 / std::sqrt(double(config.head_dim)));
  config.rope_dim = optional(c, "rope.dimension_count", config.head_dim, kMaxWidth);
  if (config.rope_dim > config.head_dim || config.rope_dim % 2 != 0)
    nonsense(c, "rope.dimension_count", std::to_string(config.rope_dim),
             "it must be even and at most the head size " + std::to_string(config.head_dim));
  if (c.integer("expert_count").value_or(0) > 0)
    throw Error(Code::unsupported, "mixture-of-experts models are not supported yet").at(c.path());
  const auto embedding = c.tensor("token_embd.weight");
  if (!embedding || embedding->shape.size() != 2)
    throw Error(Code::data_corrupt, "tensor 'token_embd.weight' is missing or no matrix").at(c.path());
  config.vocabulary = embedding->shape[0];
  if (config.vocabulary < 1 || config.vocabulary > kMaxVocabulary)
    throw Error(Code::data_corrupt, "tensor 'token_embd.weight' has " + std::to_string(config.vocabulary) + " rows").at(c.path());
  return config;
}

RopeFrequencies rope_frequencies(const Checkpoint& c, const Config& config, std::int64_t context_length) {
  if (context_length == 0) context_length = config.context_length;
  const double base = positive(c, "rope.freq_base", 10000.0);
  const std::int64_t dim = config.rope_dim;
  const auto pairs = static_cast<std::size_t>(dim / 2);
  const std::string scaling =
      c.text("rope.scaling.type").value_or(c.number("rope.scaling.factor") || c.number("rope.scale_linear") ? "linear" : "none");
  const double factor = scaling == "none" ? 1.0 : positive(c, "rope.scaling.factor", positive(c, "rope.scale_linear", 1.0));
  const auto original = static_cast<double>(optional(c, "rope.scaling.original_context_length", config.context_length, kMaxContext));

  RopeFrequencies rope;
  std::vector<double> radians = base_radians(base, dim);

  if (scaling == "linear") {
    for (double& r : radians) r /= factor;
  } else if (scaling == "yarn") {
    // Slow pairs (few turns within the trained context) are interpolated, fast ones kept, those between blended.
    const auto pair_of_turns = [&](double turns) {
      return double(dim) * std::log(original / (turns * 2 * std::numbers::pi)) / (2 * std::log(base));
    };
    const double low = std::max(0.0, std::floor(pair_of_turns(positive(c, "rope.scaling.yarn_beta_fast", 32.0))));
    const double high = std::min(double(dim) - 1, std::ceil(pair_of_turns(positive(c, "rope.scaling.yarn_beta_slow", 1.0))));
    const double extrapolate = c.number("rope.scaling.yarn_ext_factor").value_or(1.0);
    for (std::size_t i = 0; i < pairs; ++i) {
      const double keep = (1.0 - std::clamp((double(i) - low) / std::max(0.001, high - low), 0.0, 1.0)) * extrapolate;
      radians[i] = radians[i] / factor * (1.0 - keep) + radians[i] * keep;
    }
    rope.magnitude = 1.0 + 0.1 * std::log(factor);
  } else if (scaling != "none" && scaling != "longrope" && scaling != "llama3") {
    throw Error(Code::unsupported, "rope scaling '" + scaling + "' is not supported").at(c.path());
  }
  rope.magnitude *= positive(c, "rope.scaling.attn_factor", 1.0);

  const char* tensor = scaling != "longrope"               ? "rope_freqs.weight"
                       : double(context_length) > original ? "rope_factors_long.weight"
                                                           : "rope_factors_short.weight";
  const std::vector<float> divide = factors(c, tensor, pairs);
  for (std::size_t i = 0; i < pairs; ++i) rope.radians.push_back(static_cast<float>(divide.empty() ? radians[i] : radians[i] / divide[i]));
  return checked(c, std::move(rope));
}

RopeFrequencies plain_rope_frequencies(const Checkpoint& c, const Config& config, double base) {
  const std::vector<double> radians = base_radians(base, config.rope_dim);
  return checked(c, {.radians = {radians.begin(), radians.end()}});
}

}  // namespace quern::models
