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
#include "cli/step_times_file.h"
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

/// The rows of one step over sequences that each own a run of blocks of the cache.
class Steps {
 public:
  static constexpr std::int64_t kMost = 512;  // tokens a step, as the engine's own prefill

  Steps(std::shared_ptr<const runtime::LanguageModel> model, std::int64_t sequences, std::int64_t tokens)
      : blocks_each_((tokens + model->kv_block_tokens() - 1) / model->kv_block_tokens()),
        block_tokens_(model->kv_block_tokens()),
        vocabulary_(model->vocabulary()),
        runner_(std::move(model), process_pool(), sequences * blocks_each_, sequences, blocks_each_) {
    for (std::int64_t b = 0; b < sequences * blocks_each_; ++b) table_.push_back(static_cast<std::int32_t>(b));
  }

  void add(std::int64_t sequence, std::int64_t position, bool wants_logits) {
    if (wants_logits) rows_.push_back(static_cast<std::int32_t>(ids_.size()));
    ids_.push_back(
        static_cast<std::int32_t>((sequence * 7919 + position * 104729 + 17) % vocabulary_));  // any tokens will do; not all the same
    positions_.push_back(static_cast<std::int32_t>(position));
    sequence_.push_back(static_cast<std::int32_t>(sequence));
    slots_.push_back(static_cast<std::int32_t>(sequence * blocks_each_ * block_tokens_ + position));
    if (static_cast<std::int64_t>(ids_.size()) == kMost) run();
  }

  void set_profile(plan::Profile* profile) { runner_.set_profile(profile); }

  void run() {
    if (ids_.empty()) return;
    runner_.run({ids_, positions_, sequence_, slots_, table_, rows_});
    for (auto* list : {&ids_, &positions_, &sequence_, &slots_, &rows_}) list->clear();
  }

 private:
  std::int64_t blocks_each_, block_tokens_, vocabulary_;
  runtime::LanguageRunner runner_;
  std::vector<std::int32_t> ids_, positions_, sequence_, slots_, table_, rows_;
};

std::shared_ptr<const runtime::LanguageModel> load_model(const Options& options) {
  runtime::LanguageOptions load;
  load.precision = options.precision;
  load.kv_dtype = options.kv_dtype;
  options.load.apply(load);
  return runtime::LanguageModel::load(options.model, load);
}

/// How long steps take by what they hold, for `quern simulate`. The median of some runs of each.
engine::StepTimes measure_step_times(const Options& options) {
  constexpr int kRuns = 7;
  const std::shared_ptr<const runtime::LanguageModel> model = load_model(options);
  const std::int64_t context = std::min<std::int64_t>(1536, model->context_length());
  const auto timed = [&](Steps& steps, auto&& fill) {
    std::vector<double> times;
    for (int run = -1; run < kRuns; ++run) {  // the first warms up
      fill(steps);
      const auto begin = Clock::now();
      steps.run();
      if (run >= 0) times.push_back(seconds_since(begin));
    }
    std::nth_element(times.begin(), times.begin() + kRuns / 2, times.end());
    return times[kRuns / 2];
  };
  const auto piece = [&](Steps& steps, std::int64_t first, std::int64_t count) {
    return timed(steps, [=](Steps& s) {
      for (std::int64_t i = 0; i < count; ++i) s.add(0, first + i, i + 1 == count);
    });
  };
  const auto answers = [&](Steps& steps, std::int64_t sequences, std::int64_t position) {
    return timed(steps, [=](Steps& s) {
      for (std::int64_t i = 0; i < sequences; ++i) s.add(i, position, true);
    });
  };
  engine::StepTimes result;
  Steps few(model, 8, context), many(model, 64, 32);
  for (const std::int64_t count : {1, 2, 4, 8, 16, 32, 64, 128, 256, 511})
    if (count <= context) result.tokens.emplace_back(count, piece(few, 0, count));
  const std::int64_t far = context - 1, half = context / 2;
  result.key = std::max(0.0, (answers(few, 8, far) - answers(few, 8, 15)) / (8.0 * double(far - 15)));
  const std::int64_t length = std::min<std::int64_t>(256, half);
  result.prompt_key = std::max(0.0, (piece(few, half, length) - piece(few, 0, length)) / (double(length) * double(half)));
  constexpr std::int64_t kRows = 32;
  result.row = std::max(0.0, (answers(many, kRows, 16) - result.of_tokens(kRows) - result.key * double(kRows) * 17) / double(kRows - 1));
  // What the times of n tokens hold beside the tokens themselves.
  for (auto& [count, seconds] : result.tokens)
    seconds = std::max(0.0, seconds - result.row - (count == 1 ? result.key : result.prompt_key * double(count) * double(count + 1) / 2));
  return result;
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
    const engine::StepTimes times = measure_step_times(options);
    write_step_times(options.cost, times, options.model, process_pool().workers());
    print(fmt::format(
        "a token {:.2f} ms, 64 tokens {:.2f} ms, 256 tokens {:.2f} ms; a row {:.1f} us; 1000 keys {:.1f} us, in prompts {:.2f} us\n",
        1e3 * times.of_tokens(1), 1e3 * times.of_tokens(64), 1e3 * times.of_tokens(256), 1e6 * times.row, 1e9 * times.key,
        1e9 * times.prompt_key));
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
  command->add_option("--cost", options->cost, "Instead: measure how long steps take by what they hold, for `quern simulate`")
      ->type_name("F.json");
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
