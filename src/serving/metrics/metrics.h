#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace quern::metrics {

/// What an engine holds and has done at the moment of a scrape.
struct Snapshot {
  std::int64_t running = 0, waiting = 0;
  std::int64_t cache_blocks = 0, cache_blocks_used = 0, block_tokens = 0;
  std::int64_t window_blocks = 0, window_blocks_used = 0;  // of layers that see a window only; 0: there are none
  std::int64_t steps = 0, generated_tokens = 0, preemptions = 0;
  std::int64_t computed_tokens = 0, cached_tokens = 0;    // of prompts
  std::int64_t guessed_tokens = 0, accepted_guesses = 0;  // of speculation
  std::int64_t drafted_tokens = 0, accepted_drafts = 0;   // of these, by the draft model
  bool on_disk = false;                                   // there is a cache on disk
  std::int64_t disk_blocks_read = 0, disk_blocks_written = 0, disk_errors = 0, disk_bytes = 0;
};

/// One request to the engine that has ended. Times in seconds.
struct Finished {
  std::string_view reason;  // stop, length, abort, error
  std::int64_t prompt_tokens = 0, generated_tokens = 0;
  double total = 0, queue = 0, prefill = 0, decode = 0;
};

/// Counters and histograms of one served model in Prometheus' text form, under vLLM's names and with its buckets, so that dashboards made
/// for it work. Any thread may write and read.
class Metrics {
 public:
  Metrics(const std::string& model, std::int64_t context, std::function<Snapshot()> now);
  ~Metrics();

  void asked(std::int64_t n, std::int64_t max_tokens);  // by a client: choices, and tokens at most (-1: no limit)
  void first_token(double seconds);
  void next_token(double seconds);  // since the one before
  void finished(const Finished& request);
  void http(std::string_view route, std::string_view method, int status, double seconds);

  /// The page of /metrics, text format 0.0.4.
  std::string page() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace quern::metrics
