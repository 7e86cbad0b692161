#include "engine/detail/beam_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace quern::engine::detail {

BeamSearch::BeamSearch(const Options& options) : options_(options), live_(1) {}

double BeamSearch::score(double sum, std::int64_t answer_tokens) const {
  const auto length = static_cast<double>(options_.prompt_tokens + answer_tokens);
  return sum / std::pow(length, options_.length_penalty);
}

/// Whether nothing that is still to come can be among the best: a sum only falls, and no text becomes longer than the longest.
bool BeamSearch::decided() const {
  const auto width = static_cast<std::size_t>(options_.width);
  if (live_.empty() || steps_ >= options_.most_tokens) return true;
  if (options_.length_penalty < 0 || complete_.size() < width) return false;
  const double bound = score(live_.front().sum, options_.most_tokens);
  return std::count_if(complete_.begin(), complete_.end(), [&](const Result& r) { return r.score >= bound; }) >= options_.width;
}

/// Keeps the `width` best, equals in their order of coming.
void BeamSearch::keep(std::vector<Result>& best, Result result) const {
  const auto worse = [](const Result& a, const Result& b) { return a.score > b.score; };
  best.insert(std::upper_bound(best.begin(), best.end(), result, worse), std::move(result));
  if (best.size() > static_cast<std::size_t>(options_.width)) best.pop_back();
}

std::span<const BeamSearch::Step> BeamSearch::advance(std::span<const std::vector<Offer>> offers) {
  struct Candidate {
    double sum;
    std::size_t order;
    Step step;
    TokenLogprob token;
  };
  ++steps_;
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < live_.size(); ++i)
    for (const Offer& offer : offers[i]) {
      const double sum = live_[i].sum + static_cast<double>(offer.token.logprob);
      if (!offer.ends) {
        candidates.push_back({sum, candidates.size(), {i, offer.token.id}, offer.token});
        continue;
      }
      Result done{live_[i].tokens, score(sum, steps_ - 1), true};
      done.tokens.push_back(offer.token);
      keep(complete_, std::move(done));
    }
  const std::size_t kept = std::min(candidates.size(), static_cast<std::size_t>(options_.width));
  std::partial_sort(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(kept), candidates.end(),
                    [](const Candidate& a, const Candidate& b) { return a.sum != b.sum ? a.sum > b.sum : a.order < b.order; });
  candidates.resize(kept);
  std::vector<Beam> next;
  next_.clear();
  for (const Candidate& c : candidates) {
    next_.push_back(c.step);
    next.push_back({live_[c.step.parent].tokens, c.sum});
    next.back().tokens.push_back(c.token);
  }
  live_ = std::move(next);
  if (decided()) next_.clear();
  return next_;
}

std::vector<BeamSearch::Result> BeamSearch::results() const {
  std::vector<Result> best = complete_;
  for (const Beam& beam : live_) keep(best, {beam.tokens, score(beam.sum, steps_), false});
  return best;
}

}  // namespace quern::engine::detail
