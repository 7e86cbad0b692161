#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "serving/http/server.h"
#include "serving/metrics/metrics.h"
#include "serving/openai/detail/wire.h"
#include "serving/openai/request.h"

namespace quern::openai::detail {

/// One HTTP request's streams of the engine on their way to a whole answer or a stream of chunks. Made anywhere; all methods then run on
/// the server's thread.
class Answer : public std::enable_shared_from_this<Answer> {
 public:
  struct Setting {
    bool chat = true;
    std::string model = {}, fingerprint = {};
    Common common;
    std::vector<std::string> echoes = {};          // of completions, by prompt: what stands before the answer
    std::vector<std::int64_t> prompt_tokens = {};  // by prompt
    std::chrono::steady_clock::time_point arrival = {};
  };

  Answer(std::shared_ptr<http::Exchange> exchange, Setting setting, std::vector<std::unique_ptr<engine::Stream>> streams,
         const tokenizers::Tokenizer& tokenizer, metrics::Metrics& metrics);

  std::size_t choices() const { return choices_.size(); }
  engine::Stream& stream(std::size_t choice) { return *choices_[choice].stream; }
  /// Takes what a choice's stream has. True when the answer is complete, or was given up: nothing more is to come.
  bool pump(std::size_t choice);
  /// Starts to stream, though nothing has come yet: lest the client take us for dead.
  void start();
  /// Ends it all: the client has gone, or has waited long enough.
  void abort(const std::optional<Refusal>& why);
  bool ended() const { return ended_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Choice {
    std::unique_ptr<engine::Stream> stream;
    Logprobs logprobs;
    std::string text = {};
    std::vector<std::int32_t> ids = {};
    std::string logprobs_json = {};
    std::string finish = {}, stop_text = {};  // finish: empty while it runs
    bool stopped_by_text = false;
    Usage usage = {};
    std::optional<Clock::time_point> last = {};
  };

  void take(std::size_t index, engine::Event event);
  void count(Choice& choice, const engine::Event& event);
  void stream_event(std::size_t index, const engine::Event& event);
  void append_chunk(std::string_view choice);
  std::string final_members(const Choice& choice) const;
  void fail(const Refusal& why);
  void respond();
  void end();
  Usage usage() const;

  std::shared_ptr<http::Exchange> exchange_;
  const Setting setting_;
  metrics::Metrics& metrics_;
  std::vector<Choice> choices_;
  std::string head_;  // of every chunk
  http::Headers headers_;
  std::string out_;  // chunks to be sent
  std::size_t running_;
  bool started_ = false, ended_ = false;
};

}  // namespace quern::openai::detail
