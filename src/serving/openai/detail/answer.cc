#include "serving/openai/detail/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <random>
#include <utility>

namespace quern::openai::detail {
namespace {

std::string fresh_id(std::string_view prefix) {
  thread_local std::mt19937_64 random(std::random_device{}());
  return fmt::format("{}{:016x}{:016x}", prefix, random(), random());
}

std::string_view name_of(engine::FinishReason reason) {
  switch (reason) {
    case engine::FinishReason::none: break;
    case engine::FinishReason::stop: return "stop";
    case engine::FinishReason::length: return "length";
    case engine::FinishReason::cancelled: return "abort";
    case engine::FinishReason::error: return "error";
  }
  return "";
}

double seconds(std::chrono::steady_clock::duration d) { return std::chrono::duration<double>(d).count(); }

}  // namespace

Answer::Answer(std::shared_ptr<http::Exchange> exchange, Setting setting, std::vector<std::unique_ptr<engine::Stream>> streams,
               const tokenizers::Tokenizer& tokenizer, metrics::Metrics& metrics)
    : exchange_(std::move(exchange)),
      setting_(std::move(setting)),
      metrics_(metrics),
      streams_(std::move(streams)),
      running_(streams_.size()) {
  const auto answers = static_cast<std::size_t>(setting_.common.answers());
  choices_.reserve(setting_.prompt_tokens.size() * answers);
  for (std::size_t i = 0; i < setting_.prompt_tokens.size() * answers; ++i) {
    const std::string echo = setting_.echoes.empty() ? "" : setting_.echoes[prompt_of(i)];
    const bool shows_prompt = !echo.empty() && !setting_.prompts.empty();
    choices_.push_back({Logprobs(tokenizer, setting_.chat, setting_.common.tokens_as_ids, shows_prompt ? 0 : characters(echo))});
    choices_.back().text = echo;
    choices_.back().usage.prompt = setting_.prompt_tokens[prompt_of(i)];
  }
  if (!setting_.common.ignored.empty()) headers_.emplace_back("x-ignored-fields", header_names(setting_.common.ignored));
  const bool chunk = setting_.chat && setting_.common.stream;
  head_ = fmt::format(R"({{"id":"{}","object":"{}","created":{},"model":{},"system_fingerprint":{},)",
                      fresh_id(setting_.chat ? "chatcmpl-" : "cmpl-"),
                      chunk ? "chat.completion.chunk" : (setting_.chat ? "chat.completion" : "text_completion"), std::time(nullptr),
                      quoted(setting_.model), quoted(setting_.fingerprint));
}

/// A prompt counts once, however many answers it gets.
Usage Answer::usage() const {
  Usage sum;
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    sum.generated += choices_[i].usage.generated;
    if (i % static_cast<std::size_t>(setting_.common.answers()) != 0) continue;
    sum.prompt += choices_[i].usage.prompt;
    sum.cached += choices_[i].usage.cached;
  }
  return sum;
}

bool Answer::pump(std::size_t i) {
  while (!ended_ && streams_[i] != nullptr) {
    std::optional<engine::Event> event = streams_[i]->poll();
    if (!event) break;
    take(i, std::move(*event));
  }
  if (!ended_ && running_ == 0) respond();
  if (!out_.empty()) exchange_->send(std::exchange(out_, {}));
  if (!ended_ && running_ == 0) {
    exchange_->finish();
    end();
  }
  return ended_;
}

void Answer::count(Choice& choice, const engine::Event& event) {
  const Clock::time_point now = Clock::now();
  if (!event.ids.empty()) {
    if (choice.last) {
      metrics_.next_token(seconds(now - *choice.last));
    } else {
      metrics_.first_token(seconds(now - setting_.arrival));
    }
    choice.last = now;
  }
  choice.usage.generated += static_cast<std::int64_t>(event.ids.size());
  if (event.finish == engine::FinishReason::none) return;
  choice.usage.generated = event.generated_tokens;
  choice.usage.cached = event.cached_tokens;
  const double total = seconds(now - setting_.arrival);
  metrics_.finished({.reason = choice.finish,
                     .prompt_tokens = event.prompt_tokens,
                     .generated_tokens = event.generated_tokens,
                     .total = total,
                     .queue = std::max(total - event.prompt_seconds - event.generate_seconds, 0.0),
                     .prefill = event.prompt_seconds,
                     .decode = event.generate_seconds});
}

void Answer::take(std::size_t stream, engine::Event event) {
  const std::size_t index = choices_.size() / streams_.size() * stream;
  Choice& choice = choices_[index];
  if (event.finish != engine::FinishReason::error) start();
  choice.finish = name_of(event.finish);
  choice.stopped_by_text = !event.stop_text.empty();
  choice.stop_text = event.stop_text;
  if (setting_.common.include_stop) event.text += event.stop_text;
  count(choice, event);
  if (event.finish != engine::FinishReason::none) {
    streams_[stream].reset();
    --running_;
  }
  if (event.finish == engine::FinishReason::error) return fail(refusal_of(event.error_code, event.error));
  if (event.prompt) take_prompt(index, *event.prompt);
  if (event.beams) return take_beams(index, *event.beams);
  for (const engine::TokenLogprob& token : event.logprobs) choice.sum += static_cast<double>(token.logprob);
  if (shows_logprobs()) choice.logprobs.add(event);
  if (setting_.common.stream) return stream_event(index, event);
  choice.text += event.text;
  if (setting_.common.token_ids) choice.ids.insert(choice.ids.end(), event.ids.begin(), event.ids.end());
}

/// What the prompt's tokens had for log-probabilities: in front of the answer's where the prompt is repeated, and where vLLM has them.
void Answer::take_prompt(std::size_t index, const engine::PromptReading& prompt) {
  if (setting_.prompts.empty()) return;
  Choice& choice = choices_[index];
  const std::vector<std::int32_t>& ids = setting_.prompts[prompt_of(index)];
  if (!setting_.echoes.empty() && shows_logprobs()) choice.logprobs.add_prompt(ids, prompt);
  if (setting_.common.prompt_logprobs) choice.prompt_logprobs = choice.logprobs.prompt_json(prompt);
}

void Answer::take_beams(std::size_t first, const std::vector<engine::BeamAnswer>& beams) {
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < beams.size(); ++i) {
    const engine::BeamAnswer& beam = beams[i];
    Choice& choice = choices_[first + i];
    choice.text += beam.text;
    choice.finish = name_of(beam.finish);
    engine::Event all;
    for (const engine::TokenLogprob& token : beam.tokens) all.ids.push_back(token.id);
    all.logprobs = beam.tokens;
    all.top.resize(beam.tokens.size());
    if (shows_logprobs()) choice.logprobs.add(all);
    choice.ids = std::move(all.ids);
    tokens += static_cast<std::int64_t>(beam.tokens.size());
  }
  choices_[first].usage.generated = tokens;
}

// --- streams
// ------------------------------------------------------------------------------------------------------------------------------

void Answer::append_chunk(std::string_view choice) {
  out_ += "data: ";
  out_ += head_;
  out_ += "\"choices\":[";
  out_ += choice;
  out_ += ']';
  if (setting_.common.continuous_usage) {
    out_ += ",\"usage\":" + usage_json(usage());
  } else if (setting_.common.include_usage) {
    out_ += ",\"usage\":null";
  }
  out_ += "}\n\n";
}

void Answer::start() {
  if (started_ || ended_ || !setting_.common.stream) return;
  started_ = true;
  exchange_->start_events(headers_);
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    if (setting_.chat) {
      append_chunk(fmt::format(R"({{"index":{},"delta":{{"role":"assistant","content":""}},"logprobs":null,"finish_reason":null}})", i));
    } else if (!choices_[i].text.empty() && setting_.prompts.empty()) {
      append_chunk(fmt::format(R"({{"text":{},"index":{},"logprobs":null,"finish_reason":null}})", quoted(choices_[i].text), i));
    }
  }
  exchange_->send(std::exchange(out_, {}));
}

std::string Answer::final_members(const Choice& choice) const {
  return fmt::format(R"("finish_reason":"{}","stop_reason":{})", choice.finish, choice.stopped_by_text ? quoted(choice.stop_text) : "null");
}

void Answer::stream_event(std::size_t index, const engine::Event& event) {
  Choice& choice = choices_[index];
  const bool last = !choice.finish.empty();
  const bool echoes = event.prompt && !setting_.prompts.empty() && !choice.text.empty();  // with its log-probabilities, so not before
  const std::string text = echoes ? std::exchange(choice.text, {}) + event.text : event.text;
  const bool tells = !text.empty() || (!event.ids.empty() && (shows_logprobs() || setting_.common.token_ids));
  const std::string logprobs = shows_logprobs() && (echoes || !event.ids.empty()) ? choice.logprobs.take() : "null";
  const std::string ids = setting_.common.token_ids ? ",\"token_ids\":" + ids_json(event.ids) : "";
  if (!setting_.chat) {
    if (tells || last)
      append_chunk(fmt::format(R"({{"text":{},"index":{},"logprobs":{}{},{}}})", quoted(text), index, logprobs, ids,
                               last ? final_members(choice) : R"("finish_reason":null)"));
    return;
  }
  if (tells)
    append_chunk(
        fmt::format(R"({{"index":{},"delta":{{"content":{}}},"logprobs":{}{},"finish_reason":null}})", index, quoted(text), logprobs, ids));
  if (last) append_chunk(fmt::format(R"({{"index":{},"delta":{{}},"logprobs":null,{}}})", index, final_members(choice)));
}

// --- ends
// ---------------------------------------------------------------------------------------------------------------------------------

void Answer::respond() {
  if (setting_.common.stream) {
    start();
    if (setting_.common.include_usage) out_ += "data: " + head_ + "\"choices\":[],\"usage\":" + usage_json(usage()) + "}\n\n";
    out_ += "data: [DONE]\n\n";
    return;
  }
  std::string body = head_ + "\"choices\":[", prompt;
  std::size_t number = 0;
  for (const std::size_t i : shown()) {
    Choice& choice = choices_[i];
    const std::string logprobs = shows_logprobs() ? choice.logprobs.take() : "null";
    std::string more = setting_.common.token_ids ? ",\"token_ids\":" + ids_json(choice.ids) : "";
    if (!choice.prompt_logprobs.empty()) prompt = ",\"prompt_logprobs\":" + choice.prompt_logprobs;
    if (number > 0) body += ',';
    if (setting_.chat) {
      body +=
          fmt::format(R"({{"index":{},"message":{{"role":"assistant","content":{},"refusal":null,"annotations":[]}},"logprobs":{}{},{}}})",
                      number, quoted(choice.text), logprobs, more, final_members(choice));
    } else {
      more += std::exchange(prompt, "");
      body +=
          fmt::format(R"({{"text":{},"index":{},"logprobs":{}{},{}}})", quoted(choice.text), number, logprobs, more, final_members(choice));
    }
    ++number;
  }
  body += "],\"usage\":" + usage_json(usage()) + prompt + (setting_.chat ? ",\"service_tier\":null}" : "}");
  exchange_->respond({.body = std::move(body), .headers = headers_});
  end();
}

/// The choices that are shown, in their order: all, or of each prompt the best by the mean log-probability of their tokens.
std::vector<std::size_t> Answer::shown() const {
  const auto answers = static_cast<std::size_t>(setting_.common.answers()), n = static_cast<std::size_t>(setting_.common.n);
  std::vector<std::size_t> order(choices_.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto made = [&](std::size_t i) { return !choices_[i].finish.empty(); };  // a search may find fewer than it was to
  if (answers == n) {
    std::erase_if(order, [&](std::size_t i) { return !made(i); });
    return order;
  }
  const auto mean = [&](std::size_t i) {
    return choices_[i].sum / static_cast<double>(std::max<std::int64_t>(choices_[i].usage.generated, 1));
  };
  std::vector<std::size_t> best;
  for (std::size_t first = 0; first < order.size(); first += answers) {
    const auto begin = order.begin() + static_cast<std::ptrdiff_t>(first);
    std::sort(begin, begin + static_cast<std::ptrdiff_t>(answers),
              [&](std::size_t a, std::size_t b) { return mean(a) != mean(b) ? mean(a) > mean(b) : a < b; });
    std::copy_if(begin, begin + static_cast<std::ptrdiff_t>(n), std::back_inserter(best), made);
  }
  return best;
}

void Answer::fail(const Refusal& why) {
  if (started_) {
    exchange_->send(std::exchange(out_, {}) + "data: " + error_json(why.status, why.message, why.param, why.code) + "\n\n");
    exchange_->finish();
  } else {
    exchange_->respond(error_response(why));
  }
  end();
}

void Answer::abort(const std::optional<Refusal>& why) {
  if (ended_) return;
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const Choice& choice = choices_[choices_.size() / streams_.size() * i];
    if (streams_[i] != nullptr)
      metrics_.finished({.reason = "abort",
                         .prompt_tokens = choice.usage.prompt,
                         .generated_tokens = choice.usage.generated,
                         .total = seconds(Clock::now() - setting_.arrival)});
  }
  if (why) return fail(*why);
  end();
}

void Answer::end() {
  ended_ = true;
  out_.clear();
  for (auto& stream : streams_) stream.reset();  // cancels what runs
  exchange_.reset();
}

}  // namespace quern::openai::detail
