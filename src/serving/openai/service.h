#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "engine/text_model.h"
#include "serving/http/server.h"
#include "serving/metrics/metrics.h"
#include "serving/openai/request.h"

namespace quern::openai {

struct ServiceOptions {
  std::string name;                       // of the model, in answers
  std::vector<std::string> aliases = {};  // further names it is asked for by
  bool any_name = true;                   // whatever a request calls it
  std::int64_t created = 0;               // seconds since 1970, the same at every start
  std::string version = "0";
  std::int64_t max_waiting = 1024;  // requests that wait in the engine; more get 429
  std::int64_t max_of_tenant = 0;   // answers that are being made for one tenant; more get 429. 0: no limit
  /// Whose a request is, for fair shares; where it says nothing the request's `user` counts. Null: always nothing.
  std::function<std::string(const http::Request&)> tenant = nullptr;
  std::function<void(std::string_view)> report = nullptr;  // hears in a sentence when the engine is stuck, and when it goes on
  engine::Pooling pooling = engine::Pooling::last;         // of embeddings
  std::int64_t block_tokens = 16;                          // of the engine's cache, for the metrics
  std::chrono::milliseconds stall{120'000};  // a step that takes so long is stuck: not healthy. Of a large model it takes seconds.
  std::chrono::milliseconds quiet{5'000};    // a stream that has nothing to say yet begins all the same
  Limits limits = {};
};

/// OpenAI's routes for one model. It must outlive the server it is attached to; close() comes between.
class Service {
 public:
  Service(engine::Engine& engine, engine::TextModel text, metrics::Metrics& metrics, ServiceOptions options);
  ~Service();

  /// /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/models, /tokenize, /detokenize, /health, /ping, /version, /metrics; each
  /// with and without /v1.
  std::vector<http::Route> routes();
  /// Before Server::run().
  void attach(http::Server& server);
  /// After Server::run(): ends what still runs.
  void close();

  /// How this dialect says no: for ServerOptions::refusal.
  static http::Response refusal(int status, std::string_view message);

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace quern::openai
