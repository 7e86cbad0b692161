// quern eval logits: what the model computes, for comparison with other engines.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "cli/command.h"
#include "cli/options.h"
#include "formats/npy/npy.h"
#include "runtime/language_model.h"

namespace quern::cli {
namespace {

struct Options {
  std::string model, out;
  runtime::Precision precision = runtime::Precision::fast;
  LoadOptions load;
  std::optional<ir::DType> kv_dtype;
  std::vector<std::int32_t> ids;
  bool verbose = false;
  std::int64_t chunk = 512;
};

void eval_logits(const Options& options) {
  runtime::LanguageOptions load;
  load.precision = options.precision;
  load.kv_dtype = options.kv_dtype;
  options.load.apply(load);
  const auto model = runtime::LanguageModel::load(options.model, load);
  const auto n = static_cast<std::int64_t>(options.ids.size());
  for (const std::int32_t id : options.ids)
    if (id < 0 || id >= model->vocabulary())
      throw Error(Code::invalid_argument,
                  "the id " + std::to_string(id) + " is outside the vocabulary of " + std::to_string(model->vocabulary()));
  const std::int64_t blocks = (n + model->kv_block_tokens() - 1) / model->kv_block_tokens();
  runtime::LanguageRunner runner(model, process_pool(), blocks, 1, blocks);

  std::vector<std::int32_t> table(static_cast<std::size_t>(blocks)), places(static_cast<std::size_t>(n)),
      zeros(static_cast<std::size_t>(n), 0);
  std::iota(table.begin(), table.end(), 0);
  std::iota(places.begin(), places.end(), 0);  // one sequence in blocks 0, 1, 2 …: position, slot and row are the same number
  std::vector<float> logits;
  logits.reserve(static_cast<std::size_t>(n * model->vocabulary()));
  for (std::int64_t first = 0; first < n; first += options.chunk) {
    const auto count = static_cast<std::size_t>(std::min(options.chunk, n - first));
    const auto part = [&](const std::vector<std::int32_t>& v) { return std::span(v).subspan(static_cast<std::size_t>(first), count); };
    runtime::Batch batch{part(options.ids), part(places), part(zeros), part(places), table, std::span(places).first(count)};
    const std::span<const float> rows = runner.run(batch);
    logits.insert(logits.end(), rows.begin(), rows.end());
  }
  const std::int64_t shape[] = {n, model->vocabulary()};
  npy::write_file(options.out, ir::DType::f32, shape, std::as_bytes(std::span(logits)));
  if (options.verbose)
    std::fprintf(stderr, "%s: f32 [%lld, %lld]\n", options.out.c_str(), static_cast<long long>(n),
                 static_cast<long long>(model->vocabulary()));
}

}  // namespace

void add_eval(CLI::App& app) {
  CLI::App* eval = app.add_subcommand("eval", "Measure what a model computes");
  eval->require_subcommand(1);
  CLI::App* logits = eval->add_subcommand(
      "logits", "Write the logits of every position of a sequence of token ids as a float32 .npy file [n, vocabulary]");
  auto options = std::make_shared<Options>();
  add_model(*logits, options->model);
  logits->add_option("--ids", options->ids, "Token ids, separated by commas")->required()->delimiter(',')->type_name("1,2,3");
  logits->add_option("--out", options->out, "File to write")->required()->type_name("F.npy");
  logits->add_option("--chunk", options->chunk, "Tokens computed together; changes nothing but the time")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str()
      ->type_name("N");
  add_precision(*logits, options->precision);
  add_kv_type(*logits, options->kv_dtype);
  add_load(*logits, options->load);
  add_threads(*logits);
  add_verbose(*logits, options->verbose, "Say on stderr what was written");
  add_examples(*logits, "  quern eval logits model.gguf --ids 1,22172,3186 --out logits.npy --precision exact");
  logits->callback([options] { eval_logits(*options); });
}

}  // namespace quern::cli
