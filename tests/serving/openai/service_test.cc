#include "serving/openai/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "serving/openai/server.h"

namespace quern::openai {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Service, a_chat_is_answered_in_openai_s_shape) {
  const Server server;
  const Json r = server.ask("/v1/chat/completions", kChat);
  EXPECT_EQ(r["object"], "chat.completion");
  EXPECT_TRUE(r["id"].get<std::string>().starts_with("chatcmpl-"));
  EXPECT_EQ(r["model"], "tiny");
  const Json& choice = r["choices"][0];
  EXPECT_EQ(choice["message"]["role"], "assistant");
  EXPECT_TRUE(choice["message"]["content"].is_string());
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_TRUE(choice["logprobs"].is_null());
  EXPECT_EQ(r["usage"]["prompt_tokens"], 1 + std::string("user:hello").size() + 2);
  EXPECT_EQ(r["usage"]["completion_tokens"], 10);
  EXPECT_TRUE(r["usage"]["prompt_tokens_details"]["cached_tokens"].is_number());
  EXPECT_EQ(server.ask("/chat/completions", kChat)["choices"], r["choices"]) << "also without /v1";
}

TEST(Service, a_stream_has_its_chunks_in_order_and_gives_the_whole_answer) {
  const Server server;
  const std::string whole = server.ask("/v1/chat/completions", kChat)["choices"][0]["message"]["content"];
  const auto chunks = server.stream("/v1/chat/completions", with(kChat, {{"stream_options", {{"include_usage", true}}}}));
  ASSERT_GE(chunks.size(), 4u);
  EXPECT_EQ(chunks.front()["choices"][0]["delta"], (Json{{"role", "assistant"}, {"content", ""}}));
  EXPECT_EQ(chunks.back(), "done");
  const Json& usage = chunks[chunks.size() - 2];
  EXPECT_EQ(usage["choices"], Json::array());
  EXPECT_EQ(usage["usage"]["completion_tokens"], 10);
  const Json& last = chunks[chunks.size() - 3];
  EXPECT_EQ(last["choices"][0]["delta"], Json::object());
  EXPECT_EQ(last["choices"][0]["finish_reason"], "length");
  std::string text;
  for (std::size_t i = 0; i + 2 < chunks.size(); ++i) {
    EXPECT_TRUE(chunks[i]["usage"].is_null());
    EXPECT_EQ(chunks[i]["id"], chunks[0]["id"]);
    EXPECT_EQ(chunks[i]["object"], "chat.completion.chunk");
    text += chunks[i]["choices"][0]["delta"].value("content", "");
  }
  EXPECT_EQ(text, whole);
  for (const Json& chunk : server.stream("/v1/chat/completions", kChat)) EXPECT_TRUE(chunk == "done" || !chunk.contains("usage"));
}

TEST(Service, logprobs_add_up_to_the_text_in_both_shapes) {
  const Server server;
  const Json chat = server.ask("/v1/chat/completions", with(kChat, {{"logprobs", true}, {"top_logprobs", 3}}))["choices"][0];
  std::string text;
  for (const Json& token : chat["logprobs"]["content"]) {
    for (const int byte : token["bytes"]) text += static_cast<char>(byte);
    ASSERT_EQ(token["top_logprobs"].size(), 3u);
    EXPECT_EQ(token["logprob"], token["top_logprobs"][0]["logprob"]) << "at temperature 0 the most probable is chosen";
    EXPECT_LE(token["logprob"].get<double>(), 0);
  }
  EXPECT_EQ(chat["logprobs"]["content"].size(), 10u);
  const Json completion = server.complete({{"logprobs", 2}})["choices"][0]["logprobs"];
  for (const char* list : {"tokens", "token_logprobs", "top_logprobs", "text_offset"}) EXPECT_EQ(completion[list].size(), 12u);
  EXPECT_EQ(completion["text_offset"][0], 0);
  EXPECT_TRUE(server.complete()["choices"][0]["logprobs"].is_null());
  EXPECT_THAT(
      server.complete({{"logprobs", 1}, {"return_tokens_as_token_ids", true}})["choices"][0]["logprobs"]["tokens"][0].get<std::string>(),
      HasSubstr("token_id:"));
}

TEST(Service, answers_to_several_prompts_come_prompt_by_prompt_and_repeat_with_a_seed) {
  const Server server;
  const Json body = {{"prompt", {"one", "two"}}, {"n", 2}, {"temperature", 2}, {"seed", -3}};
  const Json a = server.complete(body), b = server.complete(body);
  ASSERT_EQ(a["choices"].size(), 4u);
  EXPECT_EQ(a["choices"], b["choices"]);
  EXPECT_NE(a["choices"][0]["text"], a["choices"][1]["text"]) << "each answer has a seed of its own";
  EXPECT_EQ(a["usage"]["prompt_tokens"], 6) << "a prompt counts once";
  const Json alone = server.complete({{"prompt", "two"}, {"temperature", 2}, {"seed", -3}});
  EXPECT_EQ(alone["choices"][0]["text"], a["choices"][2]["text"]);
}

TEST(Service, prompts_may_be_ids_and_are_repeated_on_demand) {
  const Server server;
  const Json text = server.complete();
  const Json ids = server.ask("/tokenize", {{"prompt", "some text"}})["tokens"];
  EXPECT_EQ(server.complete({{"prompt", ids}})["choices"], text["choices"]);
  EXPECT_EQ(server.complete({{"prompt", {ids}}})["choices"], text["choices"]);
  EXPECT_EQ(server.complete({{"echo", true}})["choices"][0]["text"], "some text" + text["choices"][0]["text"].get<std::string>());
  EXPECT_EQ(server.complete({{"echo", true}, {"max_tokens", 0}})["choices"][0]["text"], "some text");
  EXPECT_EQ(server.complete({{"truncate_prompt_tokens", 4}})["usage"]["prompt_tokens"], 4);
  EXPECT_EQ(server.complete({{"return_token_ids", true}})["choices"][0]["token_ids"].size(), 12u);
}

TEST(Service, a_stop_string_ends_an_answer_and_is_named) {
  const Server server;
  const int letter = 'Q';  // made the most probable token
  const Json always = {{"logit_bias", {{std::to_string(letter), 100}}}};
  EXPECT_EQ(server.complete(always)["choices"][0]["text"], "QQQQQQQQQQQQ");
  const Json stopped = server.complete(with(always, {{"stop", {"x", "QQQ"}}}))["choices"][0];
  EXPECT_EQ(stopped["text"], "");
  EXPECT_EQ(stopped["finish_reason"], "stop");
  EXPECT_EQ(stopped["stop_reason"], "QQQ");
  EXPECT_EQ(server.complete(with(always, {{"stop", "QQQ"}, {"include_stop_str_in_output", true}}))["choices"][0]["text"], "QQQ");
}

TEST(Service, a_least_length_keeps_an_answer_from_ending) {
  const Server server;
  const std::string end = std::to_string(server.tokenizer().special().eos);
  const Json always = {{"logit_bias", {{end, 100}}}, {"ignore_eos", false}};
  EXPECT_EQ(server.complete(always)["usage"]["completion_tokens"], 1);
  EXPECT_EQ(server.complete(with(always, {{"min_tokens", 7}}))["usage"]["completion_tokens"], 8);
}

TEST(Service, refuses_what_it_cannot_do_with_the_name_of_the_field) {
  const Server server;
  const std::vector<std::pair<Json, std::string>> cases = {
      {{{"temperature", 2.5}}, "temperature"},
      {{{"temperature", "hot"}}, "temperature"},
      {{{"top_p", -0.1}}, "top_p"},
      {{{"max_tokens", -2}}, "max_tokens"},
      {{{"max_tokens", 1.5}}, "max_tokens"},
      {{{"n", 0}}, "n"},
      {{{"n", 100000}}, "n"},
      {{{"stop", {1}}}, "stop"},
      {{{"stop", ""}}, "stop"},
      {{{"stop", Json(std::vector<std::string>(33, "x"))}}, "stop"},
      {{{"logit_bias", {{"abc", 1}}}}, "logit_bias"},
      {{{"logit_bias", {{"999999", 1}}}}, "logit_bias"},
      {{{"logit_bias", {{"1", 101}}}}, "logit_bias"},
      {{{"top_logprobs", 2}}, "top_logprobs"},
      {{{"logprobs", true}, {"top_logprobs", 21}}, "top_logprobs"},
      {{{"stream_options", {{"include_usage", true}}}}, "stream_options"},
      {{{"response_format", {{"type", "json_object"}}}}, "response_format"},
      {{{"tool_choice", "required"}}, "tool_choice"},
      {{{"tool_choice", {{"type", "function"}}}}, "tool_choice"},
      {{{"tools", {1}}}, "tools[0]"},
      {{{"tools", {{{"type", "function"}, {"function", {{"name", "f"}, {"strict", true}}}}}}}, "tools[0].function.strict"},
      {{{"guided_json", {{"type", "object"}}}}, "guided_json"},
      {{{"structured_outputs", {{"regex", "a"}}}}, "structured_outputs"},
      {{{"modalities", {"audio"}}}, "modalities"},
      {{{"mirostat", 2}}, "mirostat"},
      {{{"messages", Json::array()}}, "messages"},
      {{{"messages", {{{"content", "x"}}}}}, "messages[0].role"},
      {{{"messages", {{{"role", "wizard"}, {"content", "x"}}}}}, "messages[0].role"},
      {{{"messages", {{{"role", "user"}}}}}, "messages[0].content"},
      {{{"messages", {{{"role", "user"}, {"content", 7}}}}}, "messages[0].content"},
      {{{"messages", {{{"role", "user"}, {"content", {{{"type", "image_url"}}}}}}}}, "messages[0].content[0]"},
      {{{"messages", {{{"role", "user"}, {"content", std::string(600, 'x')}}}}}, "messages"},
  };
  for (const auto& [more, param] : cases) {
    const Reply reply = server.post("/v1/chat/completions", with(kChat, more).dump());
    const Json error = Json::parse(reply.body)["error"];
    EXPECT_EQ(reply.status, 400) << more;
    EXPECT_EQ(error["param"], param) << more << error;
    EXPECT_EQ(error["type"], "invalid_request_error");
  }
  EXPECT_EQ(Json::parse(server.post("/v1/chat/completions", with(kChat, cases.back().first).dump()).body)["error"]["code"],
            "context_length_exceeded");
  EXPECT_EQ(
      server.ask("/v1/chat/completions", with(kChat, {{"guided_json", nullptr}, {"tools", Json::array()}, {"stop", nullptr}}))["object"],
      "chat.completion")
      << "null and empty ask for nothing";
}

TEST(Service, the_template_sees_tools_and_goes_on_with_a_last_message) {
  const Server server;
  const auto tokens = [&](const Json& more) {
    return server.ask("/v1/chat/completions", with(kChat, more))["usage"]["prompt_tokens"].get<int>();
  };
  const int plain = tokens({});
  const Json tools = {{{"type", "function"}, {"function", {{"name", "look_up"}}}}};
  EXPECT_GT(tokens({{"tools", tools}}), plain + 7);
  EXPECT_EQ(tokens({{"tools", tools}, {"tool_choice", "none"}}), plain);
  EXPECT_EQ(tokens({{"add_generation_prompt", false}}), plain - 1);
  const Json begun = {{{"role", "user"}, {"content", "hello"}}, {{"role", "assistant"}, {"content", "Well"}}};
  EXPECT_EQ(tokens({{"messages", begun}, {"continue_final_message", true}}),
            plain + static_cast<int>(std::string("assistant:Well").size()));
}

TEST(Service, names_fields_that_it_does_not_know) {
  const Server server;
  const Reply reply = server.post("/v1/chat/completions", with(kChat, {{"user", "me"}, {"frobnicate", 1}, {"bad name", 2}}).dump());
  EXPECT_EQ(reply.status, 200);
  EXPECT_TRUE(reply.has("x-ignored-fields: frobnicate\r\n")) << reply.head;
}

TEST(Service, hostile_json_is_refused_quickly) {
  const Server server;
  std::string keys = "{";
  for (int i = 0; i < 200'000; ++i) keys += "\"k" + std::to_string(i) + "\":0,";
  keys += "\"z\":1}";
  std::string numbers = "[";
  for (int i = 0; i < 2'000'000; ++i) numbers += "1,";
  const std::vector<std::string> bodies = {"",
                                           "nonsense",
                                           "[]",
                                           "null",
                                           "{\"prompt\":",
                                           "{\"prompt\":\"\xff\xfe\"}",
                                           "{\"prompt\":\"\\ud800\"}",
                                           "{\"prompt\":\"x\",\"temperature\":1e999}",
                                           std::string(1 << 20, '['),
                                           "{\"a\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}",
                                           keys,
                                           "{\"logit_bias\":" + keys + ",\"prompt\":\"x\"}",
                                           "{\"prompt\":" + numbers + "1]}"};
  const auto start = std::chrono::steady_clock::now();
  for (const std::string& body : bodies) EXPECT_EQ(server.post("/v1/completions", body).status, 400) << body.substr(0, 60);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
}

TEST(Service, models_have_names_that_must_be_right_once_they_are_given) {
  const Server any, strict({.max_sequences = 2}, {.name = "tiny", .aliases = {"tiny", "a/b"}, .any_name = false, .created = 7});
  EXPECT_EQ(any.ask("/v1/chat/completions", with(kChat, {{"model", "whatever"}}))["model"], "tiny");
  EXPECT_EQ(strict.ask("/v1/chat/completions", with(kChat, {{"model", "a/b"}}))["model"], "tiny");
  const Reply unknown = strict.post("/v1/chat/completions", with(kChat, {{"model", "whatever"}}).dump());
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(Json::parse(unknown.body)["error"]["code"], "model_not_found");
  Client client(strict.port());
  client.get("/v1/models");
  const Json model = Json::parse(client.reply().body)["data"][0];
  EXPECT_EQ(model["id"], "tiny");
  EXPECT_EQ(model["created"], 7);
  for (const auto& [path, status] :
       {std::pair("/v1/models/tiny", 200), {"/v1/models/a%2Fb", 200}, {"/v1/models/a/b", 200}, {"/v1/models/c", 404}}) {
    client.get(path);
    EXPECT_EQ(client.reply().status, status) << path;
  }
}

TEST(Service, a_model_without_a_chat_template_says_so) {
  const Server server({}, {.name = "tiny"}, false);
  const Reply reply = server.post("/v1/chat/completions", kChat.dump());
  EXPECT_EQ(reply.status, 400);
  EXPECT_THAT(reply.body, HasSubstr("no chat template"));
  EXPECT_EQ(server.complete()["object"], "text_completion");
}

TEST(Service, tokenizes_in_both_dialects) {
  const Server server;
  const Json ours = server.ask("/tokenize", {{"prompt", "a<|257|>"}, {"return_token_strs", true}});
  EXPECT_EQ(ours["tokens"], (Json{'a', 257}));
  EXPECT_EQ(ours["count"], 2);
  EXPECT_EQ(ours["max_model_len"], 512);
  EXPECT_EQ(server.ask("/tokenize", {{"content", "a<|257|>"}, {"parse_special", false}})["tokens"].size(), 8u);
  EXPECT_EQ(server.ask("/tokenize", {{"messages", kChat["messages"]}})["count"], 13);
  EXPECT_EQ(server.ask("/detokenize", {{"tokens", {'h', 'i'}}}), (Json{{"content", "hi"}, {"prompt", "hi"}}));
  EXPECT_EQ(server.post("/detokenize", R"({"tokens":[99999]})").status, 400);
}

TEST(Service, a_cancelled_request_leaves_the_engine_within_a_step) {
  const Server server({.max_sequences = 1, .cache_tokens = 4096});
  for (const bool stream : {true, false}) {
    Client running(server.port()), waiting(server.port());
    running.post("/v1/completions",
                 Json({{"prompt", "x"}, {"max_tokens", 500}, {"n", 20}, {"ignore_eos", true}, {"stream", stream}}).dump());
    if (stream) {
      EXPECT_FALSE(running.until("data: ").empty());
    }
    waiting.post("/v1/completions", Json({{"prompt", "y"}, {"max_tokens", 500}, {"n", 20}, {"ignore_eos", true}}).dump());
    const auto steps = server.engine().statistics().steps;
    running.close();
    waiting.close();
    EXPECT_TRUE(server.rests());
    EXPECT_LT(server.engine().statistics().steps - steps, 2000) << "it was not computed to its end";
  }
}

TEST(Service, a_time_limit_ends_a_request_with_an_error) {
  const Server server;
  const Reply reply = server.post("/v1/completions", R"({"prompt":"x","max_tokens":500,"n":8,"ignore_eos":true,"timeout_ms":1})");
  EXPECT_EQ(reply.status, 504);
  EXPECT_TRUE(server.rests());
}

TEST(Service, more_requests_than_may_wait_are_told_to_come_back) {
  const Server server({.max_sequences = 1, .cache_tokens = 4096}, {.name = "tiny", .max_waiting = 0});
  const Reply reply = server.post("/v1/completions", R"({"prompt":"x"})");
  EXPECT_EQ(reply.status, 429);
  EXPECT_EQ(Json::parse(reply.body)["error"]["type"], "rate_limit_error");
  EXPECT_TRUE(reply.has("retry-after: "));
}

TEST(Service, health_and_metrics_tell_how_it_is) {
  const Server server;
  server.complete();
  Client client(server.port());
  client.get("/health");
  EXPECT_EQ(client.reply().body, R"({"status":"ok"})");
  client.get("/metrics");
  const std::string page = client.reply().body;
  for (const char* line : {"vllm:num_requests_running{", "vllm:generation_tokens_total{", "vllm:time_to_first_token_seconds_bucket{",
                           "vllm:inter_token_latency_seconds_count{", "vllm:e2e_request_latency_seconds_sum{", "finished_reason=\"length\"",
                           "vllm:kv_cache_usage_perc{", "vllm:request_prompt_tokens_bucket{"})
    EXPECT_THAT(page, HasSubstr(line));
}

TEST(Service, two_hundred_streams_at_once_get_what_each_would_get_alone) {
  const Server server({.max_sequences = 32, .cache_tokens = 16384});
  const auto body = [](int i) {
    return Json({{"prompt", "number " + std::to_string(i % 10)},
                 {"max_tokens", 8},
                 {"seed", i % 10},
                 {"ignore_eos", true},
                 {"stream", true}})
        .dump();
  };
  std::vector<std::string> alone;
  const auto text_of = [](const std::string& stream) {
    std::string text;
    for (const std::string& event : events(stream))
      if (event != "[DONE]") text += Json::parse(event)["choices"][0]["text"].get<std::string>();
    return text;
  };
  for (int i = 0; i < 10; ++i) alone.push_back(text_of(server.post("/v1/completions", body(i)).body));
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 200; ++i) {
    clients.push_back(std::make_unique<Client>(server.port()));
    clients.back()->post("/v1/completions", body(i));
    if (i % 20 == 19) clients[static_cast<std::size_t>(i)]->close();  // some leave
  }
  for (int i = 0; i < 200; ++i)
    if (i % 20 != 19) {
      EXPECT_EQ(text_of(clients[static_cast<std::size_t>(i)]->reply().body), alone[static_cast<std::size_t>(i % 10)]) << i;
    }
  EXPECT_TRUE(server.rests());
}

}  // namespace
}  // namespace quern::openai
