#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/request.h"

namespace quern::engine::detail {

/// Which beams live on: beam search as vLLM does it, without anything of a model. Each step, every live beam offers its most probable next
/// tokens; those that end an answer complete one, and of the others the `width` most probable texts live on. When no live beam can become
/// better than the `width` best that are complete, or the answer may have no more tokens, the best of all are the result. A text's score is
/// the sum of its log-probabilities, divided by its length (prompt included, end token not) to the power of the length penalty.
class BeamSearch {
 public:
  struct Options {
    std::int64_t width = 1;
    std::int64_t prompt_tokens = 0, most_tokens = 0;  // of the answer
    double length_penalty = 1;
  };
  struct Offer {
    TokenLogprob token;
    bool ends = false;
  };
  /// A live beam of the next step: which one of this step it goes on, by which token.
  struct Step {
    std::size_t parent;
    std::int32_t id;
  };

  explicit BeamSearch(const Options& options);

  /// Tokens that each live beam should offer, the most probable first.
  std::int64_t offers() const { return 2 * options_.width; }
  std::size_t live() const { return live_.size(); }
  /// Takes an offer list of each live beam, in their order. The beams of the next step, the best first; none when the search is over.
  std::span<const Step> advance(std::span<const std::vector<Offer>> offers);
  /// The best, at most `width`, without text; `ended`: an end token is their last.
  struct Result {
    std::vector<TokenLogprob> tokens;
    double score;
    bool ended;
  };
  std::vector<Result> results() const;

 private:
  struct Beam {
    std::vector<TokenLogprob> tokens;
    double sum = 0;
  };
  void keep(std::vector<Result>& best, Result result) const;
  double score(double sum, std::int64_t answer_tokens) const;
  bool decided() const;

  Options options_;
  std::int64_t steps_ = 0;
  std::vector<Beam> live_;
  std::vector<Result> complete_;  // the best, at most `width`
  std::vector<Step> next_;
};

}  // namespace quern::engine::detail
