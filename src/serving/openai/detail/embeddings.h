#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "serving/openai/detail/answer.h"

namespace quern::openai::detail {

/// The embeddings of one HTTP request, in the order of its inputs.
class Embeddings final : public Follower {
 public:
  struct Setting {
    std::string model;
    EmbeddingRequest request;                      // without inputs
    std::vector<std::int64_t> prompt_tokens = {};  // by input
    std::chrono::steady_clock::time_point arrival = {};
  };

  Embeddings(std::shared_ptr<http::Exchange> exchange, Setting setting, std::vector<std::unique_ptr<engine::Stream>> streams,
             metrics::Metrics& metrics);

  std::size_t streams() const override { return streams_.size(); }
  engine::Stream& stream(std::size_t i) override { return *streams_[i]; }
  bool pump(std::size_t i) override;
  void start() override {}  // one JSON text, that begins when it is complete
  void abort(const std::optional<Refusal>& why) override;
  bool ended() const override { return exchange_ == nullptr; }

 private:
  void respond();
  void end();
  double seconds() const;

  std::shared_ptr<http::Exchange> exchange_;
  const Setting setting_;
  metrics::Metrics& metrics_;
  std::vector<std::unique_ptr<engine::Stream>> streams_;  // null: ended
  std::vector<std::string> items_;                        // JSON, by input
  std::size_t running_;
};

/// RFC 4648, with padding.
std::string base64(std::string_view bytes);

}  // namespace quern::openai::detail
