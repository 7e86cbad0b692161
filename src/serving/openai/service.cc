#include "serving/openai/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <mutex>
#include <span>
#include <unordered_map>
#include <utility>

#include "base/checksum.h"
#include "serving/openai/detail/answer.h"
#include "serving/openai/detail/embeddings.h"
#include "serving/openai/detail/wire.h"

namespace quern::openai {
namespace {

using detail::Answer;
using detail::Embeddings;
using detail::Follower;
using detail::quoted;
using Clock = std::chrono::steady_clock;
using ExchangePtr = std::shared_ptr<http::Exchange>;

/// Another seed for each answer to one prompt, the first being the caller's own. The constant is that of splitmix64.
std::uint64_t seed_of(std::uint64_t seed, std::size_t choice) { return seed + choice * 0x9E3779B97F4A7C15u; }

/// "%2F" in a path.
std::string decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    int byte = 0;
    if (text[i] == '%' && i + 2 < text.size() && std::from_chars(&text[i + 1], &text[i + 1] + 2, byte, 16).ptr == &text[i + 1] + 2) {
      out += static_cast<char>(byte);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace

class Service::State : public std::enable_shared_from_this<State> {
 public:
  State(engine::Engine& engine, engine::TextModel text, metrics::Metrics& metrics, ServiceOptions options)
      : engine_(engine), text_(std::move(text)), metrics_(metrics), options_(std::move(options)) {
    abilities_.vocabulary = static_cast<std::int64_t>(text_.tokenizer->size());
    abilities_.embedding_width = engine_.embedding_width();
    abilities_.tools = text_.capabilities.tools;
    abilities_.developer = text_.capabilities.developer_role;
  }

  // --- the way in, on a worker ------------------------------------------------------------------------------------------------------

  void chat(const ExchangePtr& exchange) {
    const Clock::time_point arrival = Clock::now();
    ChatRequest request = parse_chat(exchange->request().body, abilities_, options_.limits);
    check_model(request.model);
    check_template();
    std::vector<std::vector<std::int32_t>> prompts;
    prompts.push_back(text_.encode_chat(request.conversation));
    submit(exchange, {.chat = true, .common = std::move(request), .arrival = arrival}, std::move(prompts));
  }

  void completion(const ExchangePtr& exchange) {
    const Clock::time_point arrival = Clock::now();
    CompletionRequest request = parse_completion(exchange->request().body, abilities_, options_.limits);
    check_model(request.model);
    std::vector<std::vector<std::int32_t>> prompts;
    std::vector<std::string> echoes;
    for (Prompt& prompt : request.prompts) {
      if (request.echo) echoes.push_back(prompt.ids ? text_.tokenizer->decode(*prompt.ids) : prompt.text);
      if (prompt.ids) {
        prompts.push_back(std::move(*prompt.ids));
      } else {
        prompts.push_back(request.add_special ? text_.encode_text(prompt.text) : text_.tokenizer->encode(prompt.text));
      }
    }
    submit(exchange, {.chat = false, .common = std::move(request), .echoes = std::move(echoes), .arrival = arrival}, std::move(prompts));
  }

  void embeddings(const ExchangePtr& exchange) {
    const Clock::time_point arrival = Clock::now();
    EmbeddingRequest request = parse_embedding(exchange->request().body, abilities_, options_.limits);
    check_model(request.model);
    std::vector<std::vector<std::int32_t>> prompts;
    if (request.conversation) {
      check_template();
      prompts.push_back(text_.encode_chat(*request.conversation));
    }
    for (Prompt& input : std::exchange(request.inputs, {})) {
      if (input.ids) {
        prompts.push_back(std::move(*input.ids));
      } else {
        prompts.push_back(request.add_special ? text_.encode_whole(input.text) : text_.tokenizer->encode(input.text));
      }
    }
    request.request.pooling = options_.pooling;
    std::vector<std::int64_t> sizes = fit(prompts, request, request.conversation ? "messages" : "input", 0);
    prepare(exchange, request);
    std::shared_ptr<void> place = enter(request.request.tenant, prompts.size());
    std::vector<std::unique_ptr<engine::Stream>> streams;
    for (std::vector<std::int32_t>& prompt : prompts) {
      engine::Request one = request.request;
      one.prompt = std::move(prompt);
      streams.push_back(engine_.submit(std::move(one)));
    }
    const std::optional<std::chrono::milliseconds> timeout = request.timeout;
    begin(exchange, timeout, std::move(place),
          std::make_shared<Embeddings>(exchange, Embeddings::Setting{options_.name, std::move(request), std::move(sizes), arrival},
                                       std::move(streams), metrics_));
  }

  /// The prompts' tokens, cut where that was asked for. `answer`: how many tokens the context must have beside them.
  std::vector<std::int64_t> fit(std::vector<std::vector<std::int32_t>>& prompts, const Common& common, const char* param,
                                std::int64_t answer) const {
    const std::int64_t context = engine_.context_length();
    std::vector<std::int64_t> sizes;
    for (std::vector<std::int32_t>& prompt : prompts) {
      if (common.truncate) {
        const auto keep = static_cast<std::size_t>(*common.truncate < 0 ? context - answer : *common.truncate);
        if (prompt.size() > keep && common.truncate_end) prompt.resize(keep);
        if (prompt.size() > keep) prompt.erase(prompt.begin(), prompt.end() - static_cast<std::ptrdiff_t>(keep));
      }
      const auto size = static_cast<std::int64_t>(prompt.size());
      if (size == 0) throw Refusal(400, "the prompt is empty", param);
      if (size + answer > context)
        throw Refusal(400,
                      answer > 0 ? fmt::format("the prompt has {} tokens, which leaves no room for an answer in the context of {} tokens",
                                               size, context)
                                 : fmt::format("the prompt has {} tokens; the context has {}", size, context),
                      param, "context_length_exceeded");
      sizes.push_back(size);
    }
    return sizes;
  }

  /// What all requests to the engine need before they are submitted.
  void prepare(const ExchangePtr& exchange, Common& common) {
    if (stuck_.load(std::memory_order_relaxed)) throw Refusal(503, "the engine is stuck", "", "engine_stuck", kMostWait);
    const std::int64_t waiting = engine_.statistics().waiting;
    if (waiting >= options_.max_waiting) throw Refusal(429, "too many requests wait already", "", "queue_full", retry_after(waiting));
    const std::string key = options_.tenant ? options_.tenant(exchange->request()) : "";
    const std::string& tenant = key.empty() ? common.user : key;
    if (!tenant.empty()) common.request.tenant = checksum(std::as_bytes(std::span(tenant)), salt_seed_) | 1;  // 0 is nobody's
    if (const std::string_view header = exchange->request().header("x-request-timeout-ms"); !header.empty()) {
      std::int64_t time = 0;
      const auto [end, error] = std::from_chars(header.data(), header.data() + header.size(), time);
      if (error != std::errc() || end != header.data() + header.size() || time < 1 || time > (std::int64_t{1} << 31))
        throw Refusal(400, "the header x-request-timeout-ms must be a number of milliseconds");
      common.timeout = std::chrono::milliseconds(time);
    }
    if (common.timeout) common.request.deadline = Clock::now() + *common.timeout;
    if (!common.cache_salt.empty())
      common.request.cache_partition = checksum(std::as_bytes(std::span(common.cache_salt)), salt_seed_) | 1;  // 0 is everybody's
  }

  /// Counts answers that are being made for a tenant, as long as what it returns lives.
  std::shared_ptr<void> enter(std::uint64_t tenant, std::size_t answers) {
    const auto count = static_cast<std::int64_t>(answers);
    {
      const std::lock_guard lock(mutex_);
      const auto open = open_.find(tenant);
      const std::int64_t now = open == open_.end() ? 0 : open->second;
      if (options_.max_of_tenant > 0 && now + count > options_.max_of_tenant)
        throw Refusal(
            429,
            fmt::format("you have {} answers being made already, and {} more are over the limit of {}", now, count, options_.max_of_tenant),
            "", "tenant_limit", retry_after(now));
      open_[tenant] += count;
    }
    return std::shared_ptr<void>(nullptr, [state = weak_from_this(), tenant, count](void*) {
      const auto self = state.lock();
      if (!self) return;
      const std::lock_guard lock(self->mutex_);
      if (const auto open = self->open_.find(tenant); (open->second -= count) == 0) self->open_.erase(open);
    });
  }

  /// Seconds until so many requests have had their turn, by how many end a second lately.
  int retry_after(std::int64_t waiting) const {
    const double rate = std::max(rate_.load(std::memory_order_relaxed), 0.01);
    return static_cast<int>(std::clamp(std::ceil(static_cast<double>(waiting) / rate), 1.0, static_cast<double>(kMostWait)));
  }

  void submit(const ExchangePtr& exchange, Answer::Setting setting, std::vector<std::vector<std::int32_t>> prompts) {
    Common& common = setting.common;
    setting.prompt_tokens = fit(prompts, common, setting.chat ? "messages" : "prompt", common.request.max_tokens == 0 ? 0 : 1);
    prepare(exchange, common);
    std::shared_ptr<void> place = enter(common.request.tenant, prompts.size() * static_cast<std::size_t>(common.answers()));
    metrics_.asked(common.n, common.request.max_tokens);
    add_bad_words(common);

    std::vector<std::unique_ptr<engine::Stream>> streams;
    for (const std::vector<std::int32_t>& prompt : prompts)
      for (std::int64_t i = 0; i < (common.beams ? 1 : common.best_of); ++i) {
        engine::Request request = common.request;
        request.prompt = prompt;
        if (common.best_of > common.n) request.logprobs = std::max(request.logprobs, 0);  // the best are chosen by them
        if (request.sampling.seed) request.sampling.seed = seed_of(*request.sampling.seed, static_cast<std::size_t>(i));
        streams.push_back(engine_.submit(std::move(request)));
      }
    if (common.request.prompt_logprobs >= 0) setting.prompts = std::move(prompts);
    setting.model = options_.name;
    setting.fingerprint = "quern-" + options_.version;
    const std::optional<std::chrono::milliseconds> timeout = common.timeout;
    begin(exchange, timeout, std::move(place),
          std::make_shared<Answer>(exchange, std::move(setting), std::move(streams), *text_.tokenizer, metrics_));
  }

  /// Each word as it is and behind a space, which are other tokens.
  void add_bad_words(Common& common) const {
    auto& all = common.request.sampling.bad_words;
    for (const std::string& word : common.bad_words) {
      const std::string bare = word.substr(word.find_first_not_of(' '));
      for (const std::string& text : {bare, ' ' + bare}) {
        std::vector<std::int32_t> ids = text_.tokenizer->encode(text, {.parse_special = false});
        if (!ids.empty() && std::find(all.begin(), all.end(), ids) == all.end()) all.push_back(std::move(ids));
      }
    }
  }

  void begin(const ExchangePtr& exchange, std::optional<std::chrono::milliseconds> timeout, std::shared_ptr<void> place,
             std::shared_ptr<Follower> answer) {
    server_->post([self = shared_from_this(), answer = std::move(answer), place = std::move(place), exchange, timeout] {
      self->answers_.emplace(answer, place);
      self->follow(answer, exchange, timeout);
    });
  }

  void check_template() const {
    if (!text_.chat_template)
      throw Refusal(400, "the model has no chat template: use /v1/completions, or start the server with --chat-template FILE|NAME",
                    "messages");
  }
  void check_model(const std::string& name) const {
    if (!knows(name)) throw unknown_model(name);
  }
  bool knows(const std::string& name) const {
    return options_.any_name || name == options_.name ||
           std::find(options_.aliases.begin(), options_.aliases.end(), name) != options_.aliases.end();
  }
  static Refusal unknown_model(const std::string& name) {
    return {404, fmt::format("there is no model '{}' here", name.substr(0, 200)), "model", "model_not_found"};
  }

  // --- the way out, on the server's thread --------------------------------------------------------------------------------------------

  void follow(const std::shared_ptr<Follower>& answer, const ExchangePtr& exchange, std::optional<std::chrono::milliseconds> timeout) {
    const std::weak_ptr<State> state = weak_from_this();
    const std::weak_ptr<Follower> weak = answer;
    const auto with = [state, weak](auto act) {
      return [state, weak, act] {
        const auto self = state.lock();
        const auto answer = weak.lock();
        if (self && answer) act(*self, answer);
      };
    };
    if (timeout)
      exchange->after(*timeout, with([](State& self, const std::shared_ptr<Follower>& a) {
        a->abort(Refusal(504, "the answer was not complete in the time given", "", "timeout"));
        self.forget(a);
      }));
    exchange->after(options_.quiet, with([](State&, const std::shared_ptr<Follower>& a) { a->start(); }));
    for (std::size_t i = 0; i < answer->streams(); ++i)
      answer->stream(i).notify([state, weak, i] {
        if (const auto self = state.lock()) self->announce(weak, i);
      });
    exchange->on_gone(with([](State& self, const std::shared_ptr<Follower>& a) {
      a->abort(std::nullopt);
      self.forget(a);
    }));
  }

  /// On the engine's thread: the first of many that come together wakes the server's.
  void announce(const std::weak_ptr<Follower>& answer, std::size_t choice) noexcept {
    try {
      {
        const std::lock_guard lock(mutex_);
        ready_.emplace_back(answer, choice);
        if (ready_.size() > 1) return;
      }
      server_->post([state = weak_from_this()] {
        if (const auto self = state.lock()) self->pump_ready();
      });
    } catch (const std::bad_alloc&) {  // it is told again with the next event
    }
  }

  void pump_ready() {
    {
      const std::lock_guard lock(mutex_);
      std::swap(ready_, pumping_);
    }
    for (const auto& [weak, choice] : pumping_) {
      const auto answer = weak.lock();
      if (answer && !answer->ended() && answer->pump(choice)) forget(answer);
    }
    pumping_.clear();
  }

  // --- what needs no engine -------------------------------------------------------------------------------------------------------------

  std::string model_json() const {
    return fmt::format(R"({{"id":{},"object":"model","created":{},"owned_by":"quern","max_model_len":{}}})", quoted(options_.name),
                       options_.created, engine_.context_length());
  }
  void models(const ExchangePtr& exchange) { exchange->respond({.body = R"({"object":"list","data":[)" + model_json() + "]}"}); }
  void model(const ExchangePtr& exchange) {
    const std::string& path = exchange->request().path;
    const std::string id = decoded(std::string_view(path).substr(path.find("/models/") + 8));
    if (id != options_.name && std::find(options_.aliases.begin(), options_.aliases.end(), id) == options_.aliases.end())
      throw unknown_model(id);
    exchange->respond({.body = model_json()});
  }

  void tokenize(const ExchangePtr& exchange) {
    const TokenizeRequest request = parse_tokenize(exchange->request().body, abilities_, options_.limits);
    std::vector<std::int32_t> ids;
    if (request.conversation) {
      ids = text_.encode_chat(*request.conversation);
    } else if (request.add_special) {
      ids = text_.encode_text(request.text);
    } else {
      ids = text_.tokenizer->encode(request.text, {.parse_special = request.parse_special});
    }
    std::string pieces;
    if (request.pieces)
      for (const std::int32_t id : ids) {
        if (!pieces.empty()) pieces += ',';
        const std::string text = quoted(text_.tokenizer->token_bytes(id));
        pieces += request.llama ? fmt::format(R"({{"id":{},"piece":{}}})", id, text) : text;
      }
    std::string body;
    if (request.llama) {
      body = R"({"tokens":)" + (request.pieces ? "[" + pieces + "]" : detail::ids_json(ids)) + "}";
    } else {
      body = fmt::format(R"({{"count":{},"max_model_len":{},"tokens":{},"token_strs":{}}})", ids.size(), engine_.context_length(),
                         detail::ids_json(ids), request.pieces ? "[" + pieces + "]" : "null");
    }
    exchange->respond({.body = std::move(body)});
  }

  void detokenize(const ExchangePtr& exchange) {
    const std::string text = quoted(text_.tokenizer->decode(parse_detokenize(exchange->request().body, abilities_, options_.limits)));
    exchange->respond({.body = R"({"content":)" + text + R"(,"prompt":)" + text + "}"});
  }

  std::chrono::milliseconds stall() const { return options_.stall; }
  void forget(const std::shared_ptr<Follower>& answer) { ended_ += static_cast<std::int64_t>(answers_.erase(answer)); }

  /// Looks after the engine, every now and then: whether the step it is in will ever end, and how many answers end a second.
  void beat() {
    constexpr double kSmooth = 10;  // seconds
    const Clock::time_point now = Clock::now();
    const double passed = std::chrono::duration<double>(now - last_beat_).count();
    if (passed > 0) {
      const double rate = static_cast<double>(std::exchange(ended_, 0)) / passed, weight = std::min(passed / kSmooth, 1.0);
      rate_.store(rate_.load(std::memory_order_relaxed) * (1 - weight) + rate * weight, std::memory_order_relaxed);
    }
    last_beat_ = now;
    const engine::Engine::Heartbeat heart = engine_.heartbeat();
    const engine::Engine::Statistics s = engine_.statistics();
    if (std::exchange(steps_, heart.steps) != heart.steps || s.running + s.waiting == 0) last_step_ = now;
    const bool stuck = heart.step_seconds >= std::chrono::duration<double>(options_.stall).count() || now - last_step_ >= options_.stall;
    if (stuck_.exchange(stuck, std::memory_order_relaxed) == stuck || !options_.report) return;
    options_.report(stuck ? fmt::format("step {} of {} tokens has run for {:.0f} s and is stuck; {} requests run and {} wait", heart.steps,
                                        heart.tokens, heart.step_seconds, s.running, s.waiting)
                          : std::string("the engine goes on"));
  }
  void health(const ExchangePtr& exchange) {
    if (server_->draining()) throw Refusal(503, "the server is shutting down");
    beat();
    if (stuck_.load(std::memory_order_relaxed))
      throw Refusal(503, fmt::format("the engine has been in one step for {:.0f} s", engine_.heartbeat().step_seconds), "", "engine_stuck",
                    kMostWait);
    exchange->respond({.body = R"({"status":"ok"})"});
  }
  void version(const ExchangePtr& exchange) { exchange->respond({.body = R"({"version":)" + quoted(options_.version) + "}"}); }
  void metrics(const ExchangePtr& exchange) {
    exchange->respond({.body = metrics_.page(), .content_type = "text/plain; version=0.0.4; charset=utf-8"});
  }

  /// A route, with what its method throws told to the client.
  http::Route route(std::string method, std::string path, void (State::*act)(const ExchangePtr&), bool on_worker, bool open = false) {
    const auto handler = [self = weak_from_this(), act](const ExchangePtr& exchange) {
      const auto state = self.lock();
      if (!state) return;
      try {
        ((*state).*act)(exchange);
      } catch (const Refusal& refusal) {
        exchange->respond(detail::error_response(refusal));
      } catch (const Error& error) {
        exchange->respond(detail::error_response(detail::refusal_of(error)));
      } catch (const std::bad_alloc&) {
        exchange->respond(detail::error_response({503, "no memory for this request", "", "resource_exhausted"}));
      }
    };
    return {std::move(method), std::move(path), handler, on_worker, open};
  }

  engine::Engine& engine_;
  const engine::TextModel text_;
  metrics::Metrics& metrics_;
  const ServiceOptions options_;
  Abilities abilities_;
  const std::uint64_t salt_seed_ = engine_.partition_seed();  // nobody can choose a salt that meets another's
  http::Server* server_ = nullptr;

  std::unordered_map<std::shared_ptr<Follower>, std::shared_ptr<void>> answers_;  // and their places; of the server's thread, as all below
  std::vector<std::pair<std::weak_ptr<Follower>, std::size_t>> pumping_;
  std::int64_t ended_ = 0, steps_ = 0;  // ended_: answers, since the last beat
  Clock::time_point last_beat_ = Clock::now(), last_step_ = last_beat_;

  static constexpr int kMostWait = 60;  // seconds that a client is told to wait at most
  std::atomic<bool> stuck_{false};
  std::atomic<double> rate_{0};  // answers that end a second

  std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::int64_t> open_;                // answers being made, by tenant
  std::vector<std::pair<std::weak_ptr<Follower>, std::size_t>> ready_;  // choices with events to be read
};

Service::Service(engine::Engine& engine, engine::TextModel text, metrics::Metrics& metrics, ServiceOptions options)
    : state_(std::make_shared<State>(engine, std::move(text), metrics, std::move(options))) {}
Service::~Service() { close(); }

std::vector<http::Route> Service::routes() {
  std::vector<http::Route> all;
  constexpr bool kWorker = true, kOpen = true;
  for (const std::string prefix : {"/v1", ""}) {
    all.push_back(state_->route("POST", prefix + "/chat/completions", &State::chat, kWorker));
    all.push_back(state_->route("POST", prefix + "/completions", &State::completion, kWorker));
    all.push_back(state_->route("POST", prefix + "/embeddings", &State::embeddings, kWorker));
    all.push_back(state_->route("GET", prefix + "/models", &State::models, !kWorker));
    all.push_back(state_->route("GET", prefix + "/models/*", &State::model, !kWorker));
    all.push_back(state_->route("POST", prefix + "/tokenize", &State::tokenize, kWorker));
    all.push_back(state_->route("POST", prefix + "/detokenize", &State::detokenize, kWorker));
    all.push_back(state_->route("GET", prefix + "/health", &State::health, !kWorker, kOpen));
  }
  all.push_back(state_->route("GET", "/ping", &State::health, !kWorker, kOpen));
  all.push_back(state_->route("GET", "/version", &State::version, !kWorker));
  all.push_back(state_->route("GET", "/metrics", &State::metrics, !kWorker));
  return all;
}

void Service::attach(http::Server& server) {
  state_->server_ = &server;
  server.every(std::min<std::chrono::milliseconds>(std::chrono::seconds(1), state_->stall() / 4), [state = std::weak_ptr(state_)] {
    if (const auto self = state.lock()) self->beat();
  });
}

void Service::close() {
  for (const auto& [answer, place] : std::exchange(state_->answers_, {})) answer->abort(std::nullopt);
}

http::Response Service::refusal(int status, std::string_view message) {
  return {.status = status, .body = detail::error_json(status, message, "", status == 401 ? "invalid_api_key" : "")};
}

}  // namespace quern::openai
