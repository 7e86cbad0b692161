#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "serving/http/detail/workers.h"
#include "serving/http/server.h"

namespace quern::http {

/// One client, as the server sees it.
class Connection {
 public:
  virtual ~Connection() = default;
  virtual void close_if_idle() = 0;
  /// What is being answered ends as if the client had left.
  virtual void give_up() = 0;
};

/// What the connections of a server share. The server's thread alone, but for `draining`.
struct ServerState {
  ServerState(ServerOptions given, std::vector<Route> table)
      : options(std::move(given)), routes(std::move(table)), workers(options.workers, options.waiting) {}

  ServerOptions options;
  std::vector<Route> routes;
  std::unordered_set<Connection*> connections;
  std::size_t bodies = 0;       // bytes of all requests being read and answered
  std::function<void()> ended;  // called when a connection has left the set
  std::atomic<bool> draining{false};
  Workers workers;
};

/// Serves a client on the server's thread until one of the two ends the connection. Returns at once. Socket: asio::ip::tcp::socket; a
/// parameter since headers may not include Boost.
template <class Socket>
void serve(ServerState& server, Socket socket);

}  // namespace quern::http
