#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "serving/openai/detail/embeddings.h"
#include "serving/openai/server.h"

namespace quern::openai {
namespace {

using namespace testing;
using ::testing::HasSubstr;

std::vector<float> numbers(const Json& item) { return item["embedding"].get<std::vector<float>>(); }

double dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

TEST(Base64, gives_the_vectors_of_rfc_4648) {
  const std::pair<std::string, std::string> cases[] = {
      {"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"fooba", "Zm9vYmE="}, {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : cases) EXPECT_EQ(detail::base64(bytes), text);
  EXPECT_EQ(detail::base64(std::string("\xff\xfe\x00", 3)), "//4A");
}

TEST(Embeddings, are_answered_in_openai_s_shape) {
  const Server server;
  const Json r = server.ask("/v1/embeddings", {{"input", "some text"}, {"model", "anything"}});
  EXPECT_EQ(r["object"], "list");
  EXPECT_EQ(r["model"], "tiny");
  ASSERT_EQ(r["data"].size(), 1u);
  EXPECT_EQ(r["data"][0]["object"], "embedding");
  EXPECT_EQ(r["data"][0]["index"], 0);
  EXPECT_EQ(r["usage"], (Json{{"prompt_tokens", 9}, {"total_tokens", 9}}));
  const std::vector<float> x = numbers(r["data"][0]);
  EXPECT_EQ(x.size(), 64u);
  EXPECT_NEAR(dot(x, x), 1, 1e-5);
}

TEST(Embeddings, of_many_inputs_are_those_of_each_alone_and_in_their_order) {
  const Server server;
  std::vector<std::string> texts;
  for (int i = 0; i < 40; ++i) texts.push_back(std::string(static_cast<std::size_t>(1 + i * 7 % 90), static_cast<char>('a' + i % 26)));
  const Json all = server.ask("/v1/embeddings", {{"input", texts}});
  ASSERT_EQ(all["data"].size(), texts.size());
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    tokens += static_cast<std::int64_t>(texts[i].size());
    EXPECT_EQ(all["data"][i]["index"], i);
    if (i % 8 == 0) {
      EXPECT_EQ(all["data"][i]["embedding"], server.ask("/v1/embeddings", {{"input", texts[i]}})["data"][0]["embedding"]);
    }
  }
  EXPECT_EQ(all["usage"]["prompt_tokens"], tokens);
}

TEST(Embeddings, of_ids_are_those_of_their_text) {
  const Server server;
  const Json text = server.ask("/v1/embeddings", {{"input", "abc"}})["data"][0]["embedding"];
  EXPECT_EQ(server.ask("/v1/embeddings", {{"input", {97, 98, 99}}})["data"][0]["embedding"], text);
  const Json lists = server.ask("/v1/embeddings", {{"input", {{97, 98, 99}, {97}}}});
  EXPECT_EQ(lists["data"][0]["embedding"], text);
  EXPECT_EQ(lists["data"].size(), 2u);
}

TEST(Embeddings, as_base64_are_the_bytes_of_the_numbers) {
  const Server server;
  const std::vector<float> x = numbers(server.ask("/v1/embeddings", {{"input", "some text"}})["data"][0]);
  const Json r = server.ask("/v1/embeddings", {{"input", "some text"}, {"encoding_format", "base64"}});
  const std::string_view bytes(reinterpret_cast<const char*>(x.data()), x.size() * sizeof(float));
  EXPECT_EQ(r["data"][0]["embedding"], detail::base64(bytes));
}

TEST(Embeddings, are_cut_and_normalised_as_asked) {
  const Server server;
  const auto ask = [&](const Json& more) { return numbers(server.ask("/v1/embeddings", with({{"input", "some text"}}, more))["data"][0]); };
  const std::vector<float> plain = ask({{"embd_normalize", -1}}), whole = ask({}), cut = ask({{"dimensions", 16}});
  EXPECT_GT(dot(plain, plain), 4.0);
  ASSERT_EQ(cut.size(), 16u);
  EXPECT_NEAR(dot(cut, cut), 1, 1e-5);
  EXPECT_NEAR(cut[3] / cut[5], plain[3] / plain[5], 1e-4);
  EXPECT_NEAR(whole[3] * std::sqrt(dot(plain, plain)), plain[3], 1e-4);
  EXPECT_EQ(ask({{"use_activation", false}}), plain) << "vLLM's word for it";
}

TEST(Embeddings, of_long_texts_are_refused_or_cut_at_the_end_that_was_asked_for) {
  const Server server;
  const std::string text = std::string(300, 'a') + std::string(300, 'b');
  const Reply reply = server.post("/v1/embeddings", Json{{"input", {"short", text}}}.dump());
  EXPECT_EQ(reply.status, 400);
  const Json error = Json::parse(reply.body)["error"];
  EXPECT_EQ(error["code"], "context_length_exceeded");
  EXPECT_EQ(error["param"], "input");
  EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("600 tokens"));
  const auto of = [&](const Json& body) { return server.ask("/v1/embeddings", body); };
  const Json cut = of({{"input", text}, {"truncate_prompt_tokens", 20}});
  EXPECT_EQ(cut["usage"]["prompt_tokens"], 20);
  EXPECT_EQ(cut["data"], of({{"input", std::string(20, 'a')}})["data"]);
  EXPECT_EQ(of({{"input", text}, {"truncate_prompt_tokens", 20}, {"truncation_side", "left"}})["data"],
            of({{"input", std::string(20, 'b')}})["data"]);
  EXPECT_EQ(of({{"input", text}, {"truncate_prompt_tokens", -1}})["usage"]["prompt_tokens"], 512);
}

TEST(Embeddings, of_a_conversation_go_through_the_template) {
  const Server server;
  const Json chat = server.ask("/v1/embeddings", {{"messages", {{{"role", "user"}, {"content", "hello"}}}}});
  std::vector<int> ids = {256};
  for (const char c : std::string("user:hello")) ids.push_back(c);
  ids.push_back(257);
  EXPECT_EQ(chat["data"], server.ask("/v1/embeddings", {{"input", ids}})["data"]);
}

TEST(Embeddings, pool_as_the_server_was_told) {
  const Server last, mean({.max_sequences = 8, .cache_tokens = 4096}, {.name = "tiny", .pooling = engine::Pooling::mean});
  const auto of = [](const Server& server, const char* text) {
    return numbers(server.ask("/v1/embeddings", {{"input", text}, {"embd_normalize", -1}})["data"][0]);
  };
  const std::vector<float> a = of(last, "x"), b = of(last, "xy"), both = of(mean, "xy");
  for (std::size_t i = 0; i < both.size(); ++i) EXPECT_NEAR(both[i], (a[i] + b[i]) / 2, 1e-5);
}

TEST(Embeddings, refuse_what_they_cannot_do_with_the_name_of_the_field) {
  const Server server;
  const std::pair<Json, std::string> cases[] = {
      {{{"input", nullptr}}, "input"},
      {{{"input", ""}}, "input"},
      {{{"input", Json::array()}}, "input"},
      {{{"input", {"a", ""}}}, "input"},
      {{{"input", {Json::array()}}}, "input"},
      {{{"input", {1, "a"}}}, "input"},
      {{{"input", {999999}}}, "input"},
      {{{"input", {{"text", "a"}}}}, "input"},
      {{{"input", std::vector<std::string>(2049, "a")}}, "input"},
      {{{"dimensions", 65}}, "dimensions"},
      {{{"dimensions", 0}}, "dimensions"},
      {{{"encoding_format", "hex"}}, "encoding_format"},
      {{{"encoding_format", 1}}, "encoding_format"},
      {{{"embed_dtype", "float16"}}, "embed_dtype"},
      {{{"late_chunking", true}}, "late_chunking"},
      {{{"truncation_side", "middle"}}, "truncation_side"},
  };
  for (const auto& [more, param] : cases) {
    const Reply reply = server.post("/v1/embeddings", with({{"input", "text"}}, more).dump());
    EXPECT_EQ(reply.status, 400) << more;
    EXPECT_EQ(Json::parse(reply.body)["error"]["param"], param) << more;
  }
  EXPECT_THAT(server.post("/v1/embeddings", R"({"input": "a", "wings": 2})").head, HasSubstr("x-ignored-fields: wings"));
  EXPECT_TRUE(server.rests());
}

TEST(Embeddings, a_client_that_leaves_ends_its_request) {
  const Server server({.max_sequences = 2, .cache_tokens = 1024, .step_tokens = 16});
  {
    Client client(server.port());
    client.post("/v1/embeddings", Json{{"input", std::vector<std::string>(512, std::string(500, 'x'))}}.dump());
    for (int i = 0; i < 2000 && server.engine().statistics().running == 0; ++i) std::this_thread::sleep_for(1ms);
  }
  EXPECT_TRUE(server.rests());
}

}  // namespace
}  // namespace quern::openai
