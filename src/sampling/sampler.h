#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sampling/parameters.h"
#include "sampling/row.h"

namespace quern::sampling {

/// Memory for sampling over one vocabulary, shared by all samplers of a thread.
class Workspace {
 public:
  explicit Workspace(std::size_t vocabulary);
  std::size_t vocabulary() const { return counts_.size(); }

 private:
  friend class Sampler;
  friend class LogProbabilities;
  Row row_;
  std::vector<float> changed_row_;
  std::vector<std::int32_t> counts_;  // by id; all 0 between calls
  std::vector<Candidate> candidates_;
};

/// Chooses the next token by one request's parameters. Holds no state: the same row and history give the same token, whenever and wherever.
class Sampler {
 public:
  /// Errors: invalid_argument, naming the parameter, its value and its range.
  Sampler(Parameters parameters, std::int64_t vocabulary);

  /// `logits`: f32 [vocabulary or less]. `history`: prompt and answer so far, the first `prompt` of them being the prompt; its length is
  /// the position that is drawn for. Errors: data_corrupt (the model computed NaN, infinity, or nothing but -inf), invalid_argument (every
  /// token is forbidden). Allocates nothing.
  std::int32_t sample(std::span<const float> logits, std::span<const std::int32_t> history, Workspace& workspace,
                      std::size_t prompt = 0) const;

  const Parameters& parameters() const { return parameters_; }

 private:
  bool penalises() const;
  std::span<const float> changed(std::span<const float> logits, std::span<const std::int32_t> history, std::size_t prompt,
                                 Workspace& w) const;
  void forbid(std::span<float> row, std::span<const float> logits, std::span<const std::int32_t> answer) const;
  void penalise(std::span<float> row, std::span<const std::int32_t> history, std::span<const std::int32_t> answer, Workspace& w) const;
  double mass_of(const std::vector<Candidate>& candidates, float max) const;
  void cut_mass(std::vector<Candidate>& candidates, double sum, float max) const;
  std::int32_t draw(const std::vector<Candidate>& candidates, float max, double u) const;

  Parameters parameters_;
  float temperature_;
  float cut_temperature_;  // of the distribution that truncating samplers see
};

/// ln softmax of a row: what the model itself thinks, before bias, penalties and temperature.
class LogProbabilities {
 public:
  /// Looks at a row, which must stay as long as this is asked. Errors: data_corrupt, as sample().
  LogProbabilities(std::span<const float> logits, Workspace& workspace);

  float of(std::int32_t id) const { return value(logits_[static_cast<std::size_t>(id)]); }
  /// 1 for the most probable, ties sharing the later place: how many tokens are at least as probable.
  std::int32_t rank(std::int32_t id) const;
  struct Entry {
    std::int32_t id;
    float logprob;
  };
  /// Calls `each` with the n most probable tokens, the most probable first (ties by id); less when fewer can be chosen.
  template <class Each>
  void top(std::size_t n, Each each) const {
    for (const Candidate& c : top_candidates(n)) each(Entry{c.id, value(c.logit)});
  }

 private:
  float value(float logit) const { return static_cast<float>(static_cast<double>(logit) - log_sum_); }
  std::span<const Candidate> top_candidates(std::size_t n) const;

  std::span<const float> logits_;
  Workspace& workspace_;
  double log_sum_;
};

}  // namespace quern::sampling
