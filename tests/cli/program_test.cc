// What holds for every command: help, usage errors, files that are no models.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>

#include "cli/program.h"
#include "support/tiny_llama.h"

namespace quern::cli {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::vector<std::string> kCommands = {"run", "inspect", "tokenize", "bench", "eval", "devices"};

/// The arguments with which each command that reads a model reads `path`.
std::vector<std::vector<std::string>> readers(const std::string& path, const std::string& out) {
  return {{"run", path, "-p", "x"},
          {"inspect", path},
          {"tokenize", path, "-p", "x"},
          {"bench", path, "--prompt", "1", "--generate", "1"},
          {"eval", "logits", path, "--ids", "1", "--out", out}};
}

/// One line on stderr that says what is wrong, nothing on stdout.
void expect_error(const Outcome& outcome, int status, const std::string& what) {
  EXPECT_EQ(outcome.status, status);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, AllOf(StartsWith("quern: error: "), EndsWith("\n"), HasSubstr(what)));
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
}

TEST(Cli, every_command_has_help) {
  const Outcome all = quern({"--help"});
  EXPECT_EQ(all.status, 0);
  for (const std::string& command : kCommands) {
    EXPECT_THAT(all.out, HasSubstr("  " + command));
    const Outcome help = quern({command, "--help"});
    EXPECT_EQ(help.status, 0) << command;
    EXPECT_EQ(help.err, "") << command;
    if (command != "eval") {
      EXPECT_THAT(help.out, HasSubstr("Examples:")) << command;
    }
  }
  EXPECT_THAT(quern({"eval", "logits", "--help"}).out, HasSubstr("Examples:"));
}

TEST(Cli, says_its_version) { EXPECT_THAT(quern({"--version"}).out, ::testing::MatchesRegex("[0-9.]+\n")); }

TEST(Cli, a_wrong_use_is_one_line_and_status_2) {
  expect_error(quern({}), 2, "quern --help");
  expect_error(quern({"frobnicate"}), 2, "quern --help");
  expect_error(quern({"run"}), 2, "quern run --help");
  expect_error(quern({"run", "x.gguf", "--json-schema", "x"}), 2, "--json-schema");
  expect_error(quern({"bench", "x.gguf", "--prompt", "0"}), 2, "--prompt");
  expect_error(quern({"bench", "x.gguf", "--precision", "sloppy"}), 2, "sloppy");
  expect_error(quern({"run", "x.gguf", "--kv-type", "q5"}), 2, "q5");
  expect_error(quern({"inspect", "x.gguf", "--threads", "2"}), 2, "--threads");
  expect_error(quern({"run", "x.gguf", "--threads", "0"}), 2, "--threads");
  expect_error(quern({"run", "x.gguf", "-p", "x", "y"}), 2, "twice");
}

TEST(Cli, numbers_out_of_range_are_named_with_their_range) {
  expect_error(quern({"run", "x.gguf", "--temp", "hot"}), 2, "temp is 'hot'; a number from 0 to 100 is needed");
  expect_error(quern({"run", "x.gguf", "--temp", "999999"}), 2, "temp is '999999'");
  expect_error(quern({"run", "x.gguf", "--top-p", "-1"}), 2, "top-p");
  expect_error(quern({"run", "x.gguf", "--top-k", "1.5"}), 2, "a whole number");
  expect_error(quern({"run", "x.gguf", "--min-p", "nan"}), 2, "min-p");
  expect_error(quern({"run", "x.gguf", "-n", "0"}), 2, "max-tokens");
  expect_error(quern({"run", "x.gguf", "--seed", "-1"}), 2, "seed");
}

TEST(Cli, a_file_that_is_not_there_is_named) {
  for (const auto& arguments : readers("/nonexistent/m.gguf", "/dev/null")) expect_error(quern(arguments), 1, "/nonexistent/m.gguf");
}

TEST(Cli, a_folder_is_no_model) {
  const Folder folder;
  for (const auto& arguments : readers(folder.path(), folder / "out")) expect_error(quern(arguments), 1, folder.path());
}

TEST(Cli, a_file_that_is_no_model_is_named) {
  const Folder folder;
  for (const std::string bytes : {"", "GG", "GGUF", "once upon a time, in a file far away"}) {
    for (const std::string name : {"a.gguf", "a"}) {
      write_file(folder / name, bytes);
      for (const auto& arguments : readers(folder / name, folder / "out")) expect_error(quern(arguments), 1, folder / name);
    }
    write_file(folder / "a.onnx", bytes);
    expect_error(quern({"inspect", folder / "a.onnx"}), 1, folder / "a.onnx");
  }
}

TEST(Cli, other_formats_are_told_apart) {
  const Folder folder;
  write_file(folder / "m.safetensors", std::string("\x10\0\0\0\0\0\0\0{\"a\":{}}", 16));
  expect_error(quern({"inspect", folder / "m.safetensors"}), 1, "safetensors");
  write_file(folder / "m.pt", "PK\x03\x04 and so on");
  expect_error(quern({"run", folder / "m.pt", "-p", "x"}), 1, "PyTorch");
  write_file(folder / "m", "version https://git-lfs.github.com/spec/v1\n");
  expect_error(quern({"inspect", folder / "m"}), 1, "Git LFS");
}

TEST(Cli, a_model_cut_short_is_an_error_wherever_it_ends) {
  const Folder folder;
  testing::write_tiny_llama(folder / "whole.gguf");
  const std::string whole = read_file(folder / "whole.gguf");
  for (std::size_t size = 4096; size < whole.size(); size += whole.size() / 6) {
    write_file(folder / "cut.gguf", whole.substr(0, size));
    for (const auto& arguments : readers(folder / "cut.gguf", folder / "out")) expect_error(quern(arguments), 1, "cut.gguf");
  }
}

TEST(Cli, output_that_cannot_be_written_is_an_error) {
  const Folder folder;
  testing::write_tiny_llama(folder / "m.gguf");
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"inspect", folder / "m.gguf"}, {"run", folder / "m.gguf", "--raw", "-p", "x", "-n", "2"}, {"devices"}}) {
    const Outcome outcome = quern(arguments, "", "/dev/full");
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(outcome.err, "quern: error: cannot write the output: No space left on device\n");
  }
}

TEST(Cli, help_that_cannot_be_written_is_an_error) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"--help"}, {"--version"}, {"run", "--help"}})
    EXPECT_EQ(quern(arguments, "", "/dev/full").err, "quern: error: cannot write the output: No space left on device\n");
}

TEST(Cli, a_fifo_is_no_model) {
  const Folder folder;
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  for (const auto& arguments : readers(folder / "fifo", folder / "out")) expect_error(quern(arguments), 1, "is not a regular file");
}

TEST(Cli, devices_says_what_the_machine_is) {
  const Outcome outcome = quern({"devices", "--json"});
  EXPECT_EQ(outcome.status, 0);
  for (const char* key : {"\"model\"", "\"isa\"", "\"instruction_sets\"", "\"cores\"", "\"memory_bytes\""})
    EXPECT_THAT(outcome.out, HasSubstr(key));
}

TEST(Cli, devices_measures_every_limit) {
  const Outcome outcome = quern({"devices", "--json", "--measure"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  for (const char* key : {"memory_read_bytes_per_s", "f32_flops", "bf16_flops", "int8_ops"})
    EXPECT_THAT(outcome.out, ::testing::ContainsRegex("\"" + std::string(key) + "\": [1-9][0-9.]*e?\\+?[0-9]*")) << outcome.out;
}

}  // namespace
}  // namespace quern::cli
