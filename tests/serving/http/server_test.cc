#include "serving/http/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "serving/client.h"

namespace quern::http {
namespace {

using testing::Client;
using testing::Reply;
using namespace std::chrono_literals;
using ::testing::HasSubstr;

bool soon(const std::function<bool()>& true_now) {
  for (int i = 0; i < 2000; ++i) {
    if (true_now()) return true;
    std::this_thread::sleep_for(5ms);
  }
  return false;
}

/// A server in a thread, with routes that answer at once, take their time, stream, and never answer.
class Running {
 public:
  explicit Running(ServerOptions options = {}) {
    options.port = 0;
    options.done = [this](const Request&, std::string_view, int status, std::size_t, double) {
      const std::lock_guard lock(mutex_);
      statuses_.push_back(status);
    };
    std::vector<Route> routes;
    routes.push_back({"GET", "/now", [](const auto& e) { e->respond({.body = "now"}); }, false, false});
    routes.push_back({"GET", "/open", [](const auto& e) { e->respond({.body = "open"}); }, false, true});
    routes.push_back({"POST", "/echo", [](const auto& e) { e->respond({.body = e->request().body}); }, true, false});
    routes.push_back({"GET", "/throw", [](const auto&) { throw std::runtime_error("what went wrong"); }, true, false});
    routes.push_back({"GET", "/lose", [](const auto&) {}, true, false});
    routes.push_back(
        {"GET", "/item/*", [](const auto& e) { e->respond({.body = e->request().path + "?" + e->request().query}); }, false, false});
    routes.push_back({"GET", "/three",
                      [](const auto& e) {
                        e->start_events();
                        for (const char* word : {"one", "two", "three"}) e->send("data: " + std::string(word) + "\n\n");
                        e->finish();
                      },
                      true, false});
    const auto hold = [this](const std::shared_ptr<Exchange>& e, bool stream) {
      if (stream) {
        e->start_events();
        e->send("data: begun\n\n");
      }
      e->on_gone([this] { ++gone; });
      const std::lock_guard lock(mutex_);
      held.push_back(e);
    };
    routes.push_back({"GET", "/hold", [hold](const auto& e) { hold(e, false); }, true, false});
    routes.push_back({"GET", "/stream", [hold](const auto& e) { hold(e, true); }, true, false});
    routes.push_back(
        {"GET", "/late", [](const std::shared_ptr<Exchange>& e) { e->after(50ms, [e] { e->respond({.body = "late"}); }); }, false, false});
    server = std::make_unique<Server>(std::move(options), std::move(routes));
    thread_ = std::thread([this] { server->run(); });
  }
  ~Running() {
    server->stop();
    thread_.join();
    held.clear();
  }
  std::uint16_t port() const { return server->port(); }
  void join() {
    thread_.join(), thread_ = std::thread([] {});
  }
  std::shared_ptr<Exchange> take() {
    std::shared_ptr<Exchange> e;
    soon([&] {
      const std::lock_guard lock(mutex_);
      if (held.empty()) return false;
      e = held.back();
      held.pop_back();
      return true;
    });
    return e;
  }
  std::vector<int> statuses() {
    const std::lock_guard lock(mutex_);
    return statuses_;
  }

  std::unique_ptr<Server> server;
  std::atomic<int> gone{0};
  std::vector<std::shared_ptr<Exchange>> held;

 private:
  std::mutex mutex_;
  std::vector<int> statuses_;
  std::thread thread_;
};

Reply answer_to(std::uint16_t port, const std::string& bytes) {
  Client client(port);
  client.send(bytes);
  return client.reply();
}

TEST(Http, answers_many_requests_on_one_connection_also_sent_ahead) {
  Running running;
  Client client(running.port());
  for (int i = 0; i < 5; ++i) {
    client.get("/now");
    const Reply reply = client.reply();
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.body, "now");
  }
  client.send("POST /echo HTTP/1.1\r\nHost: a.localhost\r\n\r\n");
  EXPECT_EQ(client.reply().status, 403) << "another name";
  for (int i = 0; i < 20; ++i) client.post("/echo", "body " + std::to_string(i));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(client.reply().body, "body " + std::to_string(i));
  client.get("/now", "Connection: close\r\n");
  EXPECT_TRUE(client.reply().has("connection: close"));
  EXPECT_TRUE(client.ends());
}

TEST(Http, a_request_may_come_byte_by_byte_and_in_chunks) {
  Running running;
  Client client(running.port());
  for (const char c : std::string(
           "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n4;x=y\r\nhalf\r\n5\r\n done\r\n0\r\n\r\n")) {
    client.send({&c, 1});
    if (c == '\n') std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(client.reply().body, "half done");
  client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(client.reply().status, 100);
}

TEST(Http, a_stream_is_sent_in_chunks_that_end_and_leaves_the_connection_usable) {
  Running running;
  Client client(running.port());
  client.get("/three");
  const Reply reply = client.reply();
  EXPECT_TRUE(reply.has("content-type: text/event-stream; charset=utf-8"));
  EXPECT_TRUE(reply.has("x-accel-buffering: no"));
  EXPECT_EQ(reply.body, "data: one\n\ndata: two\n\ndata: three\n\n");
  client.get("/now");
  EXPECT_EQ(client.reply().body, "now");
  Client old(running.port());
  old.send("GET /three HTTP/1.0\r\n\r\n");
  const Reply plain = old.reply();
  EXPECT_FALSE(plain.has("chunked")) << "HTTP/1.0 has no chunks";
  EXPECT_EQ(plain.body, "data: one\n\ndata: two\n\ndata: three\n\n");
}

TEST(Http, what_is_sent_arrives_at_once) {
  Running running;
  Client client(running.port());
  client.get("/stream");
  EXPECT_THAT(client.until("begun\n\n\r\n"), HasSubstr("200 OK"));
  const auto exchange = running.take();
  for (int i = 0; i < 5; ++i) {
    exchange->send("data: " + std::to_string(i) + "\n\n");
    EXPECT_THAT(client.until("\n\n\r\n"), HasSubstr("data: " + std::to_string(i)));
  }
  exchange->finish();
  EXPECT_EQ(client.until("0\r\n\r\n"), "0\r\n\r\n");
}

TEST(Http, a_quiet_stream_is_kept_alive_by_comments) {
  Running running({.ping_time = 20ms});
  Client client(running.port());
  client.get("/stream");
  EXPECT_FALSE(client.until(":\n\n").empty());
  EXPECT_FALSE(client.until(":\n\n").empty());
}

TEST(Http, a_client_that_leaves_is_noticed_while_streaming_and_while_waiting) {
  Running running;
  for (const char* path : {"/stream", "/hold"})
    for (const bool half : {false, true}) {
      const int before = running.gone;
      Client client(running.port());
      client.get(path);
      const auto exchange = running.take();
      ASSERT_TRUE(exchange);
      if (half) {
        client.half_close();
      } else {
        client.close();
      }
      EXPECT_TRUE(soon([&] { return running.gone == before + 1; })) << path;
      if (half) {
        EXPECT_TRUE(soon([&] { return client.rest(), true; }));
      }
      EXPECT_TRUE(soon([&] { return !running.statuses().empty() && running.statuses().back() == 499; }));
    }
}

TEST(Http, a_client_may_close_its_side_and_still_get_a_quick_answer) {
  Running running;
  Client client(running.port());
  client.get("/now");
  client.half_close();
  EXPECT_EQ(client.reply().body, "now");
  EXPECT_TRUE(client.ends());
}

TEST(Http, a_client_that_does_not_read_is_given_up) {
  Running running({.unsent_bytes = 1 << 20, .write_time = 200ms});
  Client client(running.port());
  client.get("/stream");
  const auto exchange = running.take();
  for (int i = 0; i < 200 && running.gone == 0; ++i) {
    exchange->send(std::string(1 << 16, 'x'));
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_TRUE(soon([&] { return running.gone == 1; }));
}

TEST(Http, refuses_what_is_too_large_or_not_http_and_says_so) {
  Running running({.header_bytes = 2048, .body_bytes = 1000});
  const std::string host = " HTTP/1.1\r\nHost: localhost\r\n";
  EXPECT_EQ(answer_to(running.port(), "GET /now" + host + "X: " + std::string(100'000, 'x') + "\r\n\r\n").status, 431);
  EXPECT_EQ(answer_to(running.port(), "POST /echo" + host + "Content-Length: 1001\r\n\r\n" + std::string(1001, 'x')).status, 413);
  EXPECT_EQ(answer_to(running.port(), "POST /echo" + host + "Content-Length: 99999999999999999999\r\n\r\n").status, 400);
  EXPECT_EQ(answer_to(running.port(), "POST /echo" + host + "Transfer-Encoding: chunked\r\n\r\nzz\r\n").status, 400);
  EXPECT_EQ(answer_to(running.port(), "POST /echo" + host + "Transfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n").status, 400);
  std::string many;
  for (int i = 0; i < 300; ++i) many += "5\r\nhello\r\n";
  EXPECT_EQ(answer_to(running.port(), "POST /echo" + host + "Transfer-Encoding: chunked\r\n\r\n" + many).status, 413);
  EXPECT_EQ(answer_to(running.port(), "nonsense\r\n\r\n").status, 400);
  EXPECT_EQ(answer_to(running.port(), std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + "\r\n\r\n").status, 400) << "TLS";
  EXPECT_EQ(answer_to(running.port(), "GET now" + host + "\r\n").status, 400);
  EXPECT_EQ(answer_to(running.port(), "GET /nothing" + host + "\r\n").status, 404);
  EXPECT_EQ(answer_to(running.port(), "DELETE /now" + host + "\r\n").status, 405);
  EXPECT_EQ(answer_to(running.port(), "GET /throw" + host + "\r\n").status, 500);
  EXPECT_EQ(answer_to(running.port(), "GET /lose" + host + "\r\n").status, 500);
  EXPECT_EQ(answer_to(running.port(), "GET /now" + host + "\r\n").status, 200) << "none of it harmed the server";
}

TEST(Http, a_slow_header_body_or_idle_connection_is_ended) {
  Running running({.header_time = 80ms, .body_time = 80ms, .idle_time = 80ms});
  Client header(running.port()), body(running.port()), idle(running.port());
  header.send("GET /now HTTP/1.1\r\nHo");
  body.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nab");
  EXPECT_EQ(header.reply().status, 408);
  EXPECT_EQ(body.reply().status, 408);
  EXPECT_TRUE(idle.ends());
}

TEST(Http, refuses_more_connections_than_it_may_have) {
  Running running({.connections = 2});
  Client one(running.port()), two(running.port());
  one.get("/now"), two.get("/now");
  EXPECT_EQ(one.reply().status, 200);
  EXPECT_EQ(two.reply().status, 200);
  Client three(running.port());
  EXPECT_EQ(three.reply().status, 503);
  two.close();
  EXPECT_TRUE(soon([&] {
    Client again(running.port());
    again.get("/now");
    return again.reply().status == 200;
  }));
}

TEST(Http, asks_for_a_key_where_there_is_one) {
  Running running({.admits = [](const Request& r) { return r.header("authorization") == "Bearer right"; }});
  Client client(running.port());
  client.get("/now");
  const Reply refused = client.reply();
  EXPECT_EQ(refused.status, 401);
  EXPECT_TRUE(refused.has("www-authenticate: bearer"));
  client.get("/open");
  EXPECT_EQ(client.reply().status, 200);
  client.get("/now", "AUTHORIZATION: Bearer right\r\n");
  EXPECT_EQ(client.reply().status, 200);
}

TEST(Http, no_page_of_another_origin_may_read_or_send) {
  Running closed, open({.cors_origins = {"https://page.example"}});
  Client client(closed.port());
  client.get("/now", "Origin: https://page.example\r\n");
  EXPECT_FALSE(client.reply().has("access-control"));
  client.post("/echo", "a=b", "Origin: https://page.example\r\nContent-Type: application/x-www-form-urlencoded\r\n");
  EXPECT_EQ(client.reply().status, 415);
  client.post("/echo", "a=b", "Content-Type: application/x-www-form-urlencoded\r\n");
  EXPECT_EQ(client.reply().status, 200) << "as curl -d sends it";
  client.send("GET /now HTTP/1.1\r\nHost: rebound.example\r\n\r\n");
  EXPECT_EQ(client.reply().status, 403);
  client.send("GET /now HTTP/1.1\r\nHost: 127.0.0.1.rebound.example\r\n\r\n");
  EXPECT_EQ(client.reply().status, 403);

  Client allowed(open.port());
  allowed.send("OPTIONS /echo HTTP/1.1\r\nHost: localhost\r\nOrigin: https://page.example\r\nAccess-Control-Request-Method: POST\r\n\r\n");
  const Reply preflight = allowed.reply();
  EXPECT_EQ(preflight.status, 204);
  EXPECT_TRUE(preflight.has("access-control-allow-origin: https://page.example"));
  EXPECT_TRUE(preflight.has("access-control-allow-methods: post"));
  EXPECT_FALSE(preflight.has("allow-credentials"));
  allowed.get("/now", "Origin: https://other.example\r\n");
  EXPECT_FALSE(allowed.reply().has("access-control"));
}

TEST(Http, an_answer_carries_the_id_of_its_request) {
  Running running;
  Client client(running.port());
  client.get("/now", "X-Request-Id: mine-1\r\n");
  EXPECT_TRUE(client.reply().has("x-request-id: mine-1\r\n"));
  client.get("/now", "X-Request-Id: not<plain>\r\n");
  const Reply made = client.reply();
  EXPECT_TRUE(made.has("x-request-id: ")) << made.head;
  EXPECT_FALSE(made.has("plain"));
}

TEST(Http, a_path_may_have_a_last_piece_of_any_text_and_head_has_no_body) {
  Running running;
  Client client(running.port());
  client.get("/item/a%2Fb/c?x=1");
  EXPECT_EQ(client.reply().body, "/item/a%2Fb/c?x=1");
  client.get("/item/");
  EXPECT_EQ(client.reply().status, 404);
  client.send("HEAD /now HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(client.until("\r\n\r\n"), HasSubstr("content-length: 3"));
  client.get("/late");
  EXPECT_EQ(client.reply().body, "late");
}

TEST(Http, a_drain_finishes_what_runs_and_refuses_the_rest) {
  Running running;
  Client idle(running.port()), busy(running.port());
  idle.get("/now");
  EXPECT_EQ(idle.reply().status, 200);
  busy.get("/stream");
  const auto exchange = running.take();
  running.server->drain(10s);
  EXPECT_TRUE(idle.ends());
  Client late(running.port());
  late.get("/now");
  const Reply refused = late.reply();
  EXPECT_EQ(refused.status, 503);
  EXPECT_TRUE(refused.has("retry-after: "));
  exchange->send("data: the end\n\n");
  exchange->finish();
  EXPECT_THAT(busy.reply().body, HasSubstr("the end"));
  running.join();
}

TEST(Http, a_drain_gives_up_what_runs_too_long) {
  Running running;
  Client client(running.port());
  client.get("/stream");
  const auto exchange = running.take();
  running.server->drain(50ms);
  running.join();
  EXPECT_EQ(running.gone, 1);
}

TEST(Http, a_thousand_streams_share_one_thread) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < 2200) GTEST_SKIP() << "no file descriptors for a thousand connections";
  Running running;
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 1000; ++i) {
    clients.push_back(std::make_unique<Client>(running.port()));
    ASSERT_TRUE(clients.back()->connected());
    clients.back()->get("/stream");
  }
  std::vector<std::shared_ptr<Exchange>> exchanges;
  for (int i = 0; i < 1000; ++i) exchanges.push_back(running.take());
  for (int round = 0; round < 3; ++round)
    for (const auto& exchange : exchanges) exchange->send("data: " + std::to_string(round) + "\n\n");
  for (const auto& exchange : exchanges) exchange->finish();
  for (const auto& client : clients) ASSERT_EQ(testing::events(client->reply().body), (std::vector<std::string>{"begun", "0", "1", "2"}));
}

}  // namespace
}  // namespace quern::http
