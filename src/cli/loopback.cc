#include "cli/loopback.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "engine/engine.h"
#include "engine/text_model.h"
#include "serving/http/server.h"
#include "serving/metrics/metrics.h"
#include "serving/openai/service.h"

namespace quern::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kPrompt = "Once";
constexpr std::int64_t kMostContext = 512;  // tokens: that the first answer has not ended when the last begins

/// A connection, and a completion asked for on it. What comes is thrown away.
class Connection {
 public:
  Connection(std::uint16_t port, const std::string& body) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const std::string request = fmt::format(
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
        "Content-Length: {}\r\n\r\n{}",
        body.size(), body);
    if (::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::send(fd_, request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size()))
      ::shutdown(fd_, SHUT_RDWR);  // read() finds the end
  }
  Connection(Connection&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~Connection() {
    if (fd_ >= 0) ::close(fd_);
  }
  int descriptor() const { return fd_; }
  /// False at the end.
  bool read() const {
    char bytes[16384];
    return ::recv(fd_, bytes, sizeof bytes, 0) > 0;
  }

 private:
  int fd_;
};

double seconds_between(Clock::time_point begin, Clock::time_point end) { return std::chrono::duration<double>(end - begin).count(); }

/// Nothing is computed when no token is asked for.
std::string empty_request() {
  constexpr int kTimes = 20;
  std::string text;
  for (int i = 0; i < kTimes; ++i) text += "time year people way day man thing woman life child world school ";
  return fmt::format(R"({{"prompt":"{}","max_tokens":0,"truncate_prompt_tokens":-1,"stream":true}})", text);
}

}  // namespace

class Loopback::Parts {
 public:
  Parts(const std::shared_ptr<const runtime::LanguageModel>& model, std::int64_t streams)
      : text_(engine::TextModel::from_gguf(model->file())),
        prompt_tokens_(static_cast<std::int64_t>(text_.encode_text(kPrompt).size())),
        engine_(model, text_.tokenizer, process_pool(), options(*model, streams)),
        metrics_("m", engine_.context_length(), [] { return metrics::Snapshot{}; }),
        service_(engine_, text_, metrics_, {.name = "m"}),
        server_({.port = 0, .refusal = openai::Service::refusal}, service_.routes()) {
    service_.attach(server_);
    thread_ = std::thread([this] { server_.run(); });
  }
  ~Parts() {
    server_.stop();
    thread_.join();
    service_.close();
  }

  std::int64_t prompt_tokens() const { return prompt_tokens_; }

  std::vector<double> times_between_tokens(std::int64_t streams) {
    const std::string body = fmt::format(R"({{"prompt":"{}","max_tokens":{},"ignore_eos":true,"stream":true}})", kPrompt,
                                         engine_.context_length() - prompt_tokens_);
    std::vector<Connection> connections;
    std::vector<pollfd> waits;
    for (std::int64_t i = 0; i < streams; ++i) {
      connections.emplace_back(server_.port(), body);
      waits.push_back({.fd = connections.back().descriptor(), .events = POLLIN, .revents = 0});
    }
    std::vector<double> times;
    std::vector<bool> begun(connections.size());
    std::size_t silent = connections.size();
    std::optional<Clock::time_point> latest;
    for (bool all = true; all && times.size() < static_cast<std::size_t>(kTimes) && ::poll(waits.data(), waits.size(), kPatience) > 0;) {
      const Clock::time_point now = Clock::now();
      for (std::size_t i = 0; i < waits.size(); ++i) {
        if (waits[i].revents == 0) continue;
        if (!begun[i]) --silent;
        begun[i] = true;
        all = connections[i].read() && all;
      }
      if (silent > 0 || waits.front().revents == 0) continue;
      if (latest) times.push_back(seconds_between(*latest, now));
      latest = now;
    }
    connections.clear();  // what is not finished is cancelled
    for (auto s = engine_.statistics(); s.running + s.waiting > 0; s = engine_.statistics())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return times;
  }

  std::vector<double> times_of_requests() {
    constexpr int kRequests = 50;
    const std::string body = empty_request();
    std::vector<double> times;
    for (int i = 0; i < kRequests; ++i) {
      const Clock::time_point begin = Clock::now();
      const Connection connection(server_.port(), body);
      if (!connection.read()) continue;
      while (connection.read()) {
      }
      times.push_back(seconds_between(begin, Clock::now()));
    }
    return times;
  }

 private:
  engine::EngineOptions options(const runtime::LanguageModel& model, std::int64_t streams) const {
    const std::int64_t context = std::min(kMostContext, model.context_length()),
                       blocks = (context + model.kv_block_tokens() - 1) / model.kv_block_tokens() + 1;  // one to spare, see Batcher
    return {.context_length = context,
            .max_sequences = streams,
            .cache_tokens = streams * blocks * model.kv_block_tokens(),
            .prefix_cache = false,
            .prompt_lookup = false};
  }

  static constexpr int kPatience = 60'000;  // milliseconds

  engine::TextModel text_;
  const std::int64_t prompt_tokens_;
  engine::Engine engine_;
  metrics::Metrics metrics_;
  openai::Service service_;
  http::Server server_;
  std::thread thread_;
};

Loopback::Loopback(const std::shared_ptr<const runtime::LanguageModel>& model, std::int64_t streams)
    : parts_(std::make_unique<Parts>(model, streams)) {}
Loopback::~Loopback() = default;

std::int64_t Loopback::prompt_tokens() const { return parts_->prompt_tokens(); }
std::vector<double> Loopback::times_between_tokens(std::int64_t streams) { return parts_->times_between_tokens(streams); }
std::vector<double> Loopback::times_of_requests() { return parts_->times_of_requests(); }

}  // namespace quern::cli
