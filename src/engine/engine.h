#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/thread_pool.h"
#include "engine/request.h"
#include "runtime/language_model.h"
#include "tokenizers/tokenizer.h"

namespace quern::engine {

/// A folder where blocks of the cache are kept for the next start, and for other processes that serve the same model.
struct DiskCacheOptions {
  std::string folder = {};                               // made when missing; empty: none
  std::int64_t max_bytes = std::int64_t{8} << 30;        // of all files in it; those unused for longest go
  std::function<void(std::string_view note)> note = {};  // hears in a sentence when the disk fails; may be empty
};

/// A smaller model of the same vocabulary that guesses the next tokens, so that a step of the model can verify several.
struct DraftOptions {
  std::shared_ptr<const runtime::LanguageModel> model = {};  // null: none
  /// Guesses of each request in a step, at most 8; 0: as many as pay by what they cost and how often they are right, perhaps none.
  std::int64_t tokens = 0;
  std::function<void(std::string_view note)> note = {};  // hears in a sentence when it failed and is used no more; may be empty
};

struct EngineOptions {
  std::int64_t context_length = 0;  // tokens a sequence may have, 0: what the model was trained for
  std::int64_t max_sequences = 8;   // requests running at once; more wait
  /// Tokens in the cache over all sequences, 0: context_length (one full sequence, shared by all). Of layers that see a window only, fewer.
  std::int64_t cache_tokens = 0;
  std::int64_t step_tokens = 512;  // tokens computed in one step: one of every running request first, then pieces of prompts (at least one)
  /// How long a step may take while requests wait for their next token, in milliseconds: pieces of prompts are cut to what is left of it.
  /// 0: two and a half times what the waiting requests alone would take, so that a long prompt never makes them wait long.
  double max_itl_ms = 0;
  bool prefix_cache = true;  // keep what ended requests computed, while nobody needs the room, for those that begin alike
  /// Guess the next tokens from what a request's text says already, and with prefix_cache from what others of the same partition were
  /// answered, and verify several in one step where that pays. Changes no answer.
  bool prompt_lookup = true;
  DraftOptions draft = {};  // changes no answer either
  DiskCacheOptions disk_cache = {};
  unsigned max_workers = ~0u;        // of the pool
  plan::Profile* profile = nullptr;  // written while requests run, if there is one; must live longer than the engine
};

/// Bytes of keys and values that an engine with these options has when its cache is full, its draft model's included.
std::int64_t cache_bytes(const runtime::LanguageModel& model, const EngineOptions& options);

/// What a submitted request gives back: events, one after the other. Safe to use from one thread while the engine runs; dropping it
/// cancels.
class Stream {
 public:
  virtual ~Stream() = default;
  /// Waits for the next event; nothing after the one that ended the request.
  virtual std::optional<Event> next() = 0;
  /// The next event if it is there, else nothing: for one thread that reads many streams.
  virtual std::optional<Event> poll() = 0;
  /// `ready` is called when an event has come, and at once if one is there. It runs on the engine's thread, so it must be brief, must not
  /// throw and must not touch the stream; never again once the stream is gone.
  virtual void notify(std::function<void()> ready) = 0;
  /// The request ends at the next step with FinishReason::cancelled. From any thread, and from a signal handler's flag-polling thread.
  virtual void cancel() = 0;
};

/// Runs many requests on one language model: a scheduler thread that batches them step by step (decode rows first, then prompt pieces,
/// within a token budget), over one paged cache. A request's tokens and log-probabilities do not depend on what else runs, on how its
/// prompt was cut, or on the number of workers. Destroying the engine cancels what runs.
class Engine {
 public:
  /// Errors: invalid_argument (a limit out of range, a folder that cannot be used, a draft model of another vocabulary: names the first
  /// token that differs), resource_exhausted.
  Engine(std::shared_ptr<const runtime::LanguageModel> model, std::shared_ptr<const tokenizers::Tokenizer> tokenizer, ThreadPool& pool,
         const EngineOptions& options = {});
  ~Engine();

  /// Queues a request. Errors: invalid_argument (an empty prompt, an id outside the vocabulary, a parameter outside its range, a prompt
  /// that leaves no room in the context: names both numbers).
  std::unique_ptr<Stream> submit(Request request);

  /// What it holds and has done, for metrics and tests.
  struct Statistics {
    std::int64_t running = 0, waiting = 0;
    std::int64_t cache_blocks = 0, cache_blocks_used = 0;                            // used: by requests that run
    std::int64_t cache_blocks_kept = 0;                                              // by nobody, for those that will begin alike
    std::int64_t window_blocks = 0, window_blocks_used = 0, window_blocks_kept = 0;  // the same of layers that see a window only; 0: none
    std::int64_t cached_prompt_tokens = 0;                  // of prompts, found in the cache; the others are prompt_tokens
    std::int64_t guessed_tokens = 0, accepted_guesses = 0;  // of prompt lookup and of the draft model
    std::int64_t drafted_tokens = 0, accepted_drafts = 0;   // of the draft model alone
    std::int64_t disk_blocks_read = 0, disk_blocks_written = 0, disk_errors = 0;  // of the cache on disk
    std::int64_t disk_bytes = 0;                                                  // in its folder, of all processes
    std::int64_t steps = 0, prompt_tokens = 0, generated_tokens = 0, preemptions = 0;
  };
  Statistics statistics() const;
  /// A random number to make Request::cache_partition of names with, so that nobody can choose a name that meets another's. The same at
  /// every start that keeps its cache in the same folder.
  std::uint64_t partition_seed() const;
  /// Whether it goes on, for a watchdog: waits for nothing, not even for the engine's own lock.
  struct Heartbeat {
    std::int64_t steps = 0;   // begun
    double step_seconds = 0;  // that the present step has taken so far; 0: there is none
    std::int64_t tokens = 0;  // of the present step
  };
  Heartbeat heartbeat() const;
  /// Tokens a sequence may have, prompt and answer: what the options say (or else the model), or the cache if that is smaller.
  std::int64_t context_length() const;
  /// Numbers in an embedding.
  std::int64_t embedding_width() const;

 private:
  class Scheduler;
  std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace quern::engine
