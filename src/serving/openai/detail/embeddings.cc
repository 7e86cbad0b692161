#include "serving/openai/detail/embeddings.h"

#include <fmt/format.h>

#include <bit>
#include <numeric>
#include <utility>

namespace quern::openai::detail {
namespace {

static_assert(std::endian::native == std::endian::little, "embeddings go out as they lie in memory");

std::string numbers_json(const std::vector<float>& x) {
  std::string out = "[";
  for (const float v : x) fmt::format_to(std::back_inserter(out), "{}{}", out.size() > 1 ? "," : "", v);
  return out + "]";
}

}  // namespace

std::string base64(std::string_view bytes) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t three = 0;
    for (std::size_t k = 0; k < 3; ++k) three = three << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (std::size_t k = 0; k < 4; ++k) out += i + k > bytes.size() ? '=' : kDigits[three >> (18 - 6 * k) & 63];
  }
  return out;
}

Embeddings::Embeddings(std::shared_ptr<http::Exchange> exchange, Setting setting, std::vector<std::unique_ptr<engine::Stream>> streams,
                       metrics::Metrics& metrics)
    : exchange_(std::move(exchange)),
      setting_(std::move(setting)),
      metrics_(metrics),
      streams_(std::move(streams)),
      items_(streams_.size()),
      running_(streams_.size()) {}

double Embeddings::seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - setting_.arrival).count(); }

bool Embeddings::pump(std::size_t i) {
  while (!ended() && streams_[i] != nullptr) {
    const std::optional<engine::Event> event = streams_[i]->poll();
    if (!event) break;
    if (event->finish == engine::FinishReason::none) continue;
    streams_[i].reset();
    --running_;
    const bool embedded = event->prompt != nullptr && event->finish == engine::FinishReason::stop;
    metrics_.finished({.reason = embedded ? "stop" : "error",
                       .prompt_tokens = event->prompt_tokens,
                       .total = seconds(),
                       .queue = std::max(seconds() - event->prompt_seconds, 0.0),
                       .prefill = event->prompt_seconds});
    if (!embedded) {
      const bool shut = event->finish == engine::FinishReason::cancelled;
      exchange_->respond(error_response(shut ? Refusal(503, "the server is shutting down") : refusal_of(event->error_code, event->error)));
      end();
      break;
    }
    std::vector<float>& embedding = event->prompt->embedding;
    engine::cut_and_normalize(embedding, setting_.request.dimensions, setting_.request.norm);
    const std::string_view bytes(reinterpret_cast<const char*>(embedding.data()), embedding.size() * sizeof(float));
    items_[i] = fmt::format(R"({{"object":"embedding","index":{},"embedding":{}}})", i,
                            setting_.request.base64 ? '"' + base64(bytes) + '"' : numbers_json(embedding));
  }
  if (!ended() && running_ == 0) respond();
  return ended();
}

void Embeddings::respond() {
  const std::int64_t tokens = std::accumulate(setting_.prompt_tokens.begin(), setting_.prompt_tokens.end(), std::int64_t{0});
  http::Response response{.body =
                              fmt::format(R"({{"object":"list","data":[{}],"model":{},"usage":{{"prompt_tokens":{},"total_tokens":{}}}}})",
                                          fmt::join(items_, ","), quoted(setting_.model), tokens, tokens)};
  if (!setting_.request.ignored.empty()) response.headers.emplace_back("x-ignored-fields", header_names(setting_.request.ignored));
  exchange_->respond(std::move(response));
  end();
}

void Embeddings::abort(const std::optional<Refusal>& why) {
  if (ended()) return;
  for (std::size_t i = 0; i < streams_.size(); ++i)
    if (streams_[i] != nullptr) metrics_.finished({.reason = "abort", .prompt_tokens = setting_.prompt_tokens[i], .total = seconds()});
  if (why) exchange_->respond(error_response(*why));
  end();
}

void Embeddings::end() {
  for (auto& stream : streams_) stream.reset();  // cancels what runs
  items_.clear();
  exchange_.reset();
}

}  // namespace quern::openai::detail
