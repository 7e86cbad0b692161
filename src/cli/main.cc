#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <new>

#include "base/error.h"
#include "cli/command.h"

int main(int argc, char** argv) {
  constexpr int kFailure = 1, kUsage = 2;
  CLI::App app("Quern runs AI models: language models from GGUF files, graphs from ONNX files.", "quern");
  app.set_version_flag("--version", QUERN_VERSION);
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::simple);
#define QUERN_COMMAND(name) quern::cli::add_##name(app);
#include "cli/commands.inc"
#undef QUERN_COMMAND
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::Success& e) {
    return app.exit(e);  // --help, --version
  } catch (const CLI::ParseError& e) {
    app.exit(e);
    return kUsage;
  } catch (const std::bad_alloc&) {
    std::fputs("quern: error: out of memory\n", stderr);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "quern: error: %s\n", e.what());
  }
  return kFailure;
}
