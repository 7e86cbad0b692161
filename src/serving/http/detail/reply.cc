#include "serving/http/detail/reply.h"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <utility>

namespace quern::http {

namespace asio = boost::asio;

void Reply::respond(const Response& response) {
  if (status != 0) return;
  status = response.status;
  unsent += to_bytes(response, framing, common);
  complete();
}

void Reply::start_events(const Headers& headers) {
  if (status != 0) return;
  status = 200;
  streaming = true;
  if (!framing.chunked) framing.keep_alive = false;
  unsent += event_head(headers, framing, common);
  wake();
}

void Reply::send(std::string_view bytes) {
  if (!streaming || finished || gone || bytes.empty()) return;
  append_chunk(unsent, bytes, framing);
  if (unsent.size() > most_unsent) leave();
  wake();
}

void Reply::finish() {
  if (!streaming || finished) return;
  if (framing.chunked) unsent += "0\r\n\r\n";
  complete();
}

void Reply::leave() {
  gone = true;
  if (!on_gone || told || finished) return;
  told = true;
  std::exchange(on_gone, nullptr)();
}

void Reply::complete() {
  finished = true;
  on_gone = nullptr;
  timers.clear();
  wake();
}

namespace {

/// What handlers hold.
class OpenExchange final : public Exchange {
 public:
  OpenExchange(asio::any_io_executor thread, const ServerOptions& options, std::shared_ptr<Reply> reply)
      : thread_(std::move(thread)), options_(options), reply_(std::move(reply)) {}
  ~OpenExchange() override {
    // Behind what other threads have said, even if this one is the server's.
    asio::post(thread_, [&options = options_, reply = std::move(reply_)] {
      if (reply->status == 0 && !reply->gone) reply->respond(options.refusal(500, "the request was lost"));
      reply->finish();
    });
  }
  const Request& request() const override { return reply_->request; }
  void respond(Response response) override {
    on_thread([response = std::move(response)](Reply& reply) { reply.respond(response); });
  }
  void start_events(Headers headers) override {
    on_thread([headers = std::move(headers)](Reply& reply) { reply.start_events(headers); });
  }
  void send(std::string bytes) override {
    on_thread([bytes = std::move(bytes)](Reply& reply) { reply.send(bytes); });
  }
  void finish() override {
    on_thread([](Reply& reply) { reply.finish(); });
  }
  void on_gone(std::function<void()> gone) override {
    on_thread([gone = std::move(gone)](Reply& reply) {
      if (reply.finished) return;
      reply.on_gone = gone;
      if (!reply.gone) return;
      reply.leave();
      reply.wake();
    });
  }
  void after(std::chrono::milliseconds time, std::function<void()> act) override {
    on_thread([thread = thread_, time, act = std::move(act)](Reply& reply) {
      if (reply.finished) return;
      const auto timer = std::make_shared<asio::steady_timer>(thread, time);
      timer->async_wait([act](boost::system::error_code error) {
        if (!error) act();
      });
      reply.timers.push_back(timer);
    });
  }

 private:
  template <class Act>
  void on_thread(Act act) {
    asio::dispatch(thread_, [act = std::move(act), reply = reply_]() mutable { act(*reply); });
  }

  asio::any_io_executor thread_;
  const ServerOptions& options_;
  std::shared_ptr<Reply> reply_;
};

}  // namespace

template <class Executor>
std::shared_ptr<Exchange> open_exchange(Executor thread, const ServerOptions& options, std::shared_ptr<Reply> reply) {
  return std::make_shared<OpenExchange>(std::move(thread), options, std::move(reply));
}
template std::shared_ptr<Exchange> open_exchange(asio::any_io_executor, const ServerOptions&, std::shared_ptr<Reply>);

}  // namespace quern::http
