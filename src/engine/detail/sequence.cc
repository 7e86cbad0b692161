#include "engine/detail/sequence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "sampling/random.h"

namespace quern::engine::detail {
namespace {

constexpr std::size_t kMaxStops = 1024, kMaxStopBytes = 1 << 16;

/// Fills in what the request leaves open, and checks it.
Request checked(Request request, std::int64_t vocabulary, const tokenizers::Tokenizer& tokenizer) {
  if (!request.sampling.seed) request.sampling.seed = sampling::fresh_seed();
  if (request.max_tokens < -1)
    throw Error(Code::invalid_argument,
                fmt::format("max_tokens is {}; it must be -1 (to the end of the context) or more", request.max_tokens));
  for (const auto& [name, n] : {std::pair("logprobs", request.logprobs), std::pair("prompt_logprobs", request.prompt_logprobs)})
    if (n < -1 || n > vocabulary)
      throw Error(Code::invalid_argument,
                  fmt::format("{} is {}; it must be between -1 (none) and the {} tokens of the vocabulary", name, n, vocabulary));
  if (!(request.keep_seconds >= 0))
    throw Error(Code::invalid_argument, fmt::format("keep_seconds is {}; it must be 0 or more", request.keep_seconds));
  for (const std::int32_t id : request.stop_ids)
    if (id < 0 || id >= vocabulary)
      throw Error(Code::invalid_argument, fmt::format("the stop token {} is outside the vocabulary of {} tokens", id, vocabulary));
  std::size_t bytes = 0;
  for (const std::string& stop : request.stop) {
    if (stop.empty()) throw Error(Code::invalid_argument, "a stop text is empty");
    if ((static_cast<unsigned char>(stop[0]) & 0xC0) == 0x80) throw Error(Code::invalid_argument, "a stop text is not UTF-8");
    bytes += stop.size();
  }
  if (request.stop.size() > kMaxStops || bytes > kMaxStopBytes)
    throw Error(Code::invalid_argument, fmt::format("{} stop texts of {} bytes together; at most {} of {} bytes are possible",
                                                    request.stop.size(), bytes, kMaxStops, kMaxStopBytes));
  if (request.beam_width < 0)
    throw Error(Code::invalid_argument, fmt::format("beam_width is {}; it must be 0 or more", request.beam_width));
  if (request.beam_width > 0) {
    const sampling::Parameters& s = request.sampling;
    const bool neutral = s.bias.empty() && s.allowed.empty() && s.bad_words.empty() && s.repeat_penalty == 1 && s.frequency_penalty == 0 &&
                         s.presence_penalty == 0 && s.min_p == 0 && s.top_k <= 0 && s.top_p >= 1;
    if (!neutral || !request.stop.empty() || request.min_tokens > 0)
      throw Error(Code::invalid_argument, "a beam search takes no sampling parameters, stop texts or least length");
    if (!std::isfinite(request.length_penalty) || std::abs(request.length_penalty) > 10)
      throw Error(Code::invalid_argument, fmt::format("length_penalty is {}; it must be between -10 and 10", request.length_penalty));
  }
  // Control tokens have no text in an answer, so a stop text that is one is looked for as a token.
  for (const std::string& stop : request.stop)
    if (const auto id = tokenizer.find_special(stop)) request.stop_ids.push_back(*id);
  return request;
}

}  // namespace

Sequence::Sequence(Request request, std::int64_t limit, std::int64_t vocabulary, const tokenizers::Tokenizer& tokenizer,
                   Clock::time_point submitted)
    : request_(checked(std::move(request), vocabulary, tokenizer)),
      tokenizer_(tokenizer),
      sampler_(request_.sampling, vocabulary),
      channel_(std::make_shared<Channel>()),
      prompt_tokens_(static_cast<std::int64_t>(request_.prompt.size())),
      limit_(request_.max_tokens < 0 ? limit : std::min(limit, prompt_tokens_ + std::min(request_.max_tokens, limit))),
      text_(tokenizer, request_.stop),
      submitted_(submitted) {
  tokens_ = std::exchange(request_.prompt, {});
  if (request_.beam_width > 0 && generates()) restart_search();
  if (request_.min_tokens > 0) {
    sampling::Parameters early = request_.sampling;
    constexpr float kNever = -std::numeric_limits<float>::infinity();
    for (const std::int32_t id : tokenizer.end_ids())
      if (id < vocabulary && !request_.ignore_end) early.bias.emplace_back(id, kNever);
    for (const std::int32_t id : request_.stop_ids) early.bias.emplace_back(id, kNever);
    early_.emplace(std::move(early), vocabulary);
  }
}

Sequence::Sequence(const Sequence& beam)
    : arrival(beam.arrival),
      request_(beam.request_),
      tokenizer_(beam.tokenizer_),
      sampler_(beam.sampler_),
      channel_(beam.channel_),
      prompt_tokens_(beam.prompt_tokens_),
      limit_(beam.limit_),
      text_(tokenizer_, {}),
      group_(beam.group_),
      started_(true),
      extra_(true) {
  tokens_.reserve(static_cast<std::size_t>(limit_));
}

Ticket Sequence::ticket() const {
  const auto seconds = [](Clock::time_point t) { return std::chrono::duration<double>(t.time_since_epoch()).count(); };
  Ticket ticket{.arrival = arrival, .arrived = seconds(submitted_), .priority = request_.priority, .tenant = request_.tenant};
  if (request_.deadline) ticket.deadline = seconds(*request_.deadline);
  return ticket;
}

bool Sequence::cancelled() {
  if (group_ == nullptr) return channel_->cancelled();
  if (!extra_) group_->cancelled = group_->cancelled || channel_->cancelled();
  return group_->cancelled;
}

void Sequence::offer(std::span<const float> logits, sampling::Workspace& workspace) {
  const auto beam = static_cast<std::size_t>(std::find(group_->live.begin(), group_->live.end(), this) - group_->live.begin());
  std::vector<BeamSearch::Offer>& offers = group_->offers[beam];
  offers.clear();
  const sampling::LogProbabilities model(logits, workspace);
  model.top(static_cast<std::size_t>(group_->search.offers()), [&](const auto& entry) {
    offers.push_back({{entry.id, entry.logprob, static_cast<std::int32_t>(offers.size()) + 1}, ends(entry.id)});
  });
  ++group_->offered;
  if (!spoke_) first_token_ = Clock::now();
  spoke_ = true;
}

void Sequence::restart_search() {
  tokens_.resize(static_cast<std::size_t>(prompt_tokens_));
  group_ = std::make_shared<BeamGroup>(
      BeamSearch::Options{request_.beam_width, prompt_tokens_, limit_ - prompt_tokens_, request_.length_penalty});
  group_->leader = this;
  group_->live = {this};
  group_->offers.resize(static_cast<std::size_t>(request_.beam_width));
}

void Sequence::finish_search() {
  group_->ended = true;
  auto answers = std::make_shared<std::vector<BeamAnswer>>();
  for (BeamSearch::Result& result : group_->search.results()) {
    BeamAnswer& answer = answers->emplace_back();
    AnswerText text(tokenizer_, {});
    for (std::size_t i = 0; i + (result.ended ? 1 : 0) < result.tokens.size(); ++i) text.push(result.tokens[i].id);
    text.finish();
    answer.text = text.take();
    answer.score = result.score;
    answer.finish = result.ended ? FinishReason::stop : FinishReason::length;
    answer.tokens = std::move(result.tokens);
  }
  const FinishReason reason = answers->empty() ? FinishReason::length : answers->front().finish;
  unsent_.beams = std::move(answers);
  finish(reason);
}

bool Sequence::guess_next(std::span<const float> logits, sampling::Workspace& workspace) {
  const std::size_t size = tokens_.size();
  tokens_.insert(tokens_.end(), guesses.begin(), guesses.end());  // has room for them: start()
  std::int32_t id;
  try {
    id = draw(logits, workspace);
  } catch (...) {
    tokens_.resize(size);
    throw;
  }
  tokens_.resize(size);
  guesses.push_back(id);
  return ends(id);
}

void Sequence::start(std::int64_t most_guesses) {
  tokens_.reserve(static_cast<std::size_t>(limit_));
  for (auto* list : {&guesses, &other_guesses}) list->reserve(static_cast<std::size_t>(most_guesses));
  if (!started_) admitted_ = Clock::now();
  started_ = true;
}

bool Sequence::ends(std::int32_t id) const {
  return (!request_.ignore_end && tokenizer_.is_end(id)) ||
         std::find(request_.stop_ids.begin(), request_.stop_ids.end(), id) != request_.stop_ids.end();
}

std::int32_t Sequence::draw(std::span<const float> logits, sampling::Workspace& workspace) const {
  const bool early = early_ && generated() < request_.min_tokens;
  return (early ? *early_ : sampler_).sample(logits, tokens_, workspace, static_cast<std::size_t>(prompt_tokens_));
}

bool Sequence::advance(std::span<const float> logits, sampling::Workspace& workspace) {
  const std::int32_t id = draw(logits, workspace);
  if (request_.logprobs >= 0) {
    const sampling::LogProbabilities model(logits, workspace);
    unsent_.logprobs.push_back({id, model.of(id)});
    unsent_.top.emplace_back();
    model.top(static_cast<std::size_t>(request_.logprobs),
              [&](const auto& entry) { unsent_.top.back().push_back({entry.id, entry.logprob}); });
  }
  unsent_.ids.push_back(id);
  tokens_.push_back(id);
  if (!spoke_) first_token_ = Clock::now();
  spoke_ = true;
  if (ends(id)) {
    const std::string_view text = tokenizer_.token_text(id);
    if (std::find(request_.stop.begin(), request_.stop.end(), text) != request_.stop.end()) unsent_.stop_text = text;
    finish(FinishReason::stop);
    return true;
  }
  if (text_.push(id)) {
    finish(FinishReason::stop);
    return true;
  }
  if (full()) {
    finish(FinishReason::length);
    return true;
  }
  return false;
}

std::int64_t Sequence::skippable() const {
  std::int64_t count = size() - 1;  // the last token's row is what everything else is read from
  if (scores()) count = std::min(count, scored_);
  if (request_.pooling == Pooling::mean || (request_.pooling == Pooling::first && pooled_ == 0)) count = std::min(count, pooled_);
  return count;
}

bool Sequence::wants_state(std::int64_t position) const {
  switch (request_.pooling) {
    case Pooling::none: break;
    case Pooling::last: return position == prompt_tokens_ - 1;
    case Pooling::first: return position == 0 && pooled_ == 0;
    case Pooling::mean: return position >= pooled_;
  }
  return false;
}

void Sequence::score(std::int64_t position, std::span<const float> logits, sampling::Workspace& workspace) {
  const std::int32_t id = tokens_[static_cast<std::size_t>(position + 1)];
  const sampling::LogProbabilities model(logits, workspace);
  if (unsent_.prompt == nullptr) unsent_.prompt = std::make_shared<PromptReading>();
  unsent_.prompt->logprobs.push_back({id, model.of(id), model.rank(id)});
  auto& top = unsent_.prompt->top.emplace_back();
  model.top(static_cast<std::size_t>(request_.prompt_logprobs),
            [&](const auto& entry) { top.push_back({entry.id, entry.logprob, static_cast<std::int32_t>(top.size()) + 1}); });
  scored_ = position + 1;
}

void Sequence::pool(std::int64_t position, std::span<const float> state) {
  if (!std::all_of(state.begin(), state.end(), [](float x) { return std::isfinite(x); }))
    throw Error(Code::data_corrupt, "the model computed NaN or infinity")
        .hint("its weights may be damaged: get the file again and compare its checksum");
  sum_.resize(state.size());
  for (std::size_t i = 0; i < state.size(); ++i) sum_[i] += static_cast<double>(state[i]);
  pooled_ = position + 1;
}

void Sequence::finish_prompt() {
  if (request_.pooling != Pooling::none) {
    const double tokens = request_.pooling == Pooling::mean ? static_cast<double>(prompt_tokens_) : 1;
    if (unsent_.prompt == nullptr) unsent_.prompt = std::make_shared<PromptReading>();
    unsent_.prompt->embedding.reserve(sum_.size());
    for (const double x : sum_) unsent_.prompt->embedding.push_back(static_cast<float>(x / tokens));
  }
  finish(request_.pooling == Pooling::none ? FinishReason::length : FinishReason::stop);
}

void Sequence::flush() {
  if (text_.has_text() || !text_.holds()) send(FinishReason::none);
}

void Sequence::finish(FinishReason reason) noexcept {
  if (group_) group_->ended = true;
  if (extra_) return;  // the first of the group speaks for all
  try {
    if (text_.finish() && reason != FinishReason::cancelled) reason = FinishReason::stop;
    if (!text_.stop_text().empty()) unsent_.stop_text = text_.stop_text();
    send(reason);
  } catch (...) {
    channel_->abandon();
  }
}

void Sequence::fail(Code code, std::string_view why) noexcept {
  if (extra_) {
    group_->leader->fail(code, why);
    return;
  }
  if (group_) {
    if (group_->ended) return;
    group_->ended = true;
  }
  try {
    text_.finish();
    unsent_.error_code = code;
    unsent_.error = why;
    send(FinishReason::error);
  } catch (...) {
    channel_->abandon();
  }
}

void Sequence::send(FinishReason reason) {
  Event event = std::exchange(unsent_, {});
  event.text = text_.take();
  event.finish = reason;
  if (reason != FinishReason::none) {
    const auto seconds = [](Clock::duration d) { return std::chrono::duration<double>(d).count(); };
    event.prompt_tokens = prompt_tokens_;
    event.cached_tokens = cached;
    event.generated_tokens = generated();
    event.guessed_tokens = static_cast<std::int32_t>(guessed);
    event.accepted_guesses = static_cast<std::int32_t>(guessed_right);
    if (started_) event.prompt_seconds = seconds((spoke_ ? first_token_ : Clock::now()) - admitted_);
    if (spoke_) event.generate_seconds = seconds(Clock::now() - first_token_);
  }
  channel_->put(std::move(event));
}

}  // namespace quern::engine::detail
