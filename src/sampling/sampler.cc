#include "sampling/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "base/error.h"
#include "sampling/random.h"

namespace quern::sampling {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// Below this the most probable token has all the probability that f32 can tell apart.
constexpr double kGreedyBelow = 1e-6;

void require(bool holds, std::string_view name, double value, std::string_view range) {
  if (!holds) throw Error(Code::invalid_argument, fmt::format("{} is {}; it must be {}", name, value, range));
}

void check(const Parameters& p, std::int64_t vocabulary) {
  require(std::isfinite(p.temperature) && p.temperature >= 0, "temperature", p.temperature, "0 or more");
  require(p.top_p > 0 && p.top_p <= 1, "top_p", p.top_p, "above 0 and at most 1");
  require(p.min_p >= 0 && p.min_p <= 1, "min_p", p.min_p, "between 0 and 1");
  require(std::isfinite(p.repeat_penalty) && p.repeat_penalty > 0, "repeat_penalty", p.repeat_penalty, "above 0");
  require(std::isfinite(p.frequency_penalty), "frequency_penalty", p.frequency_penalty, "a finite number");
  require(std::isfinite(p.presence_penalty), "presence_penalty", p.presence_penalty, "a finite number");
  require(p.penalty_window >= -1, "penalty_window", p.penalty_window, "-1 (all) or more");
  for (const auto& [id, bias] : p.bias) {
    if (id < 0 || id >= vocabulary)
      throw Error(Code::invalid_argument, fmt::format("a bias is given for token {} where the vocabulary has {} tokens", id, vocabulary));
    require(bias < kInfinity, fmt::format("the bias of token {}", id), bias, "finite, or -inf to forbid it");
  }
  const auto known = [&](std::int32_t id, const char* what) {
    if (id < 0 || id >= vocabulary)
      throw Error(Code::invalid_argument, fmt::format("{} has the token {} where the vocabulary has {} tokens", what, id, vocabulary));
  };
  for (const std::int32_t id : p.allowed) known(id, "the list of allowed tokens");
  for (const auto& word : p.bad_words) {
    if (word.empty()) throw Error(Code::invalid_argument, "a bad word has no tokens");
    for (const std::int32_t id : word) known(id, "a bad word");
  }
}

[[noreturn]] void nothing_to_choose(bool by_model) {
  if (by_model)
    throw Error(Code::data_corrupt, "the model gives no token any probability")
        .hint("its weights may be damaged: get the file again and compare its checksum");
  throw Error(Code::invalid_argument, "bias, allowed tokens and bad words forbid every token");
}

}  // namespace

std::uint64_t fresh_seed() {
  // To open the device asks the processor what it is, which takes tens of microseconds in a virtual machine.
  thread_local std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

Workspace::Workspace(std::size_t vocabulary) : row_(vocabulary), changed_row_(vocabulary), counts_(vocabulary) {
  candidates_.reserve(vocabulary);
}

Sampler::Sampler(Parameters parameters, std::int64_t vocabulary) : parameters_(std::move(parameters)) {
  check(parameters_, vocabulary);
  temperature_ = static_cast<float>(std::min(parameters_.temperature, 1e30));
  cut_temperature_ = parameters_.profile == Profile::openai ? temperature_ : 1;
}

bool Sampler::penalises() const {
  const Parameters& p = parameters_;
  return p.penalty_window != 0 && (p.repeat_penalty != 1 || p.frequency_penalty != 0 || p.presence_penalty != 0);
}

void Sampler::forbid(std::span<float> row, std::span<const float> logits, std::span<const std::int32_t> answer) const {
  const auto inside = [&](std::int32_t id) { return static_cast<std::size_t>(id) < row.size(); };
  if (!parameters_.allowed.empty()) {
    std::fill(row.begin(), row.end(), -kInfinity);
    for (const std::int32_t id : parameters_.allowed)
      if (inside(id)) row[static_cast<std::size_t>(id)] = logits[static_cast<std::size_t>(id)];
  }
  for (const std::vector<std::int32_t>& word : parameters_.bad_words) {
    const std::size_t before = word.size() - 1;
    if (before <= answer.size() && inside(word.back()) && std::equal(word.begin(), word.end() - 1, answer.last(before).begin()))
      row[static_cast<std::size_t>(word.back())] = -kInfinity;
  }
}

/// Repetition counts the window; frequency and presence the window or the answer, by the profile.
void Sampler::penalise(std::span<float> row, std::span<const std::int32_t> history, std::span<const std::int32_t> answer,
                       Workspace& w) const {
  const Parameters& p = parameters_;
  if (p.penalty_window >= 0) history = history.last(std::min(history.size(), static_cast<std::size_t>(p.penalty_window)));
  // Calls `change` with each token's logit and count, once.
  const auto each = [&](std::span<const std::int32_t> tokens, auto change) {
    const auto inside = [&](std::int32_t id) { return id >= 0 && static_cast<std::size_t>(id) < row.size(); };
    for (const std::int32_t id : tokens)
      if (inside(id)) ++w.counts_[static_cast<std::size_t>(id)];
    for (const std::int32_t id : tokens) {
      if (!inside(id)) continue;
      std::int32_t& count = w.counts_[static_cast<std::size_t>(id)];
      if (count == 0) continue;  // done already
      float& logit = row[static_cast<std::size_t>(id)];
      logit = static_cast<float>(change(static_cast<double>(logit), count));
      count = 0;
    }
  };
  if (p.repeat_penalty != 1) each(history, [&](double l, std::int32_t) { return l <= 0 ? l * p.repeat_penalty : l / p.repeat_penalty; });
  if (p.frequency_penalty != 0 || p.presence_penalty != 0)
    each(p.profile == Profile::openai ? answer : history,
         [&](double l, std::int32_t count) { return l - count * p.frequency_penalty - p.presence_penalty; });
}

std::span<const float> Sampler::changed(std::span<const float> logits, std::span<const std::int32_t> history, std::size_t prompt,
                                        Workspace& w) const {
  const Parameters& p = parameters_;
  if (p.bias.empty() && p.allowed.empty() && p.bad_words.empty() && !penalises()) return logits;
  std::copy(logits.begin(), logits.end(), w.changed_row_.begin());
  const std::span<float> row = std::span(w.changed_row_).first(logits.size());
  const std::span<const std::int32_t> answer = history.subspan(std::min(prompt, history.size()));
  forbid(row, logits, answer);
  for (const auto& [id, bias] : p.bias)
    if (static_cast<std::size_t>(id) < row.size()) row[static_cast<std::size_t>(id)] += bias;
  if (penalises()) penalise(row, history, answer, w);
  return row;
}

double Sampler::mass_of(const std::vector<Candidate>& candidates, float max) const {
  double mass = 0;
  for (const Candidate& c : candidates) mass += exp_nonpositive((c.logit - max) / cut_temperature_);
  return mass;
}

/// Keeps the shortest run of most probable candidates with at least top_p of the mass `sum`. Halves the part in question each time, so that
/// the whole costs about two looks at each candidate, and nothing is sorted.
void Sampler::cut_mass(std::vector<Candidate>& candidates, double sum, float max) const {
  double needed = parameters_.top_p * sum;
  auto low = candidates.begin(), high = candidates.end();  // the cut lies in [low, high]
  while (high - low > 1) {
    const auto middle = low + (high - low) / 2;
    std::nth_element(low, middle, high, more_probable);
    double mass = 0;
    for (auto it = low; it != middle; ++it) mass += exp_nonpositive((it->logit - max) / cut_temperature_);
    if (mass >= needed) {
      high = middle;
    } else {
      needed -= mass;
      low = middle;
    }
  }
  candidates.erase(high, candidates.end());
}

std::int32_t Sampler::draw(const std::vector<Candidate>& candidates, float max, double u) const {
  double sum = 0;
  for (const Candidate& c : candidates) sum += exp_nonpositive((c.logit - max) / temperature_);
  double left = u * sum;
  std::int32_t chosen = candidates.front().id;
  for (const Candidate& c : candidates) {
    const double weight = exp_nonpositive((c.logit - max) / temperature_);
    if (weight == 0) continue;
    chosen = c.id;
    if (left < weight) break;
    left -= weight;
  }
  return chosen;
}

std::int32_t Sampler::sample(std::span<const float> logits, std::span<const std::int32_t> history, Workspace& w, std::size_t prompt) const {
  QUERN_ASSERT(!logits.empty() && logits.size() <= w.vocabulary());
  const Parameters& p = parameters_;
  const std::span<const float> row = changed(logits, history, prompt, w);
  w.row_.look(row);
  const float max = w.row_.max();
  if (max == -kInfinity) nothing_to_choose(*std::max_element(logits.begin(), logits.end()) == -kInfinity);
  if (p.temperature < kGreedyBelow || p.top_k == 1) return w.row_.argmax();

  const double u = uniform(p.seed.value_or(0), history.size(), Purpose::token);
  const bool cut_top = p.top_k > 0 && static_cast<std::size_t>(p.top_k) < row.size();
  const float lowest = p.min_p > 0 ? max + cut_temperature_ * static_cast<float>(std::log(p.min_p)) : -kInfinity;
  if (!cut_top && p.top_p >= 1 && p.min_p == 0) return w.row_.find_mass(u * w.row_.sum_exp(temperature_));

  std::vector<Candidate>& candidates = w.candidates_;
  candidates.clear();
  const bool min_first = p.profile == Profile::openai && p.min_p > 0;  // the mass of top-p is then of what min-p left
  const auto cut_low = [&] { std::erase_if(candidates, [&](const Candidate& c) { return c.logit < lowest; }); };
  if (cut_top) {
    w.row_.collect_top(static_cast<std::size_t>(p.top_k), candidates);
  } else if (p.top_p >= 1 || min_first) {
    w.row_.collect(lowest, candidates);
  } else {
    // Of the whole vocabulary: lower the threshold until what lies above it has the mass.
    const double sum = w.row_.sum_exp(cut_temperature_);
    for (float below = 2;; below *= 2) {
      candidates.clear();
      w.row_.collect(below < 128 ? max - below * cut_temperature_ : -kInfinity, candidates);
      if (below >= 128 || mass_of(candidates, max) >= p.top_p * sum) break;
    }
    cut_mass(candidates, sum, max);
  }
  if (min_first) cut_low();
  if ((cut_top || min_first) && p.top_p < 1) cut_mass(candidates, mass_of(candidates, max), max);
  if (p.min_p > 0) cut_low();
  return draw(candidates, max, u);
}

LogProbabilities::LogProbabilities(std::span<const float> logits, Workspace& workspace) : logits_(logits), workspace_(workspace) {
  Row& row = workspace_.row_;
  row.look(logits);
  if (row.max() == -kInfinity) nothing_to_choose(true);
  log_sum_ = static_cast<double>(row.max()) + std::log(row.sum_exp(1));
}

std::int32_t LogProbabilities::rank(std::int32_t id) const {
  const float least = logits_[static_cast<std::size_t>(id)];
  return static_cast<std::int32_t>(std::count_if(logits_.begin(), logits_.end(), [&](float x) { return x >= least; }));
}

std::span<const Candidate> LogProbabilities::top_candidates(std::size_t n) const {
  std::vector<Candidate>& candidates = workspace_.candidates_;
  candidates.clear();
  if (n == 0) return {};
  workspace_.row_.collect_top(n, candidates);
  std::sort(candidates.begin(), candidates.end(), more_probable);
  return candidates;
}

}  // namespace quern::sampling
