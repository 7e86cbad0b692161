#include "cli/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>

#include <map>

#include "base/thread_pool.h"
#include "cli/output.h"

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
          "fast (the default): integer products, 16-bit cache; exact: float32 arithmetic and cache")
      ->check(CLI::IsMember({"fast", "exact"}))
      ->type_name("P");
}

void add_kv_type(CLI::App& command, std::optional<ir::DType>& type) {
  static const std::map<std::string, ir::DType> types = {
      {"f32", ir::DType::f32}, {"f16", ir::DType::f16}, {"bf16", ir::DType::bf16}, {"q8", ir::DType::q8_0}, {"q4", ir::DType::q4_1}};
  command
      .add_option_function<std::string>(
          "--kv-type", [&type](const std::string& text) { type = types.at(text); },
          "Numbers of the cache of keys and values: f32, f16, bf16, q8 (8.5 bits) or q4 (5 bits); by default the precision's")
      ->check(CLI::IsMember({"f32", "f16", "bf16", "q8", "q4"}))
      ->type_name("T");
}

void LoadOptions::apply(runtime::LanguageOptions& load) const {
  load.pool = &process_pool();
  load.pack = !no_pack;
  if (!no_cache) load.cache_folder = cache_path("packed");
  load.note = [](std::string_view note) { fmt::print(stderr, "quern: note: {}\n", printable(note)); };
}

void add_load(CLI::App& command, LoadOptions& options, const std::string& group) {
  command.add_flag("--no-pack", options.no_pack, "Leave the weights in the file's layout: slower, and the least memory")->group(group);
  command.add_flag("--no-cache", options.no_cache, "Neither read nor write packed weights in ~/.cache/quern/packed")->group(group);
}

engine::DraftOptions DraftFlags::apply(runtime::Precision precision, std::optional<ir::DType> kv_dtype, const LoadOptions& load) const {
  engine::DraftOptions draft;
  if (model.empty()) return draft;
  runtime::LanguageOptions options;
  options.precision = precision;
  options.kv_dtype = kv_dtype;
  load.apply(options);
  draft.note = options.note;
  draft.model = runtime::LanguageModel::load(model, options);
  draft.tokens = tokens;
  return draft;
}

void add_draft(CLI::App& command, DraftFlags& flags, const std::string& group) {
  CLI::Option* model =
      command.add_option("--draft", flags.model, "A smaller model with the same tokens, which guesses where that makes answers faster")
          ->type_name("MODEL")
          ->group(group);
  command.add_option("--draft-tokens", flags.tokens, "Guess always so many tokens; by default as many as pay, perhaps none")
      ->check(CLI::Range(1, 8))
      ->type_name("N")
      ->needs(model)
      ->group(group);
}

std::string cache_path(const std::string& name) {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache == '/') return std::string(cache) + "/quern/" + name;
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') return std::string(home) + "/.cache/quern/" + name;
  return "";
}

void add_json(CLI::App& command, bool& json) { command.add_flag("--json", json, "Print one JSON object"); }

void add_verbose(CLI::App& command, bool& verbose, const std::string& what) { command.add_flag("-v,--verbose", verbose, what); }

void add_examples(CLI::App& command, const std::string& lines) { command.footer("Examples:\n" + lines); }

std::string_view name(runtime::Precision precision) { return precision == runtime::Precision::exact ? "exact" : "fast"; }

}  // namespace quern::cli
