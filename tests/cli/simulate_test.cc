#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "cli/program.h"
#include "support/tiny_llama.h"

namespace quern::cli {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

/// 10 ms a step and 1 ms a token, whatever else.
const char* const kCost = R"({"tokens": [[1, 0.011], [1001, 1.011]], "rows": [[1, 0]], "keys": [[1, 0]], "prompt_key": 0, "new_sizes": 0,
                              "request": 0.5, "token": 0.001})";

TEST(Simulate, predicts_from_a_trace_and_measured_times) {
  const Folder folder;
  write_file(folder / "cost.json", kCost);
  write_file(folder / "trace.jsonl",
             "{\"timestamp\": 2000, \"input_length\": 90, \"output_length\": 11}\n\n"
             "{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": [3]}\n");
  const Outcome outcome = quern({"simulate", folder / "trace.jsonl", "--cost", folder / "cost.json", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json json = Json::parse(outcome.out).at(0);
  EXPECT_EQ(json.at("requests"), 2);
  EXPECT_EQ(json.at("steps"), 12);
  EXPECT_NEAR(json.at("seconds").get<double>(), 2 + 0.5 + 0.1 + 10 * 0.011 + 11 * 0.001, 1e-9);
}

TEST(Simulate, requests_of_a_session_wait_for_each_other) {
  const Folder folder;
  write_file(folder / "cost.json", kCost);
  std::string trace;
  for (const char* session : {"\"a\"", "5", "\"a\"", "5"})
    trace += std::string(R"({"timestamp": 0, "input_length": 1, "output_length": 2, "session_id": )") + session + "}\n";
  write_file(folder / "trace.jsonl", trace);
  const Outcome outcome = quern({"simulate", folder / "trace.jsonl", "--cost", folder / "cost.json", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json json = Json::parse(outcome.out).at(0);
  EXPECT_EQ(json.at("requests"), 4);
  EXPECT_GT(json.at("seconds").get<double>(), 1.0) << "each is read in half a second, and the third only after the first has ended";
  EXPECT_EQ(json.at("most_waiting"), 1);
}

TEST(Simulate, clients_on_the_same_machine_cost_what_they_are_said_to) {
  const Folder folder;
  write_file(folder / "cost.json", kCost);
  write_file(folder / "trace.jsonl", R"({"timestamp": 0, "input_length": 1, "output_length": 4})");
  const Outcome outcome = quern({"simulate", folder / "trace.jsonl", "--cost", folder / "cost.json", "--client-request-us", "250000",
                                 "--client-token-us", "2000", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NEAR(Json::parse(outcome.out).at(0).at("seconds").get<double>(), 0.75 + 4 * (0.011 + 0.003), 1e-9);
}

TEST(Simulate, a_file_without_measured_times_is_refused) {
  const Folder folder;
  write_file(folder / "trace.jsonl", R"({"timestamp": 0, "input_length": 1, "output_length": 1})");
  const std::string good = kCost;
  for (const std::string& bad :
       {std::string("{}"), std::string("no"), std::string(good).replace(good.find("0.011"), 5, "-1"),
        std::string(good).replace(good.find("1001"), 4, "1"), std::string(good).replace(good.find("[[1, 0]]"), 8, "[]")}) {
    write_file(folder / "cost.json", bad);
    const Outcome outcome = quern({"simulate", folder / "trace.jsonl", "--cost", folder / "cost.json"});
    EXPECT_EQ(outcome.status, 1) << bad;
    EXPECT_THAT(outcome.err, HasSubstr("cost.json")) << bad;
  }
}

TEST(Simulate, takes_what_bench_measures_of_steps_and_of_serving) {
  const Folder folder;
  quern::testing::write_tiny_llama(folder / "tiny.gguf");
  const Outcome measured = quern({"bench", folder / "tiny.gguf", "--cost", folder / "cost.json", "--no-cache"});
  ASSERT_EQ(measured.status, 0) << measured.err;
  const Json cost = Json::parse(read_file(folder / "cost.json"));
  EXPECT_GT(cost.at("tokens").at(0).at(1).get<double>(), 0);
  EXPECT_EQ(cost.at("rows").size(), 9);
  EXPECT_GT(cost.at("request").get<double>(), 0);
  EXPECT_GE(cost.at("token").get<double>(), 0);
  write_file(folder / "trace.jsonl", R"({"timestamp": 0, "input_length": 10, "output_length": 4})");
  const Outcome outcome = quern({"simulate", folder / "trace.jsonl", "--cost", folder / "cost.json", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(Json::parse(outcome.out).at(0).at("requests"), 1);
}

}  // namespace
}  // namespace quern::cli
