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

/// What makes an HTTP answer out of streams of the engine. Made anywhere; all methods then run on the server's thread.
class Follower {
 public:
  virtual ~Follower() = default;
  virtual std::size_t streams() const = 0;
  virtual engine::Stream& stream(std::size_t i) = 0;
  /// Takes what a stream has. True when the answer is complete, or was given up: nothing more is to come.
  virtual bool pump(std::size_t i) = 0;
  /// Begins to answer, though nothing has come yet: lest the client take us for dead.
  virtual void start() = 0;
  /// Ends it all: the client has gone, or has waited long enough.
  virtual void abort(const std::optional<Refusal>& why) = 0;
  virtual bool ended() const = 0;
};

/// One HTTP request's streams of the engine on their way to a whole answer or a stream of chunks.
class Answer final : public Follower {
 public:
  struct Setting {
    bool chat = true;
    std::string model = {}, fingerprint = {};
    Common common;
    std::vector<std::string> echoes = {};                 // of completions, by prompt: what stands before the answer
    std::vector<std::vector<std::int32_t>> prompts = {};  // where their log-probabilities are shown
    std::vector<std::int64_t> prompt_tokens = {};         // by prompt
    std::chrono::steady_clock::time_point arrival = {};
  };

  Answer(std::shared_ptr<http::Exchange> exchange, Setting setting, std::vector<std::unique_ptr<engine::Stream>> streams,
         const tokenizers::Tokenizer& tokenizer, metrics::Metrics& metrics);

  std::size_t streams() const override { return streams_.size(); }
  engine::Stream& stream(std::size_t i) override { return *streams_[i]; }
  bool pump(std::size_t i) override;
  void start() override;
  void abort(const std::optional<Refusal>& why) override;
  bool ended() const override { return ended_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Choice {
    Logprobs logprobs;
    std::string text = {};
    std::vector<std::int32_t> ids = {};
    std::string prompt_logprobs = {};         // JSON, as vLLM shows them
    double sum = 0;                           // of log-probabilities, where the best of several are chosen
    std::string finish = {}, stop_text = {};  // finish: empty while it runs
    bool stopped_by_text = false;
    Usage usage = {};
    std::optional<Clock::time_point> last = {};
  };

  void take(std::size_t stream, engine::Event event);
  void take_beams(std::size_t first, const std::vector<engine::BeamAnswer>& beams);
  void take_prompt(std::size_t index, const engine::PromptReading& prompt);
  void count(Choice& choice, const engine::Event& event);
  void stream_event(std::size_t index, const engine::Event& event);
  void append_chunk(std::string_view choice);
  std::string final_members(const Choice& choice) const;
  std::vector<std::size_t> shown() const;
  bool shows_logprobs() const { return setting_.common.request.logprobs >= 0; }
  std::size_t prompt_of(std::size_t choice) const { return choice / static_cast<std::size_t>(setting_.common.answers()); }
  void fail(const Refusal& why);
  void respond();
  void end();
  Usage usage() const;

  std::shared_ptr<http::Exchange> exchange_;
  const Setting setting_;
  metrics::Metrics& metrics_;
  std::vector<std::unique_ptr<engine::Stream>> streams_;  // one a choice, or one a beam search; null: ended
  std::vector<Choice> choices_;                           // prompt by prompt
  std::string head_;                                      // of every chunk
  http::Headers headers_;
  std::string out_;  // chunks to be sent
  std::size_t running_;
  bool started_ = false, ended_ = false;
};

}  // namespace quern::openai::detail
