#include "serving/openai/detail/answer.h"

#include <fmt/format.h>

#include <ctime>
#include <random>
#include <utility>

namespace quern::openai::detail {
namespace {

std::string fresh_id(std::string_view prefix) {
  thread_local std::mt19937_64 random(std::random_device{}());
  return fmt::format("{}{:016x}{:016x}", prefix, random(), random());
}

/// A few of the names, those that a header can carry.
std::string names_of(const std::vector<std::string>& fields) {
  constexpr int kMost = 16;
  std::string names;
  int count = 0;
  for (const std::string& name : fields)
    if (http::is_plain_word(name) && ++count <= kMost) names += (names.empty() ? "" : ", ") + name;
  return names;
}

double seconds(std::chrono::steady_clock::duration d) { return std::chrono::duration<double>(d).count(); }

}  // namespace

Answer::Answer(std::shared_ptr<http::Exchange> exchange, Setting setting, std::vector<std::unique_ptr<engine::Stream>> streams,
               const tokenizers::Tokenizer& tokenizer, metrics::Metrics& metrics)
    : exchange_(std::move(exchange)), setting_(std::move(setting)), metrics_(metrics), running_(streams.size()) {
  choices_.reserve(streams.size());
  const auto n = static_cast<std::size_t>(setting_.common.n);
  for (std::size_t i = 0; i < streams.size(); ++i) {
    const std::string echo = setting_.echoes.empty() ? "" : setting_.echoes[i / n];
    choices_.push_back({std::move(streams[i]), Logprobs(tokenizer, setting_.chat, setting_.common.tokens_as_ids, characters(echo))});
    choices_.back().text = echo;
    choices_.back().usage.prompt = setting_.prompt_tokens[i / n];
  }
  if (!setting_.common.ignored.empty()) headers_.emplace_back("x-ignored-fields", names_of(setting_.common.ignored));
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
    if (i % static_cast<std::size_t>(setting_.common.n) != 0) continue;
    sum.prompt += choices_[i].usage.prompt;
    sum.cached += choices_[i].usage.cached;
  }
  return sum;
}

bool Answer::pump(std::size_t index) {
  while (!ended_ && choices_[index].stream != nullptr) {
    std::optional<engine::Event> event = choices_[index].stream->poll();
    if (!event) break;
    take(index, std::move(*event));
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

void Answer::take(std::size_t index, engine::Event event) {
  Choice& choice = choices_[index];
  if (event.finish != engine::FinishReason::error) start();
  switch (event.finish) {
    case engine::FinishReason::none: break;
    case engine::FinishReason::stop: choice.finish = "stop"; break;
    case engine::FinishReason::length: choice.finish = "length"; break;
    case engine::FinishReason::cancelled: choice.finish = "abort"; break;
    case engine::FinishReason::error: choice.finish = "error"; break;
  }
  choice.stopped_by_text = !event.stop_text.empty();
  choice.stop_text = event.stop_text;
  if (setting_.common.include_stop) event.text += event.stop_text;
  count(choice, event);
  if (event.finish != engine::FinishReason::none) {
    choice.stream.reset();
    --running_;
  }
  if (event.finish == engine::FinishReason::error) return fail(refusal_of(event.error_code, event.error));
  if (setting_.common.request.logprobs >= 0) choice.logprobs.add(event);
  if (setting_.common.stream) return stream_event(index, event);
  choice.text += event.text;
  if (setting_.common.token_ids) choice.ids.insert(choice.ids.end(), event.ids.begin(), event.ids.end());
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
    } else if (!choices_[i].text.empty()) {
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
  const bool tells = !event.text.empty() || (!event.ids.empty() && (setting_.common.request.logprobs >= 0 || setting_.common.token_ids));
  const std::string logprobs = setting_.common.request.logprobs >= 0 && !event.ids.empty() ? choice.logprobs.take() : "null";
  const std::string ids = setting_.common.token_ids ? ",\"token_ids\":" + ids_json(event.ids) : "";
  if (!setting_.chat) {
    if (tells || last)
      append_chunk(fmt::format(R"({{"text":{},"index":{},"logprobs":{}{},{}}})", quoted(event.text), index, logprobs, ids,
                               last ? final_members(choice) : R"("finish_reason":null)"));
    return;
  }
  if (tells)
    append_chunk(fmt::format(R"({{"index":{},"delta":{{"content":{}}},"logprobs":{}{},"finish_reason":null}})", index, quoted(event.text),
                             logprobs, ids));
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
  std::string body = head_ + "\"choices\":[";
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    Choice& choice = choices_[i];
    const std::string logprobs = setting_.common.request.logprobs >= 0 ? choice.logprobs.take() : "null";
    const std::string ids = setting_.common.token_ids ? ",\"token_ids\":" + ids_json(choice.ids) : "";
    if (i > 0) body += ',';
    if (setting_.chat) {
      body +=
          fmt::format(R"({{"index":{},"message":{{"role":"assistant","content":{},"refusal":null,"annotations":[]}},"logprobs":{}{},{}}})",
                      i, quoted(choice.text), logprobs, ids, final_members(choice));
    } else {
      body += fmt::format(R"({{"text":{},"index":{},"logprobs":{}{},{}}})", quoted(choice.text), i, logprobs, ids, final_members(choice));
    }
  }
  body += "],\"usage\":" + usage_json(usage()) + (setting_.chat ? ",\"service_tier\":null}" : "}");
  exchange_->respond({.body = std::move(body), .headers = headers_});
  end();
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
  for (Choice& choice : choices_)
    if (choice.stream != nullptr)
      metrics_.finished({.reason = "abort",
                         .prompt_tokens = choice.usage.prompt,
                         .generated_tokens = choice.usage.generated,
                         .total = seconds(Clock::now() - setting_.arrival)});
  if (why) return fail(*why);
  end();
}

void Answer::end() {
  ended_ = true;
  out_.clear();
  for (Choice& choice : choices_) choice.stream.reset();  // cancels what runs
  exchange_.reset();
}

}  // namespace quern::openai::detail
