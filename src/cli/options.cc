#include "cli/options.h"

#include <CLI/CLI.hpp>

#include "base/thread_pool.h"

namespace quern::cli {

void add_model(CLI::App& command, std::string& path, const std::string& what) {
  command.add_option("model", path, what)->required()->type_name("MODEL");
}

void add_threads(CLI::App& command) {
  command.add_option_function<unsigned>("--threads", set_default_workers, "Workers; by default one a physical core")
      ->check(CLI::Range(1, 4096))
      ->type_name("N");
}

void add_precision(CLI::App& command, runtime::Precision& precision) {
  command
      .add_option_function<std::string>(
          "--precision",
          [&precision](const std::string& text) { precision = text == "exact" ? runtime::Precision::exact : runtime::Precision::fast; },
          "fast (the default): integer products, cache in f16; exact: float32 arithmetic and cache")
      ->check(CLI::IsMember({"fast", "exact"}))
      ->type_name("P");
}

void add_json(CLI::App& command, bool& json) { command.add_flag("--json", json, "Print one JSON object"); }

void add_verbose(CLI::App& command, bool& verbose, const std::string& what) { command.add_flag("-v,--verbose", verbose, what); }

void add_examples(CLI::App& command, const std::string& lines) { command.footer("Examples:\n" + lines); }

std::string_view name(runtime::Precision precision) { return precision == runtime::Precision::exact ? "exact" : "fast"; }

}  // namespace quern::cli
