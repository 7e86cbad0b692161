// `--profile`: what is written is JSON that trace viewers read, its events nest, and its times add up.
#include <gmock/gmock.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "cli/program.h"
#include "support/tiny_llama.h"

namespace quern::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class ProfileOption : public ::testing::Test {
 protected:
  ProfileOption() { testing::write_tiny_llama(model); }

  Folder folder;
  std::string model = folder / "tiny.gguf", file = folder / "profile.json";
};

/// The time of each set of sizes is that of its kernels and what is idle; and so by nodes and by steps.
void expect_times_add_up(const json& profile) {
  ASSERT_FALSE(profile["groups"].empty());
  for (const json& group : profile["groups"])
    for (const char* list : {"kernels", "nodes", "steps"}) {
      double sum = group["idle_s"];
      for (const json& row : group[list]) {
        EXPECT_GE(row["time_s"], row["waiting_s"]);
        sum += row["time_s"].get<double>();
      }
      EXPECT_NEAR(sum, group["wall_s"], 1e-3 * group["wall_s"].get<double>()) << list << " of " << group["sizes"];
    }
}

/// Begin and end in nanoseconds, as exactly as they were.
std::pair<std::int64_t, std::int64_t> span(const json& event) {
  const auto nanoseconds = [](const json& microseconds) { return static_cast<std::int64_t>(microseconds.get<double>() * 1e3 + 0.5); };
  return {nanoseconds(event["ts"]), nanoseconds(event["ts"]) + nanoseconds(event["dur"])};
}

/// Events of a track follow each other, and each task lies in a run. Returns how many tasks.
std::size_t expect_events_nest(const json& trace) {
  std::vector<std::pair<std::int64_t, std::int64_t>> runs;
  std::map<int, std::int64_t> free;  // of each track
  std::size_t tasks = 0;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "M") continue;
    const auto [begin, end] = span(event);
    const int track = event["tid"];
    EXPECT_GE(begin, free[track]) << event;
    free[track] = end;
    if (track == 0) {
      runs.emplace_back(begin, end);
      continue;
    }
    ++tasks;
    bool inside = false;
    for (const auto& [run_begin, run_end] : runs) inside |= run_begin <= begin && end <= run_end;
    EXPECT_TRUE(inside) << event;
    for (const char* key : {"op", "node", "kernel", "bytes", "operations", "step", "task", "tasks"})
      EXPECT_TRUE(event["args"].contains(key)) << key;
  }
  return tasks;
}

TEST_F(ProfileOption, bench_tells_where_the_time_goes) {
  const Outcome outcome = quern({"bench", model, "--prompt", "8", "--generate", "4", "--profile"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, ContainsRegex("tokens 8: 2 runs of .* ms, .* steps, .* workers"));
  EXPECT_THAT(outcome.out, ContainsRegex("tokens 1: 4 runs of "));
  EXPECT_THAT(outcome.out, ContainsRegex("blk\\.\\*\\.ffn_down +2 .* % +[a-z]"));
  EXPECT_THAT(outcome.out, ContainsRegex("paged_attention"));
  EXPECT_THAT(outcome.out, ContainsRegex("measured limits: memory read [0-9.]+ GB/s"));
}

TEST_F(ProfileOption, the_times_of_bench_add_up_to_those_it_measured) {
  const Outcome outcome = quern({"bench", model, "--prompt", "8", "--generate", "16", "--profile", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json out = json::parse(outcome.out);
  expect_times_add_up(out["profile"]);
  EXPECT_GT(out["profile"]["limits"]["memory_read_bytes_per_s"], 0);
  for (const json& group : out["profile"]["groups"])
    if (group["sizes"]["tokens"] == 1) {
      EXPECT_EQ(group["runs"], 16);
      EXPECT_LE(group["wall_s"], 16 / out["generate_tokens_per_s"].get<double>());
    }
  EXPECT_FALSE(json::parse(quern({"bench", model, "--prompt", "8", "--generate", "4", "--json"}).out).contains("profile"));
}

TEST_F(ProfileOption, run_writes_a_trace_beside_the_answer) {
  const std::vector<std::string> plain = {"run", model, "--raw", "-p", "Once", "-n", "12", "--temp", "0", "--threads", "2"};
  std::vector<std::string> with = plain;
  with.insert(with.end(), {"--profile", file});
  const Outcome outcome = quern(with);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, quern(plain).out) << "the answer stays as it is";
  EXPECT_THAT(outcome.err, HasSubstr("measured limits"));
  const json trace = json::parse(read_file(file));
  expect_times_add_up(trace["quern"]);
  EXPECT_TRUE(trace["quern"]["complete"]);
  std::size_t expected = 0;
  for (const json& group : trace["quern"]["groups"])
    for (const json& step : group["steps"]) expected += step["tasks"].get<std::size_t>() * group["runs"].get<std::size_t>();
  EXPECT_EQ(expect_events_nest(trace), expected);
  std::set<std::string> tracks;
  for (const json& event : trace["traceEvents"])
    if (event["name"] == "thread_name") tracks.insert(event["args"]["name"]);
  EXPECT_EQ(tracks, (std::set<std::string>{"runs", "worker 0", "worker 1"}));
}

TEST_F(ProfileOption, graphs_have_one_too) {
  const fs::path data = fs::path(QUERN_SOURCE_DIR) / "tests/formats/onnx/data/cases/mlp_13";
  const Outcome outcome = quern({"run", data / "model.onnx", "--input", "x=" + (data / "in.x.npy").string(), "--profile", file});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("f32["));
  const json trace = json::parse(read_file(file));
  expect_times_add_up(trace["quern"]);
  EXPECT_GT(expect_events_nest(trace), 0u);
}

TEST_F(ProfileOption, a_file_that_cannot_be_written_is_an_error_before_anything_runs) {
  const Outcome outcome = quern({"run", model, "--raw", "-p", "Once", "--profile", folder / "no/such/folder.json"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr("cannot write the profile"));
}

TEST_F(ProfileOption, a_chat_that_waits_for_its_user_uses_no_processor_time) {
  testing::TinyLlama with_template;
  with_template.more = [](gguf::Writer& out) { out.set("tokenizer.chat_template", "{{ messages[0].content }}"); };
  testing::write_tiny_llama(folder / "chat.gguf", with_template);
  Terminal terminal({"run", folder / "chat.gguf"}, folder.path());
  ASSERT_TRUE(terminal.shows(">>> ")) << terminal.shown();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // time to fall asleep
  const double before = terminal.processor_seconds();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  EXPECT_LE(terminal.processor_seconds() - before, 0.011) << "one tick of the clock that it is counted in";
}

}  // namespace
}  // namespace quern::cli
