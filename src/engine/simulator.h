#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "engine/engine.h"

namespace quern::engine {

/// How long steps take on a machine, as `quern bench --cost` measures it.
struct StepTimes {
  /// A number and seconds, ascending; between two the line, above the last its slope.
  using Points = std::vector<std::pair<std::int64_t, double>>;
  Points tokens;          // of a step of so many tokens in all
  Points rows = {};       // what so many of them take more whose logits are wanted, each in a sequence of its own; empty: nothing
  Points keys = {};       // of a token alone in its sequence that sees so many; empty: nothing
  double prompt_key = 0;  // seconds a key that one of several tokens of a sequence sees
  double new_sizes = 0;   // seconds more of a step whose numbers of tokens and rows the latest have not had
  // Beside the steps. The engine hears of a request so much later than it was sent, one after the other, and does without that much while
  // it is busy; a token that is drawn and sent delays everything.
  double request = 0, token = 0;

  double of_tokens(std::int64_t count) const;
  double of_rows(std::int64_t count) const;
  double of_keys(std::int64_t count) const;
};

/// A request of a trace. Where two begin with the same block ids, their prompts begin alike.
struct TracedRequest {
  double arrival = 0;  // seconds
  std::int64_t prompt_tokens = 1, answer_tokens = 1;
  std::size_t first_block = 0, blocks = 0;  // of Trace::blocks
  std::int64_t session = -1;                // sent no earlier than the one before it of the same session has ended; below 0: of none
};
struct Trace {
  std::vector<TracedRequest> requests;  // by arrival
  std::vector<std::uint64_t> blocks = {};
  std::int64_t block_tokens = 512;
};

struct SimulationOptions {
  EngineOptions engine;
  std::int64_t context_tokens = 32768;  // where engine.context_length is 0
  std::int64_t kv_block_tokens = 16;
  std::int64_t window = 0;   // tokens that some layers see while others see all, which have a cache of their own; 0: there are none
  double load = 1;           // arrivals come so many times faster
  std::int64_t clients = 0;  // above 0: so many, each with one request at a time, whatever arrivals and sessions are
  std::function<bool(std::int64_t done)> progress = {};  // called now and then with requests that ended; false ends it
};

/// Quantiles of very many durations, to 1 %.
class Durations {
 public:
  void add(double seconds);
  std::int64_t count() const { return count_; }
  double largest() const { return largest_; }
  /// 0 when there are none.
  double quantile(double share) const;

 private:
  std::vector<std::int64_t> bins_;
  std::int64_t count_ = 0;
  double largest_ = 0;
};

struct SimulationResult {
  std::int64_t requests = 0, failed = 0, generated_tokens = 0, prompt_tokens = 0, cached_tokens = 0, steps = 0, most_waiting = 0;
  double seconds = 0;            // simulated
  double scheduler_seconds = 0;  // real time of the scheduler's bookkeeping, all steps together
  double slowest_step = 0;       // of them
  Durations first_token, gap, whole;
};

/// Replays a trace through the engine's own scheduler and cache, with these times in place of the computation. Deterministic but for
/// scheduler_seconds. Errors: invalid_argument.
SimulationResult simulate(const Trace& trace, const StepTimes& times, const SimulationOptions& options);

}  // namespace quern::engine
