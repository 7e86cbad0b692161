#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "serving/http/detail/message.h"
#include "serving/http/server.h"

namespace quern::http {

/// What is said to one client, between the handler and the connection. The server's thread alone, but for the request.
struct Reply {
  virtual ~Reply() = default;
  /// There is something to do for the connection, which sleeps when there is not.
  virtual void wake() = 0;

  Request request;
  Framing framing;
  Headers common;      // of every answer: request id, CORS
  std::string unsent;  // bytes
  std::size_t sent = 0, most_unsent = 0;
  int status = 0;  // 0: nothing was said yet
  bool streaming = false, finished = false, gone = false, told = false;
  std::function<void()> on_gone;
  std::vector<std::shared_ptr<void>> timers;  // of after(): one that is destroyed does not act any more

  void respond(const Response& response);
  void start_events(const Headers& headers);
  void send(std::string_view bytes);
  void finish();
  /// The client has left, or is given up: the handler is told, once.
  void leave();

 private:
  void complete();
};

/// The handler's way to a reply. Executor: of the server's thread, asio::any_io_executor; a parameter since headers may not include Boost.
template <class Executor>
std::shared_ptr<Exchange> open_exchange(Executor thread, const ServerOptions& options, std::shared_ptr<Reply> reply);

}  // namespace quern::http
