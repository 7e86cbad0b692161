#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quern::http {

using Headers = std::vector<std::pair<std::string, std::string>>;

/// A request that was read to its end. All of it is untrusted but for sizes.
struct Request {
  std::string method, path, query;  // "/v1/models", and what follows the '?'
  Headers headers;                  // names in lower case
  std::string body;
  std::string id;                                        // of the client's x-request-id, or made here
  std::string remote = {};                               // address and port
  bool has_body = false;                                 // perhaps an empty one
  std::string_view header(std::string_view name) const;  // empty when absent; of several the first
};

struct Response {
  int status = 200;
  std::string body = {};
  std::string content_type = "application/json";
  Headers headers = {};
};

/// One request and the way back to whoever sent it. Methods may be called from any thread and return at once; what is said first is sent
/// first. Either one respond(), or start_events(), send()… and finish(). If the last reference goes before that, the client gets a 500.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual const Request& request() const = 0;
  virtual void respond(Response response) = 0;
  /// 200 with a body of server-sent events; a comment is sent whenever nothing else was for a while.
  virtual void start_events(Headers headers = {}) = 0;
  virtual void send(std::string bytes) = 0;
  virtual void finish() = 0;
  /// `gone` is called once, on the server's thread, when the client has closed its side (at once if it has already), or when the server
  /// gives up waiting at the end of a drain. Not any more after the answer is complete.
  virtual void on_gone(std::function<void()> gone) = 0;
  /// `act` is called on the server's thread after this time, unless the answer is complete by then.
  virtual void after(std::chrono::milliseconds time, std::function<void()> act) = 0;
};

using Handler = std::function<void(const std::shared_ptr<Exchange>&)>;

struct Route {
  std::string method;      // "GET" answers HEAD as well
  std::string path;        // exact, or with a last "/*" that stands for one more piece of any text
  Handler handler;         // what it throws is answered with 500
  bool on_worker = false;  // runs on a thread of its own kind, where it may take its time; otherwise on the server's thread, at once
  bool open = false;       // needs no key
};

struct ServerOptions {
  std::string host = "127.0.0.1";  // a name or an address
  std::uint16_t port = 8080;       // 0: any that is free

  std::size_t header_bytes = 16 << 10;
  std::size_t body_bytes = 16 << 20;
  std::size_t bodies_bytes = 512 << 20;  // of all requests being read and answered
  std::size_t unsent_bytes = 4 << 20;    // a client that lets so much pile up is gone
  std::size_t connections = 4096;
  std::size_t waiting = 1024;  // requests that wait for a worker
  unsigned workers = 2;        // threads for handlers that may take their time
  std::chrono::milliseconds header_time{10'000}, body_time{60'000}, idle_time{75'000}, write_time{30'000}, ping_time{15'000};

  std::vector<std::string> cors_origins = {};  // "*" or origins; empty: no page of another origin may read an answer
  std::vector<std::string> hosts = {};         // names that a Host header may have beside loopback's; "*": any

  /// The request may pass: keys. Null: all may.
  std::function<bool(const Request&)> admits = nullptr;
  /// How the server itself says no.
  std::function<Response(int status, std::string_view message)> refusal = nullptr;
  /// Hears of every answered request, on the server's thread. `route`: the path of the route, empty if there was none. `status` 499: the
  /// client left first.
  std::function<void(const Request&, std::string_view route, int status, std::size_t bytes, double seconds)> done = nullptr;
};

/// An HTTP/1.1 server: one thread for all sockets, some for handlers that take their time.
class Server {
 public:
  /// Listens from here on. Errors: invalid_argument (no such address), resource_exhausted, unsupported (the port is taken: says so).
  Server(ServerOptions options, std::vector<Route> routes);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  const std::string& host() const;
  std::uint16_t port() const;

  /// Serves on the calling thread until stop() or the end of a drain. No handler runs any more when it returns.
  void run();
  /// From any thread. New requests get 503 with Retry-After, what runs may go on for `most`; then run() returns.
  void drain(std::chrono::milliseconds most);
  void stop();
  /// While run() runs, the first of SIGTERM or SIGINT drains, the next stops.
  void handle_signals(std::chrono::milliseconds drain);
  bool draining() const;
  /// Runs `act` on the server's thread. From any thread.
  void post(std::function<void()> act);
  /// Runs `act` on the server's thread again and again while run() runs.
  void every(std::chrono::milliseconds time, std::function<void()> act);

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

/// The reason phrase of a status.
std::string_view reason(int status);
/// Whether the text may stand in a header as a value that came from outside: 1 to 128 of A-Z a-z 0-9 . _ : -
bool is_plain_word(std::string_view text);

}  // namespace quern::http
