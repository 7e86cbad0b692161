#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/engine.h"
#include "runtime/language_model.h"

namespace CLI {
class App;
}

/// Options that several commands have, each spelled and explained once.
namespace quern::cli {

/// The positional MODEL.
void add_model(CLI::App& command, std::string& path, const std::string& what = "GGUF file");
/// --threads N, for the pool that all commands share.
void add_threads(CLI::App& command);
/// --precision fast|exact
void add_precision(CLI::App& command, runtime::Precision& precision);
/// --kv-type f32|f16|bf16|q8|q4
void add_kv_type(CLI::App& command, std::optional<ir::DType>& type);
/// How weights are brought into memory.
struct LoadOptions {
  bool no_pack = false, no_cache = false;

  /// Workers, packing and its cache, and where notes go.
  void apply(runtime::LanguageOptions& load) const;
};
/// --no-pack, --no-cache
void add_load(CLI::App& command, LoadOptions& options, const std::string& group = "OPTIONS");
/// A draft model.
struct DraftFlags {
  std::string model;
  std::int64_t tokens = 0;

  /// Loads it, if there is one. Errors: those of LanguageModel::load.
  engine::DraftOptions apply(runtime::Precision precision, std::optional<ir::DType> kv_dtype, const LoadOptions& load) const;
};
/// --draft, --draft-tokens
void add_draft(CLI::App& command, DraftFlags& flags, const std::string& group);
/// A file or folder of ~/.cache/quern (or under $XDG_CACHE_HOME); empty when there is no home.
std::string cache_path(const std::string& name);
/// --json
void add_json(CLI::App& command, bool& json);
/// -v, --verbose
void add_verbose(CLI::App& command, bool& verbose, const std::string& what);
/// What --help ends with: lines of examples.
void add_examples(CLI::App& command, const std::string& lines);

std::string_view name(runtime::Precision precision);

}  // namespace quern::cli
