// The only file that includes Boost: its headers cost more to compile than all else here.
#include "serving/http/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <csignal>
#include <optional>
#include <random>
#include <unordered_set>

#include "base/error.h"
#include "serving/http/detail/message.h"
#include "serving/http/detail/workers.h"

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

/// What is said to one client, between the handler and the connection's coroutine. The server's thread alone, but for the request.
struct Reply {
  explicit Reply(asio::io_context& io) : wake(io) {}

  Request request;
  Framing framing;
  Headers common;      // of every answer: request id, CORS
  std::string unsent;  // bytes
  std::size_t sent = 0, most_unsent = 0;
  int status = 0;  // 0: nothing was said yet
  bool streaming = false, finished = false, gone = false, told = false;
  std::function<void()> on_gone;
  asio::steady_timer wake;                                  // cancelled when there is something to do
  std::vector<std::unique_ptr<asio::steady_timer>> timers;  // of after()

  void leave() {
    gone = true;
    if (!on_gone || told || finished) return;
    told = true;
    std::exchange(on_gone, nullptr)();
  }
  void complete() {
    finished = true;
    on_gone = nullptr;
    timers.clear();
    wake.cancel();
  }
  void respond(const Response& response) {
    if (status != 0) return;
    status = response.status;
    unsent += to_bytes(response, framing, common);
    complete();
  }
  void start_events(const Headers& headers) {
    if (status != 0) return;
    status = 200;
    streaming = true;
    if (!framing.chunked) framing.keep_alive = false;
    unsent += event_head(headers, framing, common);
    wake.cancel();
  }
  void send(std::string_view bytes) {
    if (!streaming || finished || gone || bytes.empty()) return;
    append_chunk(unsent, bytes, framing);
    if (unsent.size() > most_unsent) leave();
    wake.cancel();
  }
  void finish() {
    if (!streaming || finished) return;
    if (framing.chunked) unsent += "0\r\n\r\n";
    complete();
  }
};

}  // namespace

class Server::Loop {
 public:
  Loop(ServerOptions options, std::vector<Route> routes)
      : options_(std::move(options)),
        routes_(std::move(routes)),
        acceptor_(io_),
        signals_(io_),
        end_(io_),
        workers_(options_.workers, options_.waiting) {
    if (!options_.refusal)
      options_.refusal = [](int status, std::string_view message) {
        return Response{.status = status, .body = std::string(message) + "\n", .content_type = "text/plain; charset=utf-8"};
      };
    listen();
  }
  ~Loop() { ending_ = true; }

  void listen() {
    error_code error;
    tcp::resolver resolver(io_);
    const auto found = resolver.resolve(options_.host, "", tcp::resolver::passive, error);
    if (error || found.empty())
      throw Error(Code::invalid_argument, fmt::format("there is no address '{}': {}", options_.host, error.message()));
    const tcp::endpoint endpoint(found.begin()->endpoint().address(), options_.port);
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error == asio::error::address_in_use)
      throw Error(Code::unsupported, fmt::format("port {} of {} is taken", options_.port, options_.host))
          .hint("choose another with --port");
    if (error)
      throw Error(Code::resource_exhausted, fmt::format("cannot listen on {}:{}: {}", options_.host, options_.port, error.message()));
    port_ = acceptor_.local_endpoint().port();
    options_.hosts.push_back(endpoint.address().is_loopback() ? options_.host : "*");  // others are reached by names that we cannot know
  }

  void run() {
    asio::co_spawn(io_, accept(), asio::detached);
    io_.run();
    workers_.stop();
  }

  void drain(std::chrono::milliseconds most) {
    if (draining_.exchange(true)) return;
    for (Connection* c : connections_) c->close_if_idle();
    end_.expires_after(most);
    end_.async_wait([this](error_code error) {
      if (error) return;
      for (Connection* c : std::unordered_set(connections_)) c->give_up();
      end_.expires_after(std::chrono::seconds(2));  // for the last words
      end_.async_wait([this](error_code again) {
        if (!again) io_.stop();
      });
    });
    stop_if_drained();
  }

  // --- one connection ------------------------------------------------------------------------------------------------------------

  class Connection : public std::enable_shared_from_this<Connection> {
   public:
    Connection(Loop& loop, tcp::socket socket) : loop_(loop), socket_(std::move(socket)), deadline_(loop.io_) {
      loop_.connections_.insert(this);
      error_code error;
      const tcp::endpoint remote = socket_.remote_endpoint(error);
      if (!error) remote_ = fmt::format("{}:{}", remote.address().to_string(), remote.port());
      socket_.set_option(tcp::no_delay(true), error);
      socket_.set_option(asio::socket_base::keep_alive(true), error);
    }
    ~Connection() {
      loop_.connections_.erase(this);
      loop_.stop_if_drained();
    }

    void close_if_idle() {
      if (idle_) close();
    }
    void give_up() {
      if (!reply_) return close();
      reply_->leave();
      reply_->wake.cancel();
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
        if (loop_.draining_ && served_) co_return false;
        idle_ = true;
        expect_within(loop_.options_.idle_time);
        const std::size_t n = co_await socket_.async_read_some(buffer_.prepare(4096), asio::redirect_error(asio::use_awaitable, error));
        idle_ = false;
        expect_no_more();
        if (error) co_return false;
        buffer_.commit(n);
      }
      std::optional<Parser> parser(std::in_place);
      parser->header_limit(static_cast<std::uint32_t>(loop_.options_.header_bytes));
      parser->body_limit(loop_.options_.body_bytes);
      started_ = Clock::now();
      expect_within(loop_.options_.header_time);
      co_await beast::http::async_read_header(socket_, buffer_, *parser, asio::redirect_error(asio::use_awaitable, error));
      expect_no_more();
      reply_ = std::make_shared<Reply>(loop_.io_);
      reply_->most_unsent = loop_.options_.unsent_bytes;
      reply_->request.id = fresh_id();
      reply_->request.remote = remote_;
      if (error) co_return co_await refuse_unread(error, "the header");
      take_head(*parser);

      const auto length = parser->content_length();
      const std::size_t reserved = length ? static_cast<std::size_t>(*length) : parser->chunked() ? loop_.options_.body_bytes : 0;
      if (loop_.bodies_ + reserved > loop_.options_.bodies_bytes) {
        refuse(503, "the server has no room for another request now");
        co_return co_await answer_unread();
      }
      const Reservation reservation(loop_.bodies_, reserved);
      if (!parser->is_done()) {
        expect_within(loop_.options_.body_time);
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
      add_cors();
    }

    void add_cors() {
      const std::string_view origin = reply_->request.header("origin");
      if (origin.empty()) return;
      for (const std::string& allowed : loop_.options_.cors_origins) {
        if (allowed != "*" && allowed != origin) continue;
        reply_->common.emplace_back("access-control-allow-origin", allowed == "*" ? "*" : std::string(origin));
        reply_->common.emplace_back("access-control-expose-headers", "x-request-id, x-ignored-fields");
        if (allowed != "*") reply_->common.emplace_back("vary", "origin");
        return;
      }
    }

    void refuse(int status, std::string_view message, Headers headers = {}) {
      Response response = loop_.options_.refusal(status, message);
      response.headers.insert(response.headers.end(), headers.begin(), headers.end());
      reply_->respond(response);
    }

    /// Says why a request could not be read, where there is somebody to tell.
    asio::awaitable<bool> refuse_unread(error_code error, std::string_view part) {
      namespace http = beast::http;
      if (timed_out_) {
        refuse(408, fmt::format("{} of the request did not come in time", part));
      } else if (error == http::error::header_limit) {
        refuse(431, fmt::format("the header has more than {} bytes", loop_.options_.header_bytes));
      } else if (error == http::error::body_limit) {
        refuse(413, fmt::format("the body has more than {} bytes", loop_.options_.body_bytes));
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

    // --- who answers ---------------------------------------------------------------------------------------------------------------

    static bool matches(const Route& route, std::string_view path) {
      if (!route.path.ends_with("/*")) return route.path == path;
      const std::string_view stem = std::string_view(route.path).substr(0, route.path.size() - 1);
      return path.size() > stem.size() && path.starts_with(stem);
    }

    void dispatch() {
      const Request& request = reply_->request;
      if (!is_known_host(request.header("host"), loop_.options_.hosts) && !request.header("host").empty())
        return refuse(403, "the Host header names another server");
      if (request.path.empty() || request.path[0] != '/') return refuse(400, "the request names no path");
      const std::string_view method = request.method == "HEAD" ? "GET" : std::string_view(request.method);
      const Route* found = nullptr;
      std::string methods;
      for (const Route& route : loop_.routes_) {
        if (!matches(route, request.path)) continue;
        if (route.method == method) {
          found = &route;
          break;
        }
        methods += (methods.empty() ? "" : ", ") + route.method;
      }
      if (found == nullptr && request.method == "OPTIONS" && !methods.empty()) return answer_preflight(methods);
      if (found == nullptr && !methods.empty())
        return refuse(405, fmt::format("{} takes {}, not {}", request.path, methods, request.method), {{"allow", methods}});
      if (found == nullptr) return refuse(404, fmt::format("there is no {} here", request.path));
      route_ = found->path;
      if (!found->open && loop_.options_.admits && !loop_.options_.admits(request))
        return refuse(401, "a valid API key is needed: Authorization: Bearer KEY", {{"www-authenticate", "Bearer"}});
      // A form of another site can send anything but JSON without being asked.
      const bool from_page = !request.header("origin").empty() || !request.header("sec-fetch-site").empty();
      if (from_page && method == "POST" && !lower(request.header("content-type")).starts_with("application/json"))
        return refuse(415, "what a web page sends must have the content type application/json");
      if (loop_.draining_ && !found->open) return refuse(503, "the server is shutting down", {{"retry-after", "5"}});
      const auto exchange = std::make_shared<OpenExchange>(loop_, reply_);
      if (!found->on_worker) return call(*found, exchange);
      if (!loop_.workers_.add([exchange, found] { call(*found, exchange); }))
        refuse(429, "too many requests wait already", {{"retry-after", "1"}});
    }

    static void call(const Route& route, const std::shared_ptr<Exchange>& exchange) {
      try {
        route.handler(exchange);
      } catch (const std::exception& error) {
        exchange->respond(static_cast<OpenExchange&>(*exchange).loop().options_.refusal(500, error.what()));
      }
    }

    void answer_preflight(const std::string& methods) {
      Response response{.status = 204};
      if (!reply_->request.header("origin").empty() && reply_->common.size() > 1)
        response.headers = {
            {"access-control-allow-methods", methods},
            {"access-control-allow-headers", "authorization, content-type, x-api-key, api-key, x-request-id, x-request-timeout-ms"},
            {"access-control-max-age", "600"}};
      reply_->respond(response);
    }

    // --- the answer ------------------------------------------------------------------------------------------------------------------

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
        reply->wake.cancel();
      });
    }

    asio::awaitable<bool> answer() {
      const std::shared_ptr<Reply> reply = reply_;
      if (loop_.draining_) reply->framing.keep_alive = false;
      unwatch_ = half_closed_ = false;
      bool broken = false;
      watch();
      std::string sending;
      while (!broken && !(reply->gone && (reply->told || reply->streaming))) {
        error_code error;
        if (reply->unsent.empty()) {
          if (reply->finished) break;
          reply->wake.expires_after(reply->streaming ? loop_.options_.ping_time : std::chrono::milliseconds(std::chrono::hours(24)));
          co_await reply->wake.async_wait(asio::redirect_error(asio::use_awaitable, error));
          if (!error && reply->streaming && reply->unsent.empty() && !reply->finished) reply->send(":\n\n");
          continue;
        }
        sending.clear();
        std::swap(sending, reply->unsent);
        expect_within(loop_.options_.write_time);
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
        reply->wake.expires_after(std::chrono::hours(24));
        co_await reply->wake.async_wait(asio::redirect_error(asio::use_awaitable, error));
      }
      served_ = true;
      reply_.reset();
      co_return !broken && !half_closed_ && reply->framing.keep_alive && !loop_.draining_ && socket_.is_open();
    }

    void log() {
      if (loop_.options_.done)
        loop_.options_.done(reply_->request, route_, reply_->status, reply_->sent,
                            std::chrono::duration<double>(Clock::now() - started_).count());
      route_.clear();
    }

    struct Reservation {
      Reservation(std::size_t& sum, std::size_t bytes) : sum_(sum), bytes_(bytes) { sum_ += bytes_; }
      ~Reservation() { sum_ -= bytes_; }
      std::size_t& sum_;
      std::size_t bytes_;
    };

    Loop& loop_;
    tcp::socket socket_;
    asio::steady_timer deadline_;
    beast::flat_buffer buffer_;
    std::shared_ptr<Reply> reply_;  // to the request in hand
    std::string remote_, route_;
    Clock::time_point started_;
    std::uint64_t turn_ = 0;
    bool idle_ = false, served_ = false, timed_out_ = false, watching_ = false, unwatch_ = false, half_closed_ = false;
  };

  /// What handlers hold.
  class OpenExchange final : public Exchange {
   public:
    OpenExchange(Loop& loop, std::shared_ptr<Reply> reply) : loop_(loop), reply_(std::move(reply)) {}
    ~OpenExchange() override {
      // Behind what other threads have said, even if this one is the server's.
      asio::post(loop_.io_, [&loop = loop_, reply = std::move(reply_)] {
        if (reply->status == 0 && !reply->gone) reply->respond(loop.options_.refusal(500, "the request was lost"));
        reply->finish();
      });
    }
    Loop& loop() { return loop_; }
    const Request& request() const override { return reply_->request; }
    void respond(Response response) override {
      on_loop([response = std::move(response)](Reply& reply) { reply.respond(response); });
    }
    void start_events(Headers headers) override {
      on_loop([headers = std::move(headers)](Reply& reply) { reply.start_events(headers); });
    }
    void send(std::string bytes) override {
      on_loop([bytes = std::move(bytes)](Reply& reply) { reply.send(bytes); });
    }
    void finish() override {
      on_loop([](Reply& reply) { reply.finish(); });
    }
    void on_gone(std::function<void()> gone) override {
      on_loop([gone = std::move(gone)](Reply& reply) {
        if (reply.finished) return;
        reply.on_gone = gone;
        if (!reply.gone) return;
        reply.leave();
        reply.wake.cancel();
      });
    }
    void after(std::chrono::milliseconds time, std::function<void()> act) override {
      on_loop([&loop = loop_, time, act = std::move(act)](Reply& reply) {
        if (reply.finished) return;
        auto& timer = reply.timers.emplace_back(std::make_unique<asio::steady_timer>(loop.io_, time));
        timer->async_wait([act](error_code error) {
          if (!error) act();
        });
      });
    }

   private:
    template <class Act>
    void on_loop(Act act) {
      asio::dispatch(loop_.io_, [act = std::move(act), reply = reply_]() mutable { act(*reply); });
    }

    Loop& loop_;
    std::shared_ptr<Reply> reply_;
  };

  // --- all connections -----------------------------------------------------------------------------------------------------------------

  asio::awaitable<void> accept() {
    while (acceptor_.is_open()) {
      error_code error;
      tcp::socket socket = co_await acceptor_.async_accept(asio::redirect_error(asio::use_awaitable, error));
      if (error == asio::error::operation_aborted) co_return;
      if (error) {  // no file descriptor left, perhaps: those that end give some back
        asio::steady_timer pause(io_, std::chrono::milliseconds(100));
        co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
        continue;
      }
      if (connections_.size() >= options_.connections) {
        turn_away(socket);
        continue;
      }
      try {
        const auto connection = std::make_shared<Connection>(*this, std::move(socket));
        asio::co_spawn(io_, connection->run(), asio::detached);
      } catch (const std::bad_alloc&) {  // this client is out of luck, the next may have more
      }
    }
  }

  void turn_away(tcp::socket& socket) {
    Response response = options_.refusal(503, "too many connections");
    response.headers.emplace_back("retry-after", "1");
    const std::string bytes = to_bytes(response, {.keep_alive = false}, {});
    error_code error;
    socket.non_blocking(true, error);
    if (!error) socket.write_some(asio::buffer(bytes), error);
  }

  void stop_if_drained() {
    if (draining_ && connections_.empty() && !ending_) io_.stop();
  }

  void handle_signals(std::chrono::milliseconds most) {
    signals_.add(SIGTERM);
    signals_.add(SIGINT);
    wait_for_signal(most);
  }
  void wait_for_signal(std::chrono::milliseconds most) {
    signals_.async_wait([this, most](error_code error, int) {
      if (error) return;
      if (draining_) return io_.stop();
      wait_for_signal(most);
      drain(most);
    });
  }

  void every(std::chrono::milliseconds time, std::function<void()> act) {
    asio::co_spawn(
        io_,
        [this, time, act = std::move(act)]() -> asio::awaitable<void> {
          asio::steady_timer timer(io_);
          for (;;) {
            timer.expires_after(time);
            co_await timer.async_wait(asio::use_awaitable);
            act();
          }
        },
        asio::detached);
  }

  ServerOptions options_;
  std::vector<Route> routes_;
  std::unordered_set<Connection*> connections_;  // before io_, whose end destroys what still runs
  std::size_t bodies_ = 0;
  std::atomic<bool> draining_{false};
  bool ending_ = false;
  std::uint16_t port_ = 0;
  asio::io_context io_{1};
  tcp::acceptor acceptor_;
  asio::signal_set signals_;
  asio::steady_timer end_;
  Workers workers_;  // ends first: its jobs speak to the loop
};

Server::Server(ServerOptions options, std::vector<Route> routes) : loop_(std::make_unique<Loop>(std::move(options), std::move(routes))) {}
Server::~Server() = default;
const std::string& Server::host() const { return loop_->options_.host; }
std::uint16_t Server::port() const { return loop_->port_; }
void Server::run() { loop_->run(); }
void Server::stop() { loop_->io_.stop(); }
bool Server::draining() const { return loop_->draining_; }
void Server::drain(std::chrono::milliseconds most) {
  asio::post(loop_->io_, [this, most] { loop_->drain(most); });
}
void Server::handle_signals(std::chrono::milliseconds drain) { loop_->handle_signals(drain); }
void Server::post(std::function<void()> act) { asio::post(loop_->io_, std::move(act)); }
void Server::every(std::chrono::milliseconds time, std::function<void()> act) { loop_->every(time, std::move(act)); }

}  // namespace quern::http
