#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/detail/answer_text.h"
#include "engine/detail/beam_search.h"
#include "engine/detail/channel.h"
#include "engine/detail/lookup_trust.h"
#include "engine/detail/prompt_lookup.h"
#include "engine/detail/waiting_room.h"
#include "engine/request.h"
#include "kvcache/disk_store.h"
#include "kvcache/prefix_tree.h"
#include "sampling/sampler.h"
#include "tokenizers/tokenizer.h"

namespace quern::engine::detail {

class Sequence;

/// The sequences of one beam search: the one that was submitted, which has the prompt and sends the answer, and others, while it runs.
struct BeamGroup {
  explicit BeamGroup(const BeamSearch::Options& options) : search(options) {}
  BeamSearch search;
  Sequence* leader = nullptr;                               // that was submitted; one of the beams
  std::vector<Sequence*> live = {};                         // by beam
  std::vector<std::int32_t> rows = {};                      // of the block table that are kept for further beams
  std::vector<std::vector<BeamSearch::Offer>> offers = {};  // by beam
  std::size_t offered = 0;                                  // beams that have made theirs in this step
  bool cancelled = false, ended = false;
};

/// One request from its submission to its last event: its tokens, how many of them the cache knows, and its answer on the way out.
class Sequence {
 public:
  /// `limit`: tokens the whole may have, prompt included. `vocabulary`: tokens that can be drawn. Errors: those of Engine::submit but for
  /// the prompt's.
  Sequence(Request request, std::int64_t limit, std::int64_t vocabulary, const tokenizers::Tokenizer& tokenizer,
           std::chrono::steady_clock::time_point submitted = std::chrono::steady_clock::now());

  /// Another beam of the same search, as far as `beam` has come.
  explicit Sequence(const Sequence& beam);

  const std::shared_ptr<Channel>& channel() const { return channel_; }
  /// Asked once a step, of the sequences of a search in their order.
  bool cancelled();

  // What the batcher needs.
  std::span<const std::int32_t> tokens() const { return tokens_; }
  std::int64_t size() const { return static_cast<std::int64_t>(tokens_.size()); }
  std::int64_t prompt_tokens() const { return prompt_tokens_; }
  std::int64_t generated() const { return size() - prompt_tokens_; }
  /// Tokens whose keys and values are still to be computed before the next token can be drawn.
  std::int64_t pending() const { return size() - computed; }
  bool full() const { return size() >= limit_; }
  /// Whether tokens are to be drawn. Otherwise it ends when its prompt is computed.
  bool generates() const { return !full() && request_.pooling == Pooling::none; }
  /// Whether something is wanted of the prompt itself.
  bool reads() const { return request_.prompt_logprobs >= 0 || request_.pooling != Pooling::none; }
  /// Leading tokens that need not be computed where the cache has their keys and values: nothing else is wanted of them any more.
  std::int64_t skippable() const;
  /// Whether the logits behind the prompt's token at `position`, or its final state, are still to be read.
  bool wants_logits(std::int64_t position) const {
    return request_.prompt_logprobs >= 0 && position >= scored_ && position + 1 < prompt_tokens_;
  }
  bool wants_state(std::int64_t position) const;
  /// Whether logits of the prompt are still to be read.
  bool scores() const { return request_.prompt_logprobs >= 0 && scored_ + 1 < prompt_tokens_; }

  /// For the waiting room.
  Ticket ticket() const;
  std::uint64_t tenant() const { return request_.tenant; }
  std::int64_t priority() const { return request_.priority; }

  // Read in every step: side by side.
  std::uint64_t arrival = 0;                                     // order of submission
  std::int64_t computed = 0;                                     // leading tokens whose keys and values are in the cache
  std::int64_t scheduled = 0;                                    // tokens of the step being made, without guesses
  std::int64_t known_blocks = 0;                                 // leading blocks that the prefix tree has
  kvcache::PrefixTree::Node known = kvcache::PrefixTree::kRoot;  // the last of them
  std::int32_t row = -1;                                         // of the block table, while it runs
  std::int32_t branch = -1;                                      // that of other_guesses, for this step; -1: none
  bool branched = false;                                         // the answer went on as they say
  bool drafted = false;                                          // guesses are a drafter's, not those of a lookup
  std::array<std::int32_t, 2> said = {-1, -1};                   // what the lookup would guess first, at each of `places`
  std::vector<std::int32_t> guesses = {};                        // of the tokens after the last one, which the step verifies …
  std::vector<std::int32_t> other_guesses = {};                  // … and if the first of these is wrong
  std::int64_t guessed = 0, guessed_right = 0;                   // tokens, in all

  std::array<PromptLookup::Place, 2> places = {};  // that the lookup found for this step; what follows there is gone
  LookupTrust lookup_trust = {};                   // how often guesses of the lookup were right lately …
  double draft_trust = -1;                         // … and of the drafter; below 0: neither was asked yet
  std::vector<kvcache::BlockKey> keys = {};        // names of its leading full blocks, as far as they were asked for
  std::int64_t fetches = 0;                        // times that it waited for the disk since it last ran
  std::int64_t cached = 0;                         // tokens that the tree had when it was first admitted

  double keep_seconds() const { return request_.keep_seconds; }
  std::uint64_t partition() const { return request_.cache_partition; }

  /// Places that its text's end had before, in it or in `past`; null: only in it.
  std::array<PromptLookup::Place, 2> look_up(const PastAnswers* past) { return lookup_.find(tokens_, past, request_.cache_partition); }
  /// A drafter's next guess, from its row of logits: drawn as the next token would be if all guesses so far were right. True when nothing
  /// is to be guessed behind it.
  bool guess_next(std::span<const float> logits, sampling::Workspace& workspace);
  std::int64_t room() const { return limit_ - size(); }

  // Beam search.
  BeamGroup* group() const { return group_.get(); }
  bool is_extra_beam() const { return extra_; }
  std::int64_t beam_width() const { return request_.beam_width; }
  /// Offers the next tokens of this beam, from its row of logits.
  void offer(std::span<const float> logits, sampling::Workspace& workspace);
  /// Becomes another beam: the tokens of `parent` and one more.
  void follow(const Sequence& parent) { tokens_.assign(parent.tokens_.begin(), parent.tokens_.end()); }
  void extend(std::int32_t id) { tokens_.push_back(id); }
  /// Back to the prompt; the search begins anew.
  void restart_search();
  /// Sends what the search found.
  void finish_search();

  /// The sequence is admitted, perhaps not for the first time. Takes memory for all its tokens, so that nothing is allocated while it runs.
  void start(std::int64_t most_guesses);
  /// Draws the next token from a row of logits. True when that ended the answer: the last event is sent.
  bool advance(std::span<const float> logits, sampling::Workspace& workspace);
  /// Takes the logits behind the prompt's token at `position`: the log-probability of the next. Errors: as Sampler::sample.
  void score(std::int64_t position, std::span<const float> logits, sampling::Workspace& workspace);
  /// Takes the final state of the prompt's token at `position`. Errors: data_corrupt when it is no number.
  void pool(std::int64_t position, std::span<const float> state);
  /// The prompt is computed, and no token is to be drawn: sends the last event.
  void finish_prompt();
  /// Sends what was drawn and became sayable, as one event.
  void flush();
  /// Sends the last event, with all text that was held back. Without memory for one the stream ends all the same.
  void finish(FinishReason reason) noexcept;
  void fail(Code code, std::string_view why) noexcept;

 private:
  using Clock = std::chrono::steady_clock;

  bool ends(std::int32_t id) const;
  std::int32_t draw(std::span<const float> logits, sampling::Workspace& workspace) const;
  void send(FinishReason reason);

  Request request_;
  const tokenizers::Tokenizer& tokenizer_;
  sampling::Sampler sampler_;
  std::optional<sampling::Sampler> early_;  // before min_tokens: draws no token that ends
  std::shared_ptr<Channel> channel_;
  std::vector<std::int32_t> tokens_;  // prompt, then answer
  std::int64_t prompt_tokens_, limit_;
  AnswerText text_;
  PromptLookup lookup_;
  std::int64_t scored_ = 0, pooled_ = 0;  // leading tokens of the prompt whose logits or state were read
  std::vector<double> sum_;               // of states, for their mean
  Event unsent_;
  std::shared_ptr<BeamGroup> group_;  // null: no beams
  bool started_ = false, spoke_ = false, extra_ = false;
  Clock::time_point submitted_, admitted_, first_token_;
};

/// The order of those that run: who stands before another keeps its blocks longer.
inline bool stands_before(const std::unique_ptr<Sequence>& a, const std::unique_ptr<Sequence>& b) {
  return a->priority() != b->priority() ? a->priority() < b->priority() : a->arrival < b->arrival;
}

}  // namespace quern::engine::detail
