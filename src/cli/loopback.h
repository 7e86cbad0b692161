#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/language_model.h"

namespace quern::cli {

/// A server of a model on the loopback address, as `quern serve` has it, and clients that do next to nothing with what they get: to
/// measure what serving takes. Times are empty when it gave no answers.
class Loopback {
 public:
  /// For at most so many answers at once. Errors: those of engine::TextModel, engine::Engine and http::Server.
  Loopback(const std::shared_ptr<const runtime::LanguageModel>& model, std::int64_t streams);
  ~Loopback();

  static constexpr std::int64_t kTimes = 48;
  /// Of the prompts below that get answers.
  std::int64_t prompt_tokens() const;
  /// Seconds from one token of an answer to the next, while so many answers are being sent: kTimes of them from the beginning.
  std::vector<double> times_between_tokens(std::int64_t streams);
  /// Seconds from connecting to the whole answer, of requests of some hundred words for which nothing is computed.
  std::vector<double> times_of_requests();

 private:
  class Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace quern::cli
