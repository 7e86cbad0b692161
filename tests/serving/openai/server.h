#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "serving/client.h"
#include "serving/openai/service.h"
#include "support/tiny_llama.h"

namespace quern::openai::testing {

using http::testing::Client;
using http::testing::events;
using http::testing::Reply;
using Json = nlohmann::json;
using namespace std::chrono_literals;

/// A server in this process, of a tiny model of random weights whose tokens are bytes.
class Server {
 public:
  explicit Server(engine::EngineOptions limits = {.max_sequences = 8, .cache_tokens = 4096}, ServiceOptions about = {.name = "tiny"},
                  bool has_template = true) {
    const std::string path = ::testing::TempDir() + "service_test." + std::to_string(::getpid()) + ".gguf";
    quern::testing::write_tiny_llama(path, {.tied = false});
    const auto model = runtime::LanguageModel::load(path);
    std::filesystem::remove(path);
    text_ = engine::TextModel::from_gguf(model->file());
    if (has_template)
      text_.use_template(templates::Template(
          "{% for m in messages %}<|256|>{{ m.role }}:{{ m.content }}<|257|>{% endfor %}{% if tools %}{{ tools }}{% endif %}{% if "
          "add_generation_prompt %}<|256|>{% "
          "endif %}"));
    engine_ = std::make_unique<engine::Engine>(model, text_.tokenizer, pool_, limits);
    metrics_ = std::make_unique<metrics::Metrics>("tiny", engine_->context_length(), [this] {
      const auto s = engine_->statistics();
      return metrics::Snapshot{.running = s.running, .waiting = s.waiting, .steps = s.steps, .generated_tokens = s.generated_tokens};
    });
    service_ = std::make_unique<Service>(*engine_, text_, *metrics_, about);
    http::ServerOptions options;
    options.port = 0;
    options.refusal = Service::refusal;
    server_ = std::make_unique<http::Server>(options, service_->routes());
    service_->attach(*server_);
    thread_ = std::thread([this] { server_->run(); });
  }
  ~Server() {
    server_->stop();
    thread_.join();
    service_->close();
  }

  std::uint16_t port() const { return server_->port(); }
  const engine::Engine& engine() const { return *engine_; }
  ThreadPool& pool() { return pool_; }
  const tokenizers::Tokenizer& tokenizer() const { return *text_.tokenizer; }

  Reply post(const std::string& path, const std::string& body) const {
    Client client(port());
    client.post(path, body);
    return client.reply();
  }
  Json ask(const std::string& path, const Json& body) const {
    const Reply reply = post(path, body.dump());
    EXPECT_EQ(reply.status, 200) << reply.body;
    return Json::parse(reply.body, nullptr, false);
  }
  Json complete(const Json& more = Json::object()) const {
    Json body = {{"prompt", "some text"}, {"max_tokens", 12}, {"temperature", 0}, {"ignore_eos", true}};
    body.update(more);
    return ask("/v1/completions", body);
  }
  std::vector<Json> stream(const std::string& path, Json body) const {
    body["stream"] = true;
    std::vector<Json> chunks;
    for (const std::string& event : events(post(path, body.dump()).body))
      chunks.push_back(event == "[DONE]" ? Json("done") : Json::parse(event));
    return chunks;
  }
  /// Whether nothing runs any more, soon.
  bool rests() const {
    for (int i = 0; i < 4000; ++i) {
      const auto s = engine_->statistics();
      if (s.running + s.waiting == 0) return true;
      std::this_thread::sleep_for(5ms);
    }
    return false;
  }

 private:
  ThreadPool pool_{2};
  engine::TextModel text_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<metrics::Metrics> metrics_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<http::Server> server_;
  std::thread thread_;
};

inline const Json kChat = {
    {"messages", {{{"role", "user"}, {"content", "hello"}}}}, {"max_tokens", 10}, {"temperature", 0}, {"ignore_eos", true}};

inline Json with(Json body, const Json& more) {
  if (more.is_object()) body.update(more);
  return body;
}

}  // namespace quern::openai::testing
