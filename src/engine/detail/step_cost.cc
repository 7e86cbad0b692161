#include "engine/detail/step_cost.h"

#include <algorithm>
#include <limits>

namespace quern::engine::detail {
namespace {

constexpr std::int64_t kEnough = 8;  // steps, before the line is believed
constexpr double kForget = 0.99;     // an observation counts half after 70 more
constexpr double kUnknown = 1e2;     // variance of a weight that nothing is known of
constexpr double kHiccup = 3;        // a step so many times longer than predicted was put aside by the system …
constexpr int kHiccupsInARow = 3;    // … unless all are

}  // namespace

StepCost::StepCost() {
  for (std::size_t i = 0; i < kCount; ++i) {
    covariance_[i].fill(0);
    covariance_[i][i] = kUnknown;
  }
}

/// Scaled to about 1 for a step of some size, so that one variance suits all.
StepCost::Vector StepCost::features(const StepWork& work) {
  return {1,
          double(work.rows) / 8,
          double(work.row_keys) / 8192,
          work.prompt_tokens > 0 ? 1.0 : 0.0,
          double(work.prompt_tokens) / 128,
          work.prompt_keys / (128 * 1024.0)};
}

void StepCost::observe(const StepWork& work, double seconds) {
  const double expected = predict(work);
  if (expected > 0 && seconds > kHiccup * expected && ++hiccups_ < kHiccupsInARow) return;
  hiccups_ = 0;
  // Errors count as shares of a step's time: a long step is not more exact than a short one.
  const double scale = 1 / std::max({expected, seconds, 1e-6});
  Vector x = features(work);
  for (double& feature : x) feature *= scale;
  seconds *= scale;
  Vector gain{};  // covariance · x
  double spread = kForget, error = seconds;
  for (std::size_t i = 0; i < kCount; ++i) {
    for (std::size_t j = 0; j < kCount; ++j) gain[i] += covariance_[i][j] * x[j];
    spread += x[i] * gain[i];
    error -= weights_[i] * x[i];
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    weights_[i] += gain[i] / spread * error;
    for (std::size_t j = 0; j < kCount; ++j) covariance_[i][j] = (covariance_[i][j] - gain[i] * gain[j] / spread) / kForget;
  }
  // What no step has is forgotten for ever, and its variance must not grow without end.
  for (std::size_t i = 0; i < kCount; ++i) covariance_[i][i] = std::min(covariance_[i][i], kUnknown);
  ++observed_;
}

double StepCost::predict(const StepWork& work) const {
  if (observed_ < kEnough) return 0;
  const Vector x = features(work);
  double sum = 0;
  for (std::size_t i = 0; i < kCount; ++i) sum += std::max(weights_[i], 0.0) * x[i];  // nothing makes a step shorter
  return sum;
}

std::int64_t StepCost::affordable(const StepWork& work, double keys_each, double seconds) const {
  constexpr std::int64_t kMany = std::numeric_limits<std::int32_t>::max();
  const auto with = [&](std::int64_t tokens) {
    StepWork more = work;
    more.prompt_tokens += tokens;
    more.prompt_keys += double(tokens) * keys_each;
    return predict(more);
  };
  constexpr std::int64_t kProbe = 129;
  const double each = (with(kProbe) - with(1)) / (kProbe - 1);
  if (each <= 0) return kMany;
  return static_cast<std::int64_t>(std::clamp((seconds - with(1)) / each + 1, 0.0, double(kMany)));
}

}  // namespace quern::engine::detail
