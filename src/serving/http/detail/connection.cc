#include "serving/http/detail/connection.h"

#include <fmt/format.h>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <optional>
#include <random>

#include "serving/http/detail/reply.h"
#include "serving/http/detail/routing.h"

namespace quern::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxAhead = 64 << 10;  // bytes of further requests read while one is answered
constexpr int kClientLeft = 499;             // as nginx logs it

std::string fresh_id() {
  thread_local std::mt19937_64 random(std::random_device{}());
  return fmt::format("{:016x}{:016x}", random(), random());
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return out;
}

/// A reply that the connection sleeps on while there is nothing to send.
struct AwaitedReply final : Reply {
  explicit AwaitedReply(const asio::any_io_executor& thread) : sleep(thread) {}
  void wake() override { sleep.cancel(); }

  asio::steady_timer sleep;
};

class OpenConnection final : public Connection, public std::enable_shared_from_this<OpenConnection> {
 public:
  OpenConnection(ServerState& server, tcp::socket socket)
      : server_(server), thread_(socket.get_executor()), socket_(std::move(socket)), deadline_(thread_) {
    error_code error;
    const tcp::endpoint remote = socket_.remote_endpoint(error);
    if (!error) remote_ = fmt::format("{}:{}", remote.address().to_string(), remote.port());
    socket_.set_option(tcp::no_delay(true), error);
    socket_.set_option(asio::socket_base::keep_alive(true), error);
    server_.connections.insert(this);  // last: after it nothing throws, so the destructor will take it out
  }
  ~OpenConnection() override {
    server_.connections.erase(this);
    server_.ended();
  }

  void close_if_idle() override {
    if (idle_) close();
  }
  void give_up() override {
    if (!reply_) return close();
    reply_->leave();
    reply_->wake();
  }

  asio::awaitable<void> run() {
    const auto self = shared_from_this();
    while (co_await serve_one()) {
    }
    close();
  }

 private:
  using Parser = beast::http::request_parser<beast::http::string_body>;

  void close() {
    error_code error;
    socket_.close(error);
  }

  /// What runs now must be done by then; otherwise it ends with an error, and timed_out_ is set.
  void expect_within(std::chrono::milliseconds time) {
    timed_out_ = false;
    deadline_.expires_after(time);
    deadline_.async_wait([self = shared_from_this(), turn = ++turn_](error_code error) {
      if (error || turn != self->turn_) return;
      self->timed_out_ = true;
      self->socket_.cancel(error);
    });
  }
  void expect_no_more() {
    ++turn_;
    deadline_.cancel();
  }

  /// One request and its answer; whether another may follow.
  asio::awaitable<bool> serve_one() {
    error_code error;
    if (buffer_.size() == 0) {
      if (server_.draining && served_) co_return false;
      idle_ = true;
      expect_within(server_.options.idle_time);
      const std::size_t n = co_await socket_.async_read_some(buffer_.prepare(4096), asio::redirect_error(asio::use_awaitable, error));
      idle_ = false;
      expect_no_more();
      if (error) co_return false;
      buffer_.commit(n);
    }
    std::optional<Parser> parser(std::in_place);
    parser->header_limit(static_cast<std::uint32_t>(server_.options.header_bytes));
    parser->body_limit(server_.options.body_bytes);
    started_ = Clock::now();
    expect_within(server_.options.header_time);
    co_await beast::http::async_read_header(socket_, buffer_, *parser, asio::redirect_error(asio::use_awaitable, error));
    expect_no_more();
    reply_ = std::make_shared<AwaitedReply>(thread_);
    reply_->most_unsent = server_.options.unsent_bytes;
    reply_->request.id = fresh_id();
    reply_->request.remote = remote_;
    if (error) co_return co_await refuse_unread(error, "the header");
    take_head(*parser);

    const auto length = parser->content_length();
    const std::size_t reserved = length ? static_cast<std::size_t>(*length) : parser->chunked() ? server_.options.body_bytes : 0;
    if (server_.bodies + reserved > server_.options.bodies_bytes) {
      refuse(503, "the server has no room for another request now");
      co_return co_await answer_unread();
    }
    const Reservation reservation(server_.bodies, reserved);
    if (!parser->is_done()) {
      expect_within(server_.options.body_time);
      if (parser->get()[beast::http::field::expect] == "100-continue") {
        static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
        co_await asio::async_write(socket_, asio::buffer(kContinue), asio::redirect_error(asio::use_awaitable, error));
      }
      if (!error) co_await beast::http::async_read(socket_, buffer_, *parser, asio::redirect_error(asio::use_awaitable, error));
      expect_no_more();
      if (error) co_return co_await refuse_unread(error, "the body");
    }
    reply_->request.has_body = reserved > 0;
    reply_->request.body = std::move(parser->get().body());
    parser.reset();
    dispatch();
    co_return co_await answer();
  }

  void take_head(const Parser& parser) {
    const auto& head = parser.get();
    Request& request = reply_->request;
    request.method = std::string(head.method_string());
    const std::string_view target(head.target().data(), head.target().size());
    const std::size_t question = target.find('?');
    request.path = std::string(target.substr(0, question));
    if (question != std::string_view::npos) request.query = std::string(target.substr(question + 1));
    for (const auto& field : head) {
      const auto name = field.name_string();
      request.headers.emplace_back(lower({name.data(), name.size()}), std::string(field.value()));
    }
    if (const std::string_view id = request.header("x-request-id"); is_plain_word(id)) request.id = std::string(id);
    reply_->framing = {.keep_alive = parser.keep_alive(), .head_only = request.method == "HEAD", .chunked = head.version() >= 11};
    reply_->common.emplace_back("x-request-id", request.id);
    const Headers cors = cors_headers(request.header("origin"), server_.options);
    reply_->common.insert(reply_->common.end(), cors.begin(), cors.end());
  }

  void refuse(int status, std::string_view message, const Headers& headers = {}) {
    reply_->respond(refusal(server_.options, status, message, headers));
  }

  /// Says why a request could not be read, where there is somebody to tell.
  asio::awaitable<bool> refuse_unread(error_code error, std::string_view part) {
    namespace http = beast::http;
    if (timed_out_) {
      refuse(408, fmt::format("{} of the request did not come in time", part));
    } else if (error == http::error::header_limit) {
      refuse(431, fmt::format("the header has more than {} bytes", server_.options.header_bytes));
    } else if (error == http::error::body_limit) {
      refuse(413, fmt::format("the body has more than {} bytes", server_.options.body_bytes));
    } else if (error.category() == http::make_error_code(http::error::bad_method).category() && error != http::error::end_of_stream &&
               error != http::error::partial_message) {
      refuse(400, fmt::format("this is not HTTP/1.1: {}", error.message()));
    } else {
      reply_.reset();
      co_return false;
    }
    co_return co_await answer_unread();
  }

  /// Sends a refusal while the client may still be sending, then ends the connection such that the client can read it.
  asio::awaitable<bool> answer_unread() {
    reply_->framing.keep_alive = false;
    const std::size_t at = reply_->unsent.find("\r\n");
    if (reply_->unsent.find("\r\nconnection: close\r\n") == std::string::npos) reply_->unsent.insert(at, "\r\nconnection: close");
    error_code error;
    expect_within(std::chrono::seconds(2));
    co_await asio::async_write(socket_, asio::buffer(reply_->unsent), asio::redirect_error(asio::use_awaitable, error));
    log();
    socket_.shutdown(tcp::socket::shutdown_send, error);
    std::size_t swallowed = 0;
    buffer_.clear();
    while (!error && swallowed < (1 << 20))
      swallowed += co_await socket_.async_read_some(buffer_.prepare(16384), asio::redirect_error(asio::use_awaitable, error));
    expect_no_more();
    reply_.reset();
    co_return false;
  }

  void dispatch() {
    const auto [route, instead] = route_of(reply_->request, server_.routes, server_.options, server_.draining);
    if (route != nullptr) route_ = route->path;
    if (instead) return reply_->respond(*instead);
    const std::shared_ptr<Exchange> exchange = open_exchange(thread_, server_.options, reply_);
    const auto handle = [exchange, handler = &route->handler, &options = server_.options] {
      try {
        (*handler)(exchange);
      } catch (const std::exception& error) {
        exchange->respond(options.refusal(500, error.what()));
      }
    };
    if (!route->on_worker) return handle();
    if (!server_.workers.add(handle)) refuse(429, "too many requests wait already", {{"retry-after", "1"}});
  }

  /// Reads on while an answer is made: only so is it seen that the client leaves.
  void watch() {
    watching_ = true;
    socket_.async_read_some(buffer_.prepare(4096), [self = shared_from_this(), reply = reply_](error_code error, std::size_t n) {
      self->watching_ = false;
      if (!error) {
        self->buffer_.commit(n);
        if (self->buffer_.size() > kMaxAhead) {
          reply->leave();
        } else if (!self->unwatch_) {
          self->watch();
        }
      } else if (!self->unwatch_) {
        self->half_closed_ = true;
        reply->leave();
      }
      reply->wake();
    });
  }

  asio::awaitable<bool> answer() {
    const std::shared_ptr<AwaitedReply> reply = reply_;
    if (server_.draining) reply->framing.keep_alive = false;
    unwatch_ = half_closed_ = false;
    bool broken = false;
    watch();
    std::string sending;
    while (!broken && !(reply->gone && (reply->told || reply->streaming))) {
      error_code error;
      if (reply->unsent.empty()) {
        if (reply->finished) break;
        reply->sleep.expires_after(reply->streaming ? server_.options.ping_time : std::chrono::milliseconds(std::chrono::hours(24)));
        co_await reply->sleep.async_wait(asio::redirect_error(asio::use_awaitable, error));
        if (!error && reply->streaming && reply->unsent.empty() && !reply->finished) reply->send(":\n\n");
        continue;
      }
      sending.clear();
      std::swap(sending, reply->unsent);
      expect_within(server_.options.write_time);
      const std::size_t n = co_await asio::async_write(socket_, asio::buffer(sending), asio::redirect_error(asio::use_awaitable, error));
      expect_no_more();
      reply->sent += n;
      broken = static_cast<bool>(error);
    }
    if (broken || !reply->finished || reply->told) {
      reply->leave();
      reply->status = kClientLeft;
      broken = true;
    }
    log();
    // The read that watched ends before the buffer is somebody else's.
    unwatch_ = true;
    while (watching_) {
      error_code error;
      socket_.cancel(error);
      reply->sleep.expires_after(std::chrono::hours(24));
      co_await reply->sleep.async_wait(asio::redirect_error(asio::use_awaitable, error));
    }
    served_ = true;
    reply_.reset();
    co_return !broken && !half_closed_ && reply->framing.keep_alive && !server_.draining && socket_.is_open();
  }

  void log() {
    if (server_.options.done)
      server_.options.done(reply_->request, route_, reply_->status, reply_->sent,
                           std::chrono::duration<double>(Clock::now() - started_).count());
    route_.clear();
  }

  struct Reservation {
    Reservation(std::size_t& sum, std::size_t bytes) : sum_(sum), bytes_(bytes) { sum_ += bytes_; }
    ~Reservation() { sum_ -= bytes_; }
    std::size_t& sum_;
    std::size_t bytes_;
  };

  ServerState& server_;
  asio::any_io_executor thread_;  // runs what is to run on the server's thread
  tcp::socket socket_;
  asio::steady_timer deadline_;
  beast::flat_buffer buffer_;
  std::shared_ptr<AwaitedReply> reply_;  // to the request in hand
  std::string remote_, route_;
  Clock::time_point started_;
  std::uint64_t turn_ = 0;
  bool idle_ = false, served_ = false, timed_out_ = false, watching_ = false, unwatch_ = false, half_closed_ = false;
};

}  // namespace

template <class Socket>
void serve(ServerState& server, Socket socket) {
  const asio::any_io_executor thread = socket.get_executor();
  asio::co_spawn(thread, std::make_shared<OpenConnection>(server, std::move(socket))->run(), asio::detached);
}
template void serve(ServerState&, tcp::socket);

}  // namespace quern::http
