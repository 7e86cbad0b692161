#pragma once

#include <cstdint>
#include <span>

#include "engine/detail/sequence.h"
#include "engine/detail/step_cost.h"
#include "sampling/sampler.h"

namespace quern::engine::detail {

/// Computes guesses of the next tokens of several sequences at once. What is guessed, and whether it is at all, changes no answer, so a
/// drafter may fail, forget and be asked for nothing for as long as it likes.
class Drafter {
 public:
  /// Up to `most` tokens are wanted behind a sequence's last; 0: only what must be read first is read.
  struct Wish {
    Sequence* sequence;
    std::int64_t most;
  };

  virtual ~Drafter() = default;
  /// The longest sequence that it can follow, in tokens, its guesses included.
  virtual std::int64_t context() const = 0;
  /// Tokens of a sequence that it must read before it can guess, the last one among them.
  virtual std::int64_t lag(const Sequence& sequence) const = 0;
  /// How long a small step of this work will take, in seconds. `model`: what steps of the model cost.
  virtual double predict(const StepWork& work, const StepCost& model) const = 0;
  /// Fills Sequence::guesses of each, as far as it comes: who has too much to read, or no room, gets none. Errors: any; then it is as if
  /// nothing was known of these sequences.
  virtual void guess(std::span<const Wish> wishes, sampling::Workspace& workspace) = 0;
};

}  // namespace quern::engine::detail
