// quern bench: how fast a language model runs, as other engines measure it: tokens a second without tokenizer and sampling.
#include <sys/resource.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backends/cpu/measure/measure.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/profile_report.h"
#include "cli/step_times.h"
#include "cli/step_times_file.h"
#include "cli/steps.h"
#include "runtime/language_model.h"

namespace quern::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string model, cost;
  runtime::Precision precision = runtime::Precision::fast;
  LoadOptions load;
  std::optional<ir::DType> kv_dtype;
  std::int64_t prompt = 512, generate = 128, batch = 1;
  bool json = false, verbose = false, profile = false;
};

struct Figures {
  double prompt_tokens_per_s = 0, generate_tokens_per_s = 0, time_to_first_token_s = 0, load_s = 0;
  std::int64_t peak_rss_bytes = 0;
};

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::shared_ptr<const runtime::LanguageModel> load_model(const Options& options) {
  runtime::LanguageOptions load;
  load.precision = options.precision;
  load.kv_dtype = options.kv_dtype;
  options.load.apply(load);
  return runtime::LanguageModel::load(options.model, load);
}

Figures measure(const Options& options, plan::Profile* profile) {
  Figures figures;
  const auto start = Clock::now();
  auto model = load_model(options);
  figures.load_s = seconds_since(start);

  Steps steps(model, options.batch, options.prompt + options.generate);
  const auto prefill = [&](std::int64_t sequences) {
    const auto begin = Clock::now();
    for (std::int64_t s = 0; s < sequences; ++s)
      for (std::int64_t i = 0; i < options.prompt; ++i) steps.add(s, i, i + 1 == options.prompt);
    steps.run();
    return seconds_since(begin);
  };
  const auto decode = [&](std::int64_t count) {
    const auto begin = Clock::now();
    for (std::int64_t g = 0; g < count; ++g) {
      for (std::int64_t s = 0; s < options.batch; ++s) steps.add(s, options.prompt + g, true);
      steps.run();
    }
    return seconds_since(begin);
  };
  prefill(options.batch);  // warm-up: bindings, pages of the cache, clocks
  decode(std::min<std::int64_t>(options.generate, 4));
  steps.set_profile(profile);
  figures.time_to_first_token_s = prefill(1);
  if (options.prompt > 0) figures.prompt_tokens_per_s = double(options.batch * options.prompt) / prefill(options.batch);
  if (options.generate > 0) figures.generate_tokens_per_s = double(options.batch * options.generate) / decode(options.generate);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  figures.peak_rss_bytes = usage.ru_maxrss * 1024;
  return figures;
}

void bench(const Options& options) {
  if (!options.cost.empty()) {
    const engine::StepTimes times = measure_step_times(load_model(options));
    write_step_times(options.cost, times, options.model, process_pool().workers());
    const auto answers = [&](std::int64_t count) {
      return 1e3 * (times.of_tokens(count) + times.of_rows(count) + double(count) * times.of_keys(256));
    };
    print(
        fmt::format("a prompt's 64 tokens {:.2f} ms, 256 {:.2f} ms; an answer's token {:.2f} ms, of 16 answers {:.2f} ms\n"
                    "first of its sizes {:.2f} ms more; served: a request {:.1f} us, a token {:.1f} us\n",
                    1e3 * times.of_tokens(64), 1e3 * times.of_tokens(256), answers(1), answers(16), 1e3 * times.new_sizes,
                    1e6 * times.request, 1e6 * times.token));
    return;
  }
  plan::Profile profile;
  const Figures f = measure(options, options.profile ? &profile : nullptr);
  cpu::Speed speed;
  if (options.profile) speed = cpu::measure_speed(process_pool());
  if (options.json) {
    nlohmann::ordered_json out = {{"model", options.model},
                                  {"threads", process_pool().workers()},
                                  {"isa", name(best_isa())},
                                  {"precision", name(options.precision)},
                                  {"prompt", options.prompt},
                                  {"generate", options.generate},
                                  {"batch", options.batch},
                                  {"prompt_tokens_per_s", f.prompt_tokens_per_s},
                                  {"generate_tokens_per_s", f.generate_tokens_per_s},
                                  {"time_to_first_token_s", f.time_to_first_token_s},
                                  {"load_s", f.load_s},
                                  {"peak_rss_bytes", f.peak_rss_bytes}};
    if (options.profile) out["profile"] = nlohmann::ordered_json::parse(profile_json(profile, speed));
    print(out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
    return;
  }
  const auto rate = [&](const char* what, std::int64_t tokens, double per_second) {
    if (tokens > 0) print(fmt::format("{:<9} {:>4} x {:<5} tokens {:>10.1f} tokens/s\n", what, options.batch, tokens, per_second));
  };
  rate("prompt", options.prompt, f.prompt_tokens_per_s);
  rate("generate", options.generate, f.generate_tokens_per_s);
  print(fmt::format("first token after {:.3f} s, load {:.3f} s, memory at most {}\n", f.time_to_first_token_s, f.load_s,
                    bytes_text(static_cast<std::uint64_t>(f.peak_rss_bytes))));
  if (options.verbose)
    print(fmt::format("{} workers, {}, precision {}\n", process_pool().workers(), name(best_isa()), name(options.precision)));
  if (options.profile) print("\n" + profile_text(profile, speed));
}

}  // namespace

void add_bench(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("bench", "Measure how fast a language model runs, without tokenizer and sampling");
  add_model(*command, options->model);
  command->add_option("--prompt", options->prompt, "Tokens of each prompt")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str()
      ->type_name("N");
  command->add_option("--generate", options->generate, "Tokens generated after each prompt")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str()
      ->type_name("N");
  command->add_option("--batch", options->batch, "Sequences at once")->check(CLI::Range(1, 4096))->capture_default_str()->type_name("N");
  add_threads(*command);
  add_precision(*command, options->precision);
  command->add_flag("--profile", options->profile, "Also where the time goes: by kernel and node, beside what the machine allows");
  add_kv_type(*command, options->kv_dtype);
  command->add_option("--cost", options->cost, "Instead: measure what steps and serving take, for `quern simulate`")->type_name("F.json");
  add_load(*command, options->load);
  add_json(*command, options->json);
  add_verbose(*command, options->verbose, "Also workers, instruction set and precision");
  add_examples(*command,
               "  quern bench model.gguf\n"
               "  quern bench model.gguf --profile\n"
               "  quern bench model.gguf --prompt 1024 --generate 64 --batch 8 --json");
  command->callback([options] { bench(*options); });
}

}  // namespace quern::cli
