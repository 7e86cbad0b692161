#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace quern::sampling {

/// A token that may be chosen.
struct Candidate {
  float logit;
  std::int32_t id;
};

/// The order of candidates: the more probable first, ties by id.
inline bool more_probable(const Candidate& a, const Candidate& b) { return a.logit > b.logit || (a.logit == b.logit && a.id < b.id); }

/// e^x for x <= 0, relative error below 2e-7, exactly 1 at 0 and 0 below -87. The same on every machine, and loops over it vectorise.
float exp_nonpositive(float x);

/// One row of logits seen through the maxima of its blocks, so that looking for what lies above a threshold touches few of them. Owns
/// memory for one vocabulary and no row; nothing but the constructor allocates.
class Row {
 public:
  static constexpr std::size_t kBlock = 64;

  explicit Row(std::size_t vocabulary);

  /// Looks at a row, which must stay until the next look. Errors: data_corrupt when a value is NaN or +inf (a model's weights are damaged,
  /// or its arithmetic overflowed).
  void look(std::span<const float> logits);

  float max() const { return max_; }
  /// The lowest id of those with the highest logit.
  std::int32_t argmax() const;
  /// Appends, in the order of ids, all candidates with logit >= threshold and > -inf.
  void collect(float threshold, std::vector<Candidate>& out) const;
  /// Appends the k most probable candidates, or all that are not -inf, in no useful order.
  void collect_top(std::size_t k, std::vector<Candidate>& out);
  /// Sum over the row of e^((logit - max) / temperature).
  double sum_exp(float temperature);
  /// The id at which the running sum of the last sum_exp(), in the order of ids, passes `mass`.
  std::int32_t find_mass(double mass) const;

 private:
  std::size_t blocks() const { return (logits_.size() + kBlock - 1) / kBlock; }
  std::span<const float> block(std::size_t b) const { return logits_.subspan(b * kBlock, std::min(kBlock, logits_.size() - b * kBlock)); }

  std::span<const float> logits_;
  float max_ = 0, temperature_ = 1;
  std::vector<float> block_max_, selection_;
  std::vector<double> block_sum_;
};

}  // namespace quern::sampling
