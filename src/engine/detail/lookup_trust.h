#pragma once

#include <array>
#include <cstdint>

#include "engine/detail/prompt_lookup.h"

namespace quern::engine::detail {

/// How often what followed a place in a text came again, by how long an end of the text stood there.
class LookupTrust {
 public:
  /// Of the token at `depth` behind the place, if those before it came: the match is so much longer then.
  double first(const PromptLookup::Place& place, std::int64_t depth) const { return first_[class_of(place, depth)]; }
  /// Of the place that goes on otherwise, if the first guess is wrong.
  double other(const PromptLookup::Place& place) const { return other_[class_of(place, 0)]; }

  void learn_first(const PromptLookup::Place& place, std::int64_t depth, bool right, double weight) {
    learn(first_[class_of(place, depth)], right, weight);
  }
  void learn_other(const PromptLookup::Place& place, bool right, double weight) { learn(other_[class_of(place, 0)], right, weight); }

 private:
  static constexpr std::array<std::int64_t, 7> kFrom = {1, 2, 3, 4, 6, 9, 16};  // tokens, of each class
  using Shares = std::array<double, 2 * kFrom.size()>;                          // those of past answers behind the others

  static std::size_t class_of(const PromptLookup::Place& place, std::int64_t depth) {
    std::size_t i = kFrom.size() - 1;
    while (i > 0 && place.matched + depth < kFrom[i]) --i;
    return place.past ? kFrom.size() + i : i;
  }
  static void learn(double& share, bool right, double weight) { share += weight * ((right ? 1 : 0) - share); }

  // Before anything was seen.
  Shares first_ = {0.15, 0.3, 0.5, 0.6, 0.7, 0.8, 0.85, 0.05, 0.1, 0.3, 0.5, 0.6, 0.7, 0.8};
  Shares other_ = {0.05, 0.1, 0.2, 0.2, 0.2, 0.2, 0.2, 0.05, 0.1, 0.2, 0.2, 0.2, 0.2, 0.2};
};

}  // namespace quern::engine::detail
