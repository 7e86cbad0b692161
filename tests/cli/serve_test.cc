#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "cli/program.h"
#include "serving/client.h"
#include "support/tiny_llama.h"

namespace quern::cli {
namespace {

using http::testing::Client;
using http::testing::Reply;
using ::testing::HasSubstr;

/// `quern serve ARGUMENTS --port 0`, until it is gone.
class Served {
 public:
  explicit Served(std::vector<std::string> arguments) {
    int out[2];
    EXPECT_EQ(::pipe2(out, O_CLOEXEC), 0);
    arguments.insert(arguments.begin(), {QUERN_PROGRAM, "serve"});
    arguments.insert(arguments.end(), {"--port", "0", "--no-cache"});
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    EXPECT_EQ(::posix_spawn(&child_, QUERN_PROGRAM, &actions, nullptr, argv.data(), environ), 0);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(out[1]);
    for (char c = 0; ::read(out[0], &c, 1) == 1 && c != '\n';) line_ += c;
    ::close(out[0]);
    if (const std::size_t colon = line_.rfind(':'); colon != std::string::npos)
      port_ = static_cast<std::uint16_t>(std::atoi(line_.c_str() + colon + 1));
  }
  ~Served() {
    if (child_ > 0) signal(SIGKILL), status();
  }
  const std::string& line() const { return line_; }
  std::uint16_t port() const { return port_; }
  void signal(int number) const { ::kill(child_, number); }
  int status() {
    int status = 0;
    ::waitpid(child_, &status, 0);
    child_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t child_ = -1;
  std::string line_;
  std::uint16_t port_ = 0;
};

TEST(Serve, says_where_it_listens_answers_and_drains_when_told_to_end) {
  const Folder folder;
  quern::testing::write_tiny_llama(folder / "tiny.gguf");
  Served served({folder / "tiny.gguf", "--chat-template", "chatml", "--api-key", "k1", "--parallel", "2"});
  EXPECT_THAT(served.line(), HasSubstr("listening on http://127.0.0.1:"));
  Client client(served.port());
  client.get("/health");
  EXPECT_EQ(client.reply().status, 200);
  client.get("/v1/models");
  EXPECT_EQ(client.reply().status, 401);
  client.get("/v1/models", "Authorization: Bearer k1\r\n");
  EXPECT_THAT(client.reply().body, HasSubstr("\"id\":\"tiny\""));
  const std::string key = "X-Api-Key: k1\r\n";
  client.post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":3,"ignore_eos":true})", key);
  EXPECT_THAT(client.reply().body, HasSubstr("\"completion_tokens\":3"));
  client.get("/metrics", key);
  EXPECT_THAT(client.reply().body, HasSubstr("vllm:generation_tokens_total"));

  Client streaming(served.port());
  streaming.post("/v1/completions", R"({"prompt":"x","n":20,"max_tokens":100,"ignore_eos":true,"stream":true})", key);
  EXPECT_FALSE(streaming.until("data: ").empty());
  served.signal(SIGTERM);
  EXPECT_THAT(streaming.rest(), HasSubstr("[DONE]")) << "what runs is finished";
  EXPECT_EQ(served.status(), 0);
}

TEST(Serve, what_was_computed_is_on_disk_after_a_restart) {
  const Folder folder;
  quern::testing::write_tiny_llama(folder / "tiny.gguf");
  std::this_thread::sleep_for(std::chrono::seconds(3));  // a file just written has no name yet that outlives another change
  const std::string ask = R"({"prompt":")" + std::string(100, 'x') + R"(","max_tokens":2,"ignore_eos":true,"temperature":0)";
  for (const bool again : {false, true}) {
    Served served({folder / "tiny.gguf", "--kv-disk", "8M", "--kv-disk-dir", folder / "kv"});
    for (const std::string salt : {"", R"(,"cache_salt":"mine")"}) {
      Client client(served.port());
      client.post("/v1/completions", ask + salt + "}");
      EXPECT_THAT(client.reply().body, HasSubstr(again ? "\"cached_tokens\":96" : "\"cached_tokens\":0"));
    }
    Client client(served.port());
    client.get("/metrics");
    const std::string page = client.reply().body;
    EXPECT_THAT(page,
                HasSubstr(again ? "vllm:external_prefix_cache_hits_total{engine=\"0\",model_name=\"tiny\"} 192" : "quern:kv_disk_bytes"));
    served.signal(SIGTERM);
    EXPECT_EQ(served.status(), 0);
  }
}

TEST(Serve, refuses_what_would_be_unsafe_or_cannot_be) {
  const Folder folder;
  quern::testing::write_tiny_llama(folder / "tiny.gguf");
  const std::string model = folder / "tiny.gguf";
  Outcome outcome = quern({"serve", model, "--host", "0.0.0.0", "--port", "0"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--no-auth"));
  outcome = quern({"serve", model, "--chat-template", "nosuch"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("chatml"));
  outcome = quern({"serve", model, "--api-key", "two words"});
  EXPECT_EQ(outcome.status, 1);
  outcome = quern({"serve", model, "--kv-disk-dir", model});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("the folder for cached blocks"));
  EXPECT_EQ(quern({"serve", model, "--kv-disk", "lots"}).status, 2);
  Served first({model});
  outcome = quern({"serve", model, "--port", std::to_string(first.port())});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("is taken"));
  first.signal(SIGINT);
  EXPECT_EQ(first.status(), 0);
}

}  // namespace
}  // namespace quern::cli
