#include "serving/openai/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <mutex>
#include <span>
#include <unordered_set>
#include <utility>

#include "base/checksum.h"
#include "serving/openai/detail/answer.h"
#include "serving/openai/detail/wire.h"

namespace quern::openai {
namespace {

using detail::Answer;
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
    abilities_.tools = text_.capabilities.tools;
    abilities_.developer = text_.capabilities.developer_role;
  }

  // --- the way in, on a worker ------------------------------------------------------------------------------------------------------

  void chat(const ExchangePtr& exchange) {
    const Clock::time_point arrival = Clock::now();
    ChatRequest request = parse_chat(exchange->request().body, abilities_, options_.limits);
    check_model(request.model);
    if (!text_.chat_template)
      throw Refusal(400, "the model has no chat template: use /v1/completions, or start the server with --chat-template FILE|NAME",
                    "messages");
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

  void submit(const ExchangePtr& exchange, Answer::Setting setting, std::vector<std::vector<std::int32_t>> prompts) {
    const char* const param = setting.chat ? "messages" : "prompt";
    Common& common = setting.common;
    const std::int64_t context = engine_.context_length();
    for (std::vector<std::int32_t>& prompt : prompts) {
      if (common.truncate) {
        const auto keep = static_cast<std::size_t>(*common.truncate < 0 ? context - 1 : *common.truncate);
        if (prompt.size() > keep) prompt.erase(prompt.begin(), prompt.end() - static_cast<std::ptrdiff_t>(keep));
      }
      const auto size = static_cast<std::int64_t>(prompt.size());
      if (size == 0) throw Refusal(400, "the prompt is empty", param);
      if (size >= context)
        throw Refusal(
            400, fmt::format("the prompt has {} tokens, which leaves no room for an answer in the context of {} tokens", size, context),
            param, "context_length_exceeded");
      setting.prompt_tokens.push_back(size);
    }
    if (engine_.statistics().waiting >= options_.max_waiting) throw Refusal(429, "too many requests wait already", "", "queue_full");
    if (const std::string_view header = exchange->request().header("x-request-timeout-ms"); !header.empty()) {
      std::int64_t time = 0;
      const auto [end, error] = std::from_chars(header.data(), header.data() + header.size(), time);
      if (error != std::errc() || end != header.data() + header.size() || time < 1 || time > (std::int64_t{1} << 31))
        throw Refusal(400, "the header x-request-timeout-ms must be a number of milliseconds");
      common.timeout = std::chrono::milliseconds(time);
    }
    metrics_.asked(common.n, common.request.max_tokens);
    if (!common.cache_salt.empty())
      common.request.cache_partition = checksum(std::as_bytes(std::span(common.cache_salt)), salt_seed_) | 1;  // 0 is everybody's

    std::vector<std::unique_ptr<engine::Stream>> streams;
    for (const std::vector<std::int32_t>& prompt : prompts)
      for (std::int64_t i = 0; i < common.n; ++i) {
        engine::Request request = common.request;
        request.prompt = prompt;
        if (request.sampling.seed) request.sampling.seed = seed_of(*request.sampling.seed, static_cast<std::size_t>(i));
        streams.push_back(engine_.submit(std::move(request)));
      }
    setting.model = options_.name;
    setting.fingerprint = "quern-" + options_.version;
    const std::optional<std::chrono::milliseconds> timeout = common.timeout;
    const auto answer = std::make_shared<Answer>(exchange, std::move(setting), std::move(streams), *text_.tokenizer, metrics_);
    server_->post([self = shared_from_this(), answer, exchange, timeout] { self->follow(answer, exchange, timeout); });
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

  void follow(const std::shared_ptr<Answer>& answer, const ExchangePtr& exchange, std::optional<std::chrono::milliseconds> timeout) {
    answers_.insert(answer);
    const std::weak_ptr<State> state = weak_from_this();
    const std::weak_ptr<Answer> weak = answer;
    const auto with = [state, weak](auto act) {
      return [state, weak, act] {
        const auto self = state.lock();
        const auto answer = weak.lock();
        if (self && answer) act(*self, answer);
      };
    };
    if (timeout)
      exchange->after(*timeout, with([](State& self, const std::shared_ptr<Answer>& a) {
        a->abort(Refusal(504, "the answer was not complete in the time given", "", "timeout"));
        self.answers_.erase(a);
      }));
    exchange->after(options_.quiet, with([](State&, const std::shared_ptr<Answer>& a) { a->start(); }));
    for (std::size_t i = 0; i < answer->choices(); ++i)
      answer->stream(i).notify([state, weak, i] {
        if (const auto self = state.lock()) self->announce(weak, i);
      });
    exchange->on_gone(with([](State& self, const std::shared_ptr<Answer>& a) {
      a->abort(std::nullopt);
      self.answers_.erase(a);
    }));
  }

  /// On the engine's thread: the first of many that come together wakes the server's.
  void announce(const std::weak_ptr<Answer>& answer, std::size_t choice) noexcept {
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
      if (answer && !answer->ended() && answer->pump(choice)) answers_.erase(answer);
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

  void embeddings(const ExchangePtr&) { throw Refusal(501, "embeddings are not supported yet", "", "not_supported"); }

  /// The engine's heartbeat: while it has work its steps must go on.
  void beat() {
    const engine::Engine::Statistics now = engine_.statistics();
    if (now.steps != steps_ || now.running + now.waiting == 0) last_beat_ = Clock::now();
    steps_ = now.steps;
  }
  void health(const ExchangePtr& exchange) {
    if (server_->draining()) throw Refusal(503, "the server is shutting down");
    beat();
    const auto still = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - last_beat_);
    if (still >= options_.stall) throw Refusal(503, fmt::format("the engine has made no step for {} s though it has work", still.count()));
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

  std::unordered_set<std::shared_ptr<Answer>> answers_;  // of the server's thread, as all below
  std::vector<std::pair<std::weak_ptr<Answer>, std::size_t>> pumping_;
  std::int64_t steps_ = -1;
  Clock::time_point last_beat_ = Clock::now();

  std::mutex mutex_;
  std::vector<std::pair<std::weak_ptr<Answer>, std::size_t>> ready_;  // choices with events to be read
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
    all.push_back(state_->route("POST", prefix + "/embeddings", &State::embeddings, !kWorker));
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
  server.every(std::chrono::seconds(1), [state = std::weak_ptr(state_)] {
    if (const auto self = state.lock()) self->beat();
  });
}

void Service::close() {
  for (const auto& answer : std::exchange(state_->answers_, {})) answer->abort(std::nullopt);
}

http::Response Service::refusal(int status, std::string_view message) {
  return {.status = status, .body = detail::error_json(status, message, "", status == 401 ? "invalid_api_key" : "")};
}

}  // namespace quern::openai
