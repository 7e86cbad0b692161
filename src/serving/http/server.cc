// Boost is included here, in detail/connection.cc and detail/reply.cc only: its headers cost more to compile than all else in this room.
#include "serving/http/server.h"

#include <fmt/format.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>
#include <new>

#include "base/error.h"
#include "serving/http/detail/connection.h"
#include "serving/http/detail/message.h"
#include "serving/http/detail/routing.h"

namespace quern::http {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

/// Who is let in, when the server drains and how it ends.
class Server::Loop {
 public:
  Loop(ServerOptions options, std::vector<Route> routes)
      : state_(std::move(options), std::move(routes)), acceptor_(io_), signals_(io_), end_(io_) {
    state_.ended = [this] { stop_if_drained(); };
    if (!state_.options.refusal)
      state_.options.refusal = [](int status, std::string_view message) {
        return Response{.status = status, .body = std::string(message) + "\n", .content_type = "text/plain; charset=utf-8"};
      };
    listen();
  }
  ~Loop() {
    ending_ = true;
    state_.workers.stop();  // before io_ ends, to which its jobs speak
  }

  void listen() {
    error_code error;
    tcp::resolver resolver(io_);
    const auto found = resolver.resolve(state_.options.host, "", tcp::resolver::passive, error);
    if (error || found.empty())
      throw Error(Code::invalid_argument, fmt::format("there is no address '{}': {}", state_.options.host, error.message()));
    const tcp::endpoint endpoint(found.begin()->endpoint().address(), state_.options.port);
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error == asio::error::address_in_use)
      throw Error(Code::unsupported, fmt::format("port {} of {} is taken", state_.options.port, state_.options.host))
          .hint("choose another with --port");
    if (error)
      throw Error(Code::resource_exhausted,
                  fmt::format("cannot listen on {}:{}: {}", state_.options.host, state_.options.port, error.message()));
    port_ = acceptor_.local_endpoint().port();
    // Other addresses are reached by names that we cannot know.
    state_.options.hosts.push_back(endpoint.address().is_loopback() ? state_.options.host : "*");
  }

  void run() {
    asio::co_spawn(io_, accept(), asio::detached);
    io_.run();
    state_.workers.stop();
  }

  void drain(std::chrono::milliseconds most) {
    if (state_.draining.exchange(true)) return;
    for (Connection* c : state_.connections) c->close_if_idle();
    end_.expires_after(most);
    end_.async_wait([this](error_code error) {
      if (error) return;
      for (Connection* c : std::unordered_set(state_.connections)) c->give_up();
      end_.expires_after(std::chrono::seconds(2));  // for the last words
      end_.async_wait([this](error_code again) {
        if (!again) io_.stop();
      });
    });
    stop_if_drained();
  }

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
      if (state_.connections.size() >= state_.options.connections) {
        turn_away(socket);
        continue;
      }
      try {
        serve(state_, std::move(socket));
      } catch (const std::bad_alloc&) {  // this client is out of luck, the next may have more
      }
    }
  }

  void turn_away(tcp::socket& socket) {
    const Response response = refusal(state_.options, 503, "too many connections", {{"retry-after", "1"}});
    const std::string bytes = to_bytes(response, {.keep_alive = false}, {});
    error_code error;
    socket.non_blocking(true, error);
    if (!error) socket.write_some(asio::buffer(bytes), error);
  }

  void stop_if_drained() {
    if (state_.draining && state_.connections.empty() && !ending_) io_.stop();
  }

  void handle_signals(std::chrono::milliseconds most) {
    signals_.add(SIGTERM);
    signals_.add(SIGINT);
    wait_for_signal(most);
  }
  void wait_for_signal(std::chrono::milliseconds most) {
    signals_.async_wait([this, most](error_code error, int) {
      if (error) return;
      if (state_.draining) return io_.stop();
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

  ServerState state_;  // before io_, whose end destroys the connections that are left
  bool ending_ = false;
  std::uint16_t port_ = 0;
  asio::io_context io_{1};
  tcp::acceptor acceptor_;
  asio::signal_set signals_;
  asio::steady_timer end_;
};

Server::Server(ServerOptions options, std::vector<Route> routes) : loop_(std::make_unique<Loop>(std::move(options), std::move(routes))) {}
Server::~Server() = default;
const std::string& Server::host() const { return loop_->state_.options.host; }
std::uint16_t Server::port() const { return loop_->port_; }
void Server::run() { loop_->run(); }
void Server::stop() { loop_->io_.stop(); }
bool Server::draining() const { return loop_->state_.draining; }
void Server::drain(std::chrono::milliseconds most) {
  asio::post(loop_->io_, [this, most] { loop_->drain(most); });
}
void Server::handle_signals(std::chrono::milliseconds drain) { loop_->handle_signals(drain); }
void Server::post(std::function<void()> act) { asio::post(loop_->io_, std::move(act)); }
void Server::every(std::chrono::milliseconds time, std::function<void()> act) { loop_->every(time, std::move(act)); }

}  // namespace quern::http
