#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "sampling/parameters.h"

namespace quern::engine {

/// Which tokens' final states make the embedding of a text: the last one's, the first one's, or the mean of all.
enum class Pooling : std::uint8_t { none, last, first, mean };

/// What a caller asks of a language model.
struct Request {
  std::vector<std::int32_t> prompt = {};  // token ids, at least one; with the prompt's own special tokens, nothing is added
  sampling::Parameters sampling = {};
  std::int64_t max_tokens = -1;             // tokens generated at most; -1: to the end of the context
  std::int64_t min_tokens = 0;              // so many are generated before a token may end the answer (stop texts still do)
  std::vector<std::string> stop = {};       // texts that end the answer and are not part of it
  std::vector<std::int32_t> stop_ids = {};  // tokens that end the answer, beside the model's own
  bool ignore_end = false;                  // go on past the model's end tokens (for measuring)
  /// Requests reuse what the cache knows of others with the same partition only: for tenants who must not learn, by the time an answer
  /// takes, what others asked.
  std::uint64_t cache_partition = 0;
  /// What the cache then knows of the request stays for so many seconds after its answer, before all that is not kept so; up to half of the
  /// cache. For conversations that go on, and tools that take their time.
  double keep_seconds = 0;
  /// Who asks: tenants who wait get equal shares of what the engine can do, see detail/waiting_room.h. Among a tenant's requests the lower
  /// priority is admitted first, then the earlier deadline. A request that is still waiting at its deadline fails (Code::cancelled).
  std::uint64_t tenant = 0;
  std::int64_t priority = 0;
  std::optional<std::chrono::steady_clock::time_point> deadline = {};
  std::int32_t logprobs = -1;  // -1: none; n ≥ 0: the chosen token's log-probability and those of the n most probable
  /// The same of the prompt's own tokens, from the second on, each given those before it. With max_tokens 0 that is all that is computed.
  std::int32_t prompt_logprobs = -1;
  /// Above 0: beam search over the most probable answers, see detail/beam_search.h, instead of one that is drawn. All come with the last
  /// event. Of sampling and stopping, the end tokens, stop_ids and max_tokens count; the rest must say nothing.
  std::int64_t beam_width = 0;
  double length_penalty = 1;
  /// Other than none: an embedding of the prompt is wanted and no answer, and all of sampling and of stopping is ignored.
  Pooling pooling = Pooling::none;
};

enum class FinishReason { none, stop, length, cancelled, error };

struct TokenLogprob {
  std::int32_t id = 0;
  float logprob = 0;      // natural logarithm, of the model's own distribution: before penalties and temperature
  std::int32_t rank = 0;  // 1: the most probable; 0: not told. Tokens of prompts have it
};

/// What was read from a prompt.
struct PromptReading {
  std::vector<TokenLogprob> logprobs = {};          // of the second token, the third …
  std::vector<std::vector<TokenLogprob>> top = {};  // the most probable in the place of each
  std::vector<float> embedding = {};                // [width], as the model has it: see embedding.h
};

/// One of the answers that a beam search found.
struct BeamAnswer {
  std::vector<TokenLogprob> tokens = {};  // an end token included
  std::string text = {};
  double score = 0;  // the mean log-probability of its text when the length penalty is 1, see detail/beam_search.h
  FinishReason finish = FinishReason::none;
};

/// One thing that happened to a request, in order: a token (with the text that became complete by it, possibly none), and at last exactly
/// one event with a finish reason. A token that ends the answer is among the last event's ids; it has no text.
struct Event {
  std::vector<std::int32_t> ids;               // tokens generated since the last event; several when text was held back for a stop string
  std::string text;                            // complete UTF-8, never part of a stop string
  std::vector<TokenLogprob> logprobs;          // one an id, when asked for
  std::vector<std::vector<TokenLogprob>> top;  // the most probable of each id, when asked for
  std::shared_ptr<std::vector<BeamAnswer>> beams;  // with the last event of a beam search: the best first
  std::shared_ptr<PromptReading> prompt;           // with the first event, when something of the prompt was asked for
  FinishReason finish = FinishReason::none;
  std::int32_t guessed_tokens = 0;    // with the last event: tokens of the answer that were guessed …
  std::string stop_text;              // which stop string ended it, when one did
  std::string error;                  // why, when finish is error …
  Code error_code = Code::internal;   // … and what kind of failure
  std::int32_t accepted_guesses = 0;  // … and how many of these rightly; here, since an event of 256 bytes has half a node of its queue
  std::int64_t prompt_tokens = 0, generated_tokens = 0;
  std::int64_t cached_tokens = 0;                   // of the prompt, those whose keys and values the cache had
  double prompt_seconds = 0, generate_seconds = 0;  // of the last event: from admission to the first token, from there to the end
};

}  // namespace quern::engine
