#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "serving/openai/server.h"

namespace quern::openai {
namespace {

using namespace testing;
using ::testing::HasSubstr;

TEST(Scoring, a_repeated_prompt_has_the_log_probabilities_of_saying_it) {
  const Server server;
  const Json r = server.complete({{"echo", true}, {"logprobs", 2}, {"max_tokens", 0}});
  const Json& choice = r["choices"][0];
  EXPECT_EQ(choice["text"], "some text");
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(r["usage"]["completion_tokens"], 0);
  const Json& l = choice["logprobs"];
  ASSERT_EQ(l["tokens"].size(), 9u);
  EXPECT_TRUE(l["token_logprobs"][0].is_null());
  EXPECT_TRUE(l["top_logprobs"][0].is_null());
  std::string text;
  for (std::size_t i = 0; i < 9; ++i) {
    EXPECT_EQ(l["text_offset"][i], i);
    text += l["tokens"][i].get<std::string>();
  }
  EXPECT_EQ(text, "some text");
  for (std::size_t i = 1; i < 9; ++i) {  // the alternatives in each place are those of an answer there
    const Json next = server.complete({{"prompt", text.substr(0, i)}, {"logprobs", 2}, {"max_tokens", 1}})["choices"][0]["logprobs"];
    for (const auto& [token, value] : next["top_logprobs"][0].items()) EXPECT_EQ(l["top_logprobs"][i][token], value) << i;
    EXPECT_EQ(l["top_logprobs"][i][text.substr(i, 1)], l["token_logprobs"][i]) << "and the token itself is among them";
  }
}

TEST(Scoring, a_repeated_prompt_and_an_answer_are_one_text) {
  const Server server;
  const Json body = {{"echo", true}, {"logprobs", 0}};
  const Json plain = server.complete({{"logprobs", 0}})["choices"][0], both = server.complete(body)["choices"][0];
  EXPECT_EQ(both["text"], "some text" + plain["text"].get<std::string>());
  ASSERT_EQ(both["logprobs"]["tokens"].size(), 9 + plain["logprobs"]["tokens"].size());
  EXPECT_EQ(both["logprobs"]["token_logprobs"].back(), plain["logprobs"]["token_logprobs"].back());
  EXPECT_EQ(both["logprobs"]["text_offset"][9], 9);
  std::string text;
  std::vector<Json> values;
  for (const Json& chunk : server.stream(
           "/v1/completions", with({{"prompt", "some text"}, {"max_tokens", 12}, {"temperature", 0}, {"ignore_eos", true}}, body))) {
    if (chunk == "done") continue;
    const Json& choice = chunk["choices"][0];
    text += choice["text"].get<std::string>();
    if (choice["logprobs"].is_object())
      for (const Json& value : choice["logprobs"]["token_logprobs"]) values.push_back(value);
  }
  EXPECT_EQ(both["text"], text);
  EXPECT_EQ(Json(values), both["logprobs"]["token_logprobs"]);
}

TEST(Scoring, prompt_logprobs_have_the_form_that_vllm_gives_them) {
  const Server server;
  const Json completion = server.complete({{"prompt_logprobs", 1}})["choices"][0]["prompt_logprobs"];
  ASSERT_EQ(completion.size(), 9u);
  EXPECT_TRUE(completion[0].is_null());
  const Json& o = completion[1]["111"];
  EXPECT_EQ(o["decoded_token"], "o");
  EXPECT_GE(o["rank"], 1);
  EXPECT_LE(o["logprob"], 0);
  bool best = false;
  for (const auto& [id, entry] : completion[1].items()) best |= entry["rank"] == 1;
  EXPECT_TRUE(best);
  const Json chat = server.ask("/v1/chat/completions", with(kChat, {{"prompt_logprobs", 0}}));
  EXPECT_EQ(chat["prompt_logprobs"].size(), chat["usage"]["prompt_tokens"]);
}

TEST(Scoring, the_best_of_several_answers_are_returned) {
  const Server server;
  const Json body = {{"temperature", 1.5}, {"seed", 5}, {"logprobs", 0}};
  const auto mean = [](const Json& choice) {
    double sum = 0;
    for (const Json& value : choice["logprobs"]["token_logprobs"]) sum += value.get<double>();
    return sum / static_cast<double>(choice["logprobs"]["token_logprobs"].size());
  };
  const Json all = server.complete(with(body, {{"n", 6}})), best = server.complete(with(body, {{"n", 2}, {"best_of", 6}}));
  std::vector<std::pair<double, std::string>> order;
  for (const Json& choice : all["choices"]) order.emplace_back(-mean(choice), choice["text"]);
  std::sort(order.begin(), order.end());
  ASSERT_EQ(best["choices"].size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(best["choices"][i]["text"], order[i].second);
    EXPECT_EQ(best["choices"][i]["index"], i);
  }
  EXPECT_EQ(best["usage"]["completion_tokens"], 6 * 12) << "all are paid for";
  EXPECT_TRUE(server.complete({{"n", 1}, {"best_of", 3}, {"temperature", 1}})["choices"][0]["logprobs"].is_null()) << "unless asked for";
}

TEST(Scoring, a_beam_search_returns_its_best) {
  const Server server;
  const Json greedy = server.complete({{"logprobs", 0}}), beams = server.complete({{"use_beam_search", true}, {"n", 4}, {"logprobs", 0}});
  ASSERT_EQ(beams["choices"].size(), 4u);
  double last = 0;
  const auto sum = [](const Json& choice) {
    double all = 0;
    for (const Json& value : choice["logprobs"]["token_logprobs"]) all += value.get<double>();
    return all;
  };
  for (std::size_t i = 0; i < 4; ++i) {
    const Json& choice = beams["choices"][i];
    EXPECT_EQ(choice["index"], i);
    EXPECT_EQ(choice["finish_reason"], "length");
    if (i > 0) {
      EXPECT_LE(sum(choice), last);
    }
    last = sum(choice);
  }
  EXPECT_GE(sum(beams["choices"][0]), sum(greedy["choices"][0]) - 1e-4);
  EXPECT_EQ(server.complete({{"use_beam_search", true}, {"prompt", {"some text", "other"}}, {"n", 2}})["choices"].size(), 4u);
  EXPECT_EQ(server.ask("/v1/chat/completions", with(kChat, {{"use_beam_search", true}, {"n", 2}}))["choices"].size(), 2u);
  EXPECT_TRUE(server.rests());
}

TEST(Scoring, bad_words_and_tokens_that_are_not_allowed_do_not_come) {
  const Server server;
  const std::string text = server.complete()["choices"][0]["text"];
  const Json ids = server.complete({{"return_token_ids", true}})["choices"][0]["token_ids"];
  ASSERT_FALSE(text.empty());
  std::vector<std::string> printable;
  for (const Json& id : ids)
    if (id.get<int>() > 32 && id.get<int>() < 127) printable.push_back(std::string(1, static_cast<char>(id.get<int>())));
  if (!printable.empty()) {
    const std::string without = server.complete({{"bad_words", {printable.front()}}})["choices"][0]["text"];
    EXPECT_EQ(without.find(printable.front()), std::string::npos);
  }
  const std::string allowed = server.complete({{"allowed_token_ids", {97, 98}}})["choices"][0]["text"];
  EXPECT_EQ(allowed.size(), 12u);
  EXPECT_EQ(allowed.find_first_not_of("ab"), std::string::npos);
}

TEST(Scoring, refuses_what_does_not_go_together_with_the_name_of_the_field) {
  const Server server;
  const std::pair<Json, std::string> cases[] = {
      {{{"best_of", 1}, {"n", 2}}, "best_of"},
      {{{"best_of", 3}, {"stream", true}}, "best_of"},
      {{{"use_beam_search", true}, {"stream", true}}, "use_beam_search"},
      {{{"use_beam_search", true}, {"stop", "x"}}, "stop"},
      {{{"use_beam_search", true}, {"top_k", 4}}, "top_k"},
      {{{"use_beam_search", true}, {"min_tokens", 4}}, "min_tokens"},
      {{{"use_beam_search", true}, {"early_stopping", true}}, "early_stopping"},
      {{{"prompt_logprobs", 21}}, "prompt_logprobs"},
      {{{"prompt_logprobs", 1}, {"stream", true}}, "prompt_logprobs"},
      {{{"bad_words", {""}}}, "bad_words"},
      {{{"bad_words", {1}}}, "bad_words"},
      {{{"allowed_token_ids", Json::array()}}, "allowed_token_ids"},
      {{{"allowed_token_ids", {-1}}}, "allowed_token_ids"},
      {{{"sampler_profile", "ours"}}, "sampler_profile"},
  };
  for (const auto& [more, param] : cases) {
    const Reply reply = server.post("/v1/completions", with({{"prompt", "text"}, {"max_tokens", 4}}, more).dump());
    EXPECT_EQ(reply.status, 400) << more;
    EXPECT_EQ(Json::parse(reply.body)["error"]["param"], param) << more;
  }
  const Reply reply = server.post("/v1/completions", R"({"prompt": "a", "use_beam_search": true, "n": 64, "max_tokens": 8})");
  EXPECT_EQ(reply.status, 400);
  EXPECT_THAT(reply.body, HasSubstr("at most 8 sequences"));
}

}  // namespace
}  // namespace quern::openai
