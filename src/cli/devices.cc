// quern devices: what this machine has for models, and how fast it is.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backends/cpu/measure/measure.h"
#include "base/cpu.h"
#include "base/memory.h"
#include "base/thread_pool.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/output.h"

namespace quern::cli {
namespace {

struct Options {
  bool measure = false, json = false, verbose = false;
};

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  for (const Isa isa : kAllIsas)
    if (has_isa(isa)) names.emplace_back(name(isa));
  return names;
}

std::string rate(double per_second, const char* unit) { return fmt::format("{:.1f} G{}", per_second / 1e9, unit); }

void devices(const Options& options) {
  const auto [total, available] = memory();
  cpu::Speed speed;
  if (options.measure) speed = cpu::measure_speed(process_pool());
  if (options.json) {
    nlohmann::ordered_json out = {{"device", "cpu"},
                                  {"model", cpu_model()},
                                  {"isa", name(best_isa())},
                                  {"instruction_sets", instruction_sets()},
                                  {"cores", usable_cores()},
                                  {"memory_bytes", total},
                                  {"memory_available_bytes", available}};
    if (options.measure) {
      out["workers"] = process_pool().workers();
      out["memory_read_bytes_per_s"] = speed.memory_read_bytes_per_s;
      out["f32_flops"] = speed.f32_flops;
      out["bf16_flops"] = speed.bf16_flops;
      out["bf16_emulated"] = speed.bf16_emulated;
      out["int8_ops"] = speed.int8_ops;
    }
    return print(out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  }
  std::vector<std::vector<std::string>> rows = {{"cpu", printable(cpu_model())},
                                                {"instructions", std::string(name(best_isa()))},
                                                {"cores", fmt::format("{}", usable_cores())},
                                                {"memory", fmt::format("{}, {} available", bytes_text(total), bytes_text(available))}};
  if (options.verbose) rows[1][1] += fmt::format(" (of {})", fmt::join(instruction_sets(), ", "));
  if (options.measure) {
    rows.push_back({"memory read", rate(speed.memory_read_bytes_per_s, "B/s")});
    rows.push_back({"f32", rate(speed.f32_flops, "FLOP/s")});
    rows.push_back({"bf16", rate(speed.bf16_flops, "FLOP/s") + (speed.bf16_emulated ? " (no instruction for it: widened to f32)" : "")});
    rows.push_back({"int8", rate(speed.int8_ops, "op/s")});
  }
  print(table(rows));
}

}  // namespace

void add_devices(CLI::App& app) {
  CLI::App* command = app.add_subcommand("devices", "Show what this machine has to run models on, and how fast it is");
  auto options = std::make_shared<Options>();
  command->add_flag("--measure", options->measure, "Also measure memory and arithmetic, on all workers; takes about a second");
  add_threads(*command);
  add_json(*command, options->json);
  add_verbose(*command, options->verbose, "Also all instruction sets for which there are kernels");
  add_examples(*command,
               "  quern devices\n"
               "  quern devices --measure --json\n"
               "  QUERN_ISA=avx2 quern devices --measure    what fewer instructions would give");
  command->callback([options] { devices(*options); });
}

}  // namespace quern::cli
