#pragma once

#include <array>
#include <cstdint>

namespace quern::engine::detail {

/// What a step computes, as far as its time depends on it.
struct StepWork {
  std::int64_t rows = 0;      // of requests that wait for one token each
  std::int64_t row_keys = 0;  // keys that these see, in all
  std::int64_t prompt_tokens = 0;
  double prompt_keys = 0;  // keys that these see, in all
};

/// How long a step will take, learned from those that were: a straight line in the numbers above, and whether there is any prompt (a step
/// of many tokens unpacks all weights once), by recursive least squares that forget what is older than some hundred steps. Knows no clock.
class StepCost {
 public:
  StepCost();
  /// A step of this work took so long, in seconds.
  void observe(const StepWork& work, double seconds);
  /// In seconds; 0 while too little is known.
  double predict(const StepWork& work) const;
  /// How many prompt tokens, each of which sees about `keys_each` keys, may join `work` for the step to take at most `seconds`. Never
  /// below 0; a large number while too little is known.
  std::int64_t affordable(const StepWork& work, double keys_each, double seconds) const;

 private:
  static constexpr std::size_t kCount = 6;
  using Vector = std::array<double, kCount>;
  static Vector features(const StepWork& work);

  Vector weights_{};                       // seconds a feature
  std::array<Vector, kCount> covariance_;  // of the weights, up to a factor
  std::int64_t observed_ = 0;
  int hiccups_ = 0;  // in a row
};

}  // namespace quern::engine::detail
