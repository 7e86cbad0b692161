#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <new>
#include <sstream>
#include <string>

#include "base/error.h"
#include "cli/command.h"
#include "cli/output.h"

namespace {

constexpr int kFailure = 1, kUsage = 2;

/// One line, whatever is in it: scripts and logs read it.
int fail(std::string message, int status) {
  while (!message.empty() && message.back() == '\n') message.pop_back();
  std::replace(message.begin(), message.end(), '\n', ' ');
  std::fprintf(stderr, "quern: error: %s\n", quern::cli::printable(message).c_str());
  return status;
}

int parse(CLI::App& app, int argc, char** argv) {
  int status = 0;
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    std::ostringstream text;
    status = app.exit(e, text, std::cerr);  // --help, --version
    quern::cli::print(text.str());
  }
  quern::cli::flush();
  return status;
}

/// The command that was given, for "quern run --help says more".
std::string called(const CLI::App& app) {
  const auto parsed = app.get_subcommands();
  return parsed.empty() ? app.get_name() : app.get_name() + " " + called(*parsed.front());
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Quern runs AI models: language models from GGUF files, graphs from ONNX files.", "quern");
  app.set_version_flag("--version", QUERN_VERSION);
  app.require_subcommand(1);
  app.footer("quern COMMAND --help says more. Exit status: 0, 1 when something failed, 2 for a wrong use of the command line.");
#define QUERN_COMMAND(name) quern::cli::add_##name(app);
#include "cli/commands.inc"
#undef QUERN_COMMAND
  try {
    return parse(app, argc, argv);
  } catch (const CLI::ParseError& e) {
    return fail(std::string(e.what()) + " (" + called(app) + " --help says more)", kUsage);
  } catch (const quern::cli::UsageError& e) {
    return fail(std::string(e.what()) + " (" + called(app) + " --help says more)", kUsage);
  } catch (const quern::cli::OutputError& e) {
    if (e.number == EPIPE) return kFailure;  // whoever read it has gone: nobody to tell
    return fail(std::string("cannot write the output: ") + std::strerror(e.number), kFailure);
  } catch (const std::bad_alloc&) {
    return fail("out of memory", kFailure);
  } catch (const std::exception& e) {
    return fail(e.what(), kFailure);
  }
}
