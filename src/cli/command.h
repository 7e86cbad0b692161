#pragma once

#include <stdexcept>

namespace CLI {
class App;
}

namespace quern::cli {

// Each command's file defines `void add_<name>(CLI::App& app)`, which adds a subcommand whose callback does the work. Callbacks throw:
// Error ends the program with exit status 1, a wrong use of the command line with 2.
#define QUERN_COMMAND(name) void add_##name(CLI::App& app);
#include "cli/commands.inc"
#undef QUERN_COMMAND

/// A wrong use of the command line that shows only once the command runs, such as an option that the model's kind does not have.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace quern::cli
