#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "serving/openai/server.h"
#include "support/held_pool.h"

namespace quern::openai {
namespace {

using namespace testing;
using ::testing::HasSubstr;

Json one_token(const std::string& prompt, const Json& more = Json::object()) {
  return with({{"prompt", prompt}, {"max_tokens", 1}, {"ignore_eos", true}}, more);
}

/// Requests that were sent while the engine could do nothing.
class Crowd {
 public:
  explicit Crowd(Server& server) : server_(server), held_(std::make_unique<quern::testing::HeldPool>(server.pool())) {}
  std::unique_ptr<Client> send(const Json& body, const std::string& headers = "") {
    auto client = std::make_unique<Client>(server_.port());
    client->post("/v1/completions", body.dump(), headers);
    ++sent_;
    for (int i = 0; i < 10000 && open() < sent_; ++i) std::this_thread::sleep_for(1ms);
    return client;
  }
  void let_go() { held_.reset(); }

 private:
  std::int64_t open() const {
    const auto s = server_.engine().statistics();
    return std::max<std::int64_t>(s.running + s.waiting, server_.engine().heartbeat().step_seconds > 0 ? 1 + s.waiting : 0);
  }
  Server& server_;
  std::unique_ptr<quern::testing::HeldPool> held_;
  std::int64_t sent_ = 0;
};

TEST(Fairness, a_key_s_requests_do_not_wait_behind_all_of_another_s) {
  ServiceOptions about{.name = "tiny"};
  about.tenant = [](const http::Request& request) { return std::string(request.header("x-api-key")); };
  Server server({.max_sequences = 1, .cache_tokens = 1024}, about);
  Crowd crowd(server);
  std::vector<std::unique_ptr<Client>> many;
  for (int i = 0; i < 9; ++i)
    many.push_back(crowd.send(one_token("number " + std::to_string(i), {{"max_tokens", 40}}), "x-api-key: a\r\n"));
  const auto one = crowd.send(one_token("me too"), "x-api-key: b\r\n");
  crowd.let_go();
  EXPECT_EQ(one->reply().status, 200);
  const auto s = server.engine().statistics();
  EXPECT_GE(s.running + s.waiting, 1) << "most of the others are still waiting";
  for (const auto& client : many) EXPECT_EQ(client->reply().status, 200);
}

TEST(Fairness, a_user_may_not_have_more_answers_made_at_once_than_are_allowed) {
  ServiceOptions about{.name = "tiny", .max_of_tenant = 3};
  Server server({.max_sequences = 2, .cache_tokens = 1024}, about);
  Crowd crowd(server);
  const auto a = crowd.send(one_token("x", {{"user", "a"}, {"n", 2}}));
  const Reply refused = server.post("/v1/completions", one_token("y", {{"user", "a"}, {"n", 2}}).dump());
  EXPECT_EQ(refused.status, 429);
  EXPECT_THAT(refused.body, HasSubstr("tenant_limit"));
  EXPECT_THAT(refused.head, HasSubstr("retry-after: "));
  const auto fits = crowd.send(one_token("z", {{"user", "a"}})), other = crowd.send(one_token("x", {{"user", "b"}, {"n", 2}}));
  crowd.let_go();
  EXPECT_EQ(a->reply().status, 200);
  EXPECT_EQ(fits->reply().status, 200);
  EXPECT_EQ(other->reply().status, 200);
  EXPECT_TRUE(server.rests());
  EXPECT_EQ(server.post("/v1/completions", one_token("y", {{"user", "a"}, {"n", 3}}).dump()).status, 200)
      << "what has ended counts no more";
}

TEST(Fairness, how_long_a_conversation_is_kept_must_be_seconds_or_as_openai_says_it) {
  const Server server;
  for (const Json& more : {Json{{"cache_ttl", 0.5}}, Json{{"cache_ttl", 3600}}, Json{{"prompt_cache_retention", "24h"}},
                           Json{{"prompt_cache_retention", "in_memory"}}})
    EXPECT_EQ(server.post("/v1/completions", one_token("x", more).dump()).status, 200) << more;
  for (const auto& [name, value] :
       {std::pair<const char*, Json>{"cache_ttl", -1}, {"cache_ttl", 3601}, {"cache_ttl", "1h"}, {"prompt_cache_retention", "1h"}}) {
    const Reply reply = server.post("/v1/completions", one_token("x", {{name, value}}).dump());
    EXPECT_EQ(reply.status, 400) << value;
    EXPECT_EQ(Json::parse(reply.body)["error"]["param"], name);
  }
}

TEST(Fairness, priority_must_be_a_whole_number) {
  const Server server;
  EXPECT_EQ(server.post("/v1/completions", one_token("x", {{"priority", -3}}).dump()).status, 200);
  const Reply reply = server.post("/v1/completions", one_token("x", {{"priority", "high"}}).dump());
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(Json::parse(reply.body)["error"]["param"], "priority");
}

TEST(Watchdog, a_step_that_does_not_end_is_reported_and_ends_when_it_does) {
  std::mutex mutex;
  std::vector<std::string> said;
  ServiceOptions about{.name = "tiny"};
  about.stall = 500ms;
  about.report = [&](std::string_view what) {
    const std::lock_guard lock(mutex);
    said.emplace_back(what);
  };
  Server server({.max_sequences = 2, .cache_tokens = 1024}, about);
  const auto health = [&] {
    Client client(server.port());
    client.get("/health");
    return client.reply();
  };
  EXPECT_EQ(health().status, 200);
  Client client(server.port());
  {
    const quern::testing::HeldPool held(server.pool());
    client.post("/v1/completions", one_token("hello").dump());
    Reply reply;
    for (int i = 0; i < 2000 && reply.status != 503; ++i, std::this_thread::sleep_for(10ms)) reply = health();
    EXPECT_EQ(reply.status, 503);
    EXPECT_THAT(reply.body, HasSubstr("engine_stuck"));
    const Reply refused = server.post("/v1/completions", one_token("world").dump());
    EXPECT_EQ(refused.status, 503) << "nobody is left to wait for it";
    EXPECT_THAT(refused.head, HasSubstr("retry-after: "));
  }
  EXPECT_EQ(client.reply().status, 200) << "who waited gets the answer";
  Reply reply;
  for (int i = 0; i < 2000 && reply.status != 200; ++i, std::this_thread::sleep_for(10ms)) reply = health();
  EXPECT_EQ(reply.status, 200);
  const std::lock_guard lock(mutex);
  ASSERT_GE(said.size(), 2u);
  EXPECT_THAT(said.front(), HasSubstr("step 1 of 5 tokens"));
  EXPECT_THAT(said.back(), HasSubstr("goes on"));
}

}  // namespace
}  // namespace quern::openai
