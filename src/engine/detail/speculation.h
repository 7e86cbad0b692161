#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/detail/drafter.h"
#include "engine/detail/past_answers.h"
#include "engine/detail/sequence.h"
#include "engine/detail/step_cost.h"
#include "sampling/sampler.h"

namespace quern::engine::detail {

/// Decides who guesses next tokens, and how many, for all sequences of a step that wait for their next one: a sequence's own text and past
/// answers where they say how it may go on and were right lately, else the drafter, if there is one. What a guess costs and how often it is
/// right are learned, and there is none that does not promise more tokens for its time than the step brings without it.
///
/// What a lookup would say is compared with what is drawn at every step, guessed or not: it is known without trying when it is worth it.
/// Where a text went on in two ways and it pays, both are verified: the second from a row of its own, which has the last token once more.
///
/// The drafter keeps an account besides: what it took, what its right guesses saved, and a small share of all time as its allowance. It
/// rests while it owes; so one that is misjudged costs no more than the allowance. What has been saved up it may spend on trying again.
class Speculation {
 public:
  struct Limits {
    std::int64_t most_guesses = 8;  // of a sequence in a step
    bool lookup = true;             // guesses may be a sequence's own text …
    bool past = true;               // … and what others of its cache partition were answered
    bool timed = true;              // false: what is guessed must not depend on what steps took
    std::int64_t draft_tokens = 0;  // above 0: so many of each sequence, always
  };

  explicit Speculation(const Limits& limits) : limits_(limits) {}

  /// `note` hears in a sentence when the drafter failed too often and is asked no more; may be empty.
  void draft_with(std::unique_ptr<Drafter> drafter, std::function<void(std::string_view)> note);

  /// Fills Sequence::guesses and other_guesses, together fewer than most_guesses where both have some, of each that waits for one token.
  /// `work` is the step without guesses.
  void guess(std::span<Sequence* const> waiting, const StepWork& work, const StepCost& cost, sampling::Workspace& workspace);
  /// The token at `depth` behind the sequence's text was drawn; those before it were as guessed.
  void learn(Sequence& sequence, std::size_t depth, std::int32_t id);
  /// The sequence's answer is complete.
  void ended(const Sequence& sequence);

 private:
  void look_up(Sequence& sequence, const StepWork& work, const StepCost& cost);
  void draft(std::span<Sequence* const> waiting, const StepWork& work, const StepCost& cost, sampling::Workspace& workspace);
  struct Plan {
    std::int64_t most = 0;
    double gain = 0;     // seconds that a step saves
    double seconds = 0;  // that it takes more
  };
  Plan plan(std::span<const Drafter::Wish> wishes, const StepWork& work, const StepCost& cost, std::optional<double> trust = {}) const;
  double step_seconds(const StepWork& work, const StepCost& cost) const;
  double draft_seconds(const StepWork& work, const StepCost& cost) const;
  bool worth_reading(const Sequence& sequence, double gain, const StepWork& work, const StepCost& cost);
  void run(sampling::Workspace& workspace);

  const Limits limits_;
  PastAnswers past_;
  LookupTrust lookup_trust_;          // over all sequences: where new ones begin
  std::unique_ptr<Drafter> drafter_;  // null: none
  std::function<void(std::string_view)> note_;
  std::vector<Drafter::Wish> ready_, behind_, wishes_;  // ready: has read all but a few tokens
  double trust_ = 0.7;                                  // how often the drafter was right, over all sequences: where new ones begin
  double balance_ = 0;                                  // of the account, in seconds
  double saved_ = 0;                                    // seconds that right guesses saved, in all
  double alone_ = 0;                                    // what steps took without guesses, in all
  double invested_ = 0;                                 // what reading took, in all
  double token_ = 0;                                    // seconds a token of the step without guesses
  int trying_ = 0;                                      // steps for which a drafter that does not pay is asked all the same
  int failed_ = 0;                                      // times in a row
};

}  // namespace quern::engine::detail
