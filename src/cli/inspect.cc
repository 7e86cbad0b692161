// quern inspect: what a model file says of itself, and what it will need. Also for models that Quern cannot run.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/command.h"
#include "cli/model_file.h"
#include "cli/options.h"
#include "cli/output.h"
#include "formats/gguf/file.h"
#include "formats/onnx/summary.h"
#include "runtime/memory_need.h"
#include "templates/capabilities.h"

namespace quern::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kStepTokens = 512;     // what the engine computes at once at most
constexpr std::size_t kShownElements = 8;     // of an array in the metadata
constexpr std::size_t kShownCharacters = 60;  // of a text in the table

struct Options {
  std::string model;
  runtime::Precision precision = runtime::Precision::fast;
  std::optional<ir::DType> kv_dtype;
  bool json = false, verbose = false, chat_template = false;
};

void print_json(const Json& json) { print(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"); }

/// A metadata text, nothing when the key is missing or holds something else.
std::optional<std::string> text_of(const gguf::File& file, std::string_view key) {
  const gguf::Value* value = file.find(key);
  if (value == nullptr || value->is_array() || value->element_type() != gguf::ValueType::string) return std::nullopt;
  return value->get<std::string>();
}

/// A metadata number as JSON, null when the key is missing or holds something else.
Json integer_of(const gguf::File& file, std::string_view key) {
  const gguf::Value* value = file.find(key);
  if (value == nullptr || value->is_array()) return nullptr;
  try {
    return value->get<std::int64_t>();
  } catch (const Error&) {
    return nullptr;
  }
}

Json json_number(double x) { return std::isfinite(x) ? Json(x) : Json(fmt::format("{}", x)); }

/// Elements of a metadata value, at most `most`.
Json elements_of(const gguf::Value& value, std::size_t most) {
  Json out = Json::array();
  const std::size_t count = std::min(value.size(), most);
  if (value.element_type() == gguf::ValueType::string) {
    for (const std::string_view text : value.strings()) {
      if (out.size() == count) break;
      out.push_back(text);
    }
    return out;
  }
  // Each kind converts in its own way; an array is read whole, but only its beginning is kept.
  switch (value.element_type()) {
    case gguf::ValueType::boolean:
      for (const bool b : value.array<bool>()) {
        if (out.size() == count) break;
        out.push_back(b);
      }
      break;
    case gguf::ValueType::f32:
    case gguf::ValueType::f64:
      for (const double x : value.array<double>()) {
        if (out.size() == count) break;
        out.push_back(json_number(x));
      }
      break;
    case gguf::ValueType::u64:
      for (const std::uint64_t x : value.array<std::uint64_t>()) {
        if (out.size() == count) break;
        out.push_back(x);
      }
      break;
    default:
      for (const std::int64_t x : value.array<std::int64_t>()) {
        if (out.size() == count) break;
        out.push_back(x);
      }
  }
  return out;
}

Json metadata_json(const gguf::Value& value) {
  if (value.is_array())
    return {{"type", name(value.element_type())}, {"size", value.size()}, {"first", elements_of(value, kShownElements)}};
  switch (value.element_type()) {
    case gguf::ValueType::string: return value.get<std::string>();
    case gguf::ValueType::boolean: return value.get<bool>();
    case gguf::ValueType::f32:
    case gguf::ValueType::f64: return json_number(value.get<double>());
    case gguf::ValueType::u64: return value.get<std::uint64_t>();
    default: return value.get<std::int64_t>();
  }
}

struct TypeUse {
  std::int64_t tensors = 0, parameters = 0;
  std::uint64_t bytes = 0;
};

/// What is asked of a GGUF file, gathered once for both forms of output.
struct GgufFacts {
  std::shared_ptr<const gguf::File> file;
  std::string architecture;
  std::int64_t parameters = 0;
  std::map<std::string, TypeUse> types;
  std::optional<runtime::MemoryNeed> memory;
  std::string unsupported;  // why Quern cannot run it; empty when it can

  explicit GgufFacts(const Options& options) : file(std::make_shared<const gguf::File>(gguf::File::open(options.model))) {
    architecture = text_of(*file, "general.architecture").value_or("");
    for (const gguf::Tensor& t : file->tensors()) {
      TypeUse& use = types[std::string(ir::name(t.type))];
      ++use.tensors;
      use.parameters += t.elements();
      use.bytes += t.data.size();
      parameters += t.elements();
    }
    try {
      runtime::LanguageOptions load;
      load.precision = options.precision;
      load.kv_dtype = options.kv_dtype;
      memory = runtime::memory_need(file, load, kStepTokens);
    } catch (const Error& e) {
      unsupported = e.what();
    }
  }

  Json number(std::string_view key) const { return integer_of(*file, architecture + "." + std::string(key)); }
  std::int64_t cache_bytes() const { return memory->cache_per_token * memory->context_length + memory->cache_of_window; }
  std::int64_t total_bytes() const { return memory->packed_weights + memory->mapped_weights + cache_bytes() + memory->activations; }
};

Json shape_json(const gguf::Tensor& t) { return t.shape(); }

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

/// What a chat template can do; or why it cannot be read.
std::vector<std::pair<std::string, std::string>> capabilities_of(const std::string& source) {
  try {
    return templates::described(templates::probe(templates::Template(source)));
  } catch (const Error& error) {
    return {{"not usable", error.what()}};
  }
}

Json to_json(const GgufFacts& facts, const Options& options) {
  const gguf::File& file = *facts.file;
  Json out = {{"format", "gguf"},
              {"path", options.model},
              {"version", file.version()},
              {"parts", file.parts()},
              {"file_bytes", file.bytes()},
              {"architecture", facts.architecture},
              {"name", or_null(text_of(file, "general.name"))},
              {"license", or_null(text_of(file, "general.license"))},
              {"parameters", facts.parameters},
              {"supported", facts.unsupported.empty()},
              {"unsupported", facts.unsupported.empty() ? Json() : Json(facts.unsupported)},
              {"context_length", facts.number("context_length")},
              {"layers", facts.number("block_count")},
              {"width", facts.number("embedding_length")},
              {"heads", facts.number("attention.head_count")},
              {"kv_heads", facts.number("attention.head_count_kv")}};
  Json& types = out["types"] = Json::array();
  for (const auto& [type, use] : facts.types)
    types.push_back({{"type", type}, {"tensors", use.tensors}, {"parameters", use.parameters}, {"bytes", use.bytes}});
  const gguf::Value* tokens = file.find("tokenizer.ggml.tokens");
  out["tokenizer"] = {{"model", or_null(text_of(file, "tokenizer.ggml.model"))},
                      {"pre", or_null(text_of(file, "tokenizer.ggml.pre"))},
                      {"tokens", tokens != nullptr ? Json(tokens->size()) : Json()},
                      {"bos", integer_of(file, "tokenizer.ggml.bos_token_id")},
                      {"eos", integer_of(file, "tokenizer.ggml.eos_token_id")}};
  out["chat_template"] = or_null(text_of(file, "tokenizer.chat_template"));
  out["chat_template_capabilities"] = nullptr;
  if (const auto chat = text_of(file, "tokenizer.chat_template")) {
    out["chat_template_capabilities"] = Json::object();
    for (const auto& [what, value] : capabilities_of(*chat)) out["chat_template_capabilities"][what] = value;
  }
  out["memory"] = nullptr;
  if (facts.memory)
    out["memory"] = {{"precision", name(options.precision)},
                     {"packed_weight_bytes", facts.memory->packed_weights},
                     {"mapped_weight_bytes", facts.memory->mapped_weights},
                     {"cache_bytes_per_token", facts.memory->cache_per_token},
                     {"cache_window", facts.memory->window},
                     {"cache_window_bytes", facts.memory->cache_of_window},
                     {"cache_bytes", facts.cache_bytes()},
                     {"step_tokens", facts.memory->step_tokens},
                     {"activation_bytes", facts.memory->activations},
                     {"total_bytes", facts.total_bytes()}};
  Json& metadata = out["metadata"] = Json::object();
  for (const gguf::Value& value : file.metadata()) metadata[std::string(value.key())] = metadata_json(value);
  Json& tensors = out["tensors"] = Json::array();
  for (const gguf::Tensor& t : file.tensors())
    tensors.push_back({{"name", t.name}, {"type", ir::name(t.type)}, {"shape", shape_json(t)}, {"bytes", t.data.size()}});
  return out;
}

using Rows = std::vector<std::vector<std::string>>;

void print_memory(const GgufFacts& facts, const Options& options) {
  if (!facts.memory) {
    print("\nQuern cannot run this model: " + printable(facts.unsupported) + "\n");
    return;
  }
  const runtime::MemoryNeed& need = *facts.memory;
  const auto bytes = [](std::int64_t n) { return bytes_text(static_cast<std::uint64_t>(n)); };
  const Rows rows = {
      {"weights", bytes(need.packed_weights + need.mapped_weights),
       fmt::format("{} rearranged for the kernels, {} read from the file", bytes(need.packed_weights), bytes(need.mapped_weights))},
      {"cache", bytes(facts.cache_bytes()),
       fmt::format("{} a token, at {} tokens{}; taken as it fills", bytes(need.cache_per_token), need.context_length,
                   need.window == 0 ? "" : fmt::format(", and {} of layers that see {}", bytes(need.cache_of_window), need.window))},
      {"activations", bytes(need.activations), fmt::format("in steps of {} tokens", need.step_tokens)},
      {"in all", bytes(facts.total_bytes()), ""}};
  const std::size_t right[] = {1};
  print(fmt::format("\nMemory it will need (precision {})\n", name(options.precision)) + table(rows, right));
}

void print_tensors(const gguf::File& file) {
  Rows rows = {{"tensor", "type", "shape", "bytes"}};
  for (const gguf::Tensor& t : file.tensors())
    rows.push_back({printable(t.name), std::string(ir::name(t.type)), fmt::format("[{}]", fmt::join(t.shape(), ", ")),
                    fmt::format("{}", t.data.size())});
  const std::size_t right[] = {3};
  print("\n" + table(rows, right));
}

void print_table(const GgufFacts& facts, const Options& options) {
  const gguf::File& file = *facts.file;
  Rows rows;
  const auto add = [&](const std::string& what, const std::string& value) {
    if (!value.empty()) rows.push_back({what, printable(value)});
  };
  const auto number = [&](std::string_view key) {
    const Json n = facts.number(key);
    return n.is_null() ? std::string() : n.dump();
  };
  add("file", fmt::format("GGUF {}, {}{}", file.version(), bytes_text(file.bytes()),
                          file.parts() > 1 ? fmt::format(", {} parts", file.parts()) : ""));
  add("architecture", facts.architecture);
  add("name", text_of(file, "general.name").value_or(""));
  add("license", text_of(file, "general.license").value_or(""));
  add("parameters", count_text(static_cast<std::uint64_t>(facts.parameters)));
  add("context", number("context_length").empty() ? "" : number("context_length") + " tokens");
  add("layers", number("block_count"));
  add("width", number("embedding_length"));
  add("heads",
      number("attention.head_count").empty()
          ? ""
          : number("attention.head_count") +
                (number("attention.head_count_kv").empty() ? "" : ", " + number("attention.head_count_kv") + " of keys and values"));
  if (const auto model = text_of(file, "tokenizer.ggml.model")) {
    const gguf::Value* tokens = file.find("tokenizer.ggml.tokens");
    const auto pre = text_of(file, "tokenizer.ggml.pre");
    add("tokenizer", *model + (pre ? ", " + *pre : "") + (tokens != nullptr ? fmt::format(", {} tokens", tokens->size()) : ""));
  }
  const auto chat = text_of(file, "tokenizer.chat_template");
  add("chat template", chat ? "yes (--template shows it)" : "none");
  if (chat)
    for (const auto& [what, value] : capabilities_of(*chat)) add("  " + what, value);
  print(table(rows));

  Rows types = {{"type", "tensors", "parameters", "size"}};
  for (const auto& [type, use] : facts.types)
    types.push_back({type, fmt::format("{}", use.tensors), count_text(static_cast<std::uint64_t>(use.parameters)), bytes_text(use.bytes)});
  const std::size_t right[] = {1, 2, 3};
  print("\n" + table(types, right));
  print_memory(facts, options);
  if (!options.verbose) return;
  Rows metadata;
  for (const gguf::Value& value : file.metadata())
    metadata.push_back({printable(value.key()), value.text(kShownElements, kShownCharacters)});
  print("\n" + table(metadata));
  print_tensors(file);
}

void inspect_gguf(const Options& options) {
  if (options.chat_template) {
    const auto file = gguf::File::open(options.model);
    const auto text = text_of(file, "tokenizer.chat_template");
    if (!text) throw Error(Code::not_found, "the model has no chat template").at(options.model);
    const std::string shown = stdout_is_terminal() ? printable(*text, true) : *text;
    return print(shown + (shown.ends_with('\n') ? "" : "\n"));
  }
  const GgufFacts facts(options);
  options.json ? print_json(to_json(facts, options)) : print_table(facts, options);
}

Json port_json(const onnx::Summary::Port& port) {
  Json shape;
  if (port.has_shape) {
    shape = Json::array();
    for (const std::string& d : port.dims) {
      const bool digits = !d.empty() && d.size() < 19 && d.find_first_not_of("0123456789") == std::string::npos;
      shape.push_back(digits ? Json(std::stoll(d)) : Json(d));
    }
  }
  return {{"name", port.name}, {"dtype", port.dtype}, {"shape", std::move(shape)}};
}

std::string port_text(const onnx::Summary::Port& port) {
  return printable(port.has_shape ? fmt::format("{}[{}]", port.dtype, fmt::join(port.dims, ", ")) : port.dtype + ", any shape");
}

void inspect_onnx(const Options& options) {
  if (options.chat_template) throw UsageError("--template is for language models, and this is a graph");
  const onnx::Summary s = onnx::summarize_file(options.model);
  if (options.json) {
    Json opsets = Json::object(), ops = Json::object(), inputs = Json::array(), outputs = Json::array();
    for (const auto& [domain, version] : s.opsets) opsets[domain.empty() ? "ai.onnx" : domain] = version;
    for (const auto& [op, count] : s.ops) ops[op] = count;
    for (const auto& port : s.inputs) inputs.push_back(port_json(port));
    for (const auto& port : s.outputs) outputs.push_back(port_json(port));
    return print_json({{"format", "onnx"},
                       {"path", options.model},
                       {"ir_version", s.ir_version},
                       {"producer", s.producer},
                       {"opsets", std::move(opsets)},
                       {"parameters", s.parameters},
                       {"parameter_bytes", s.parameter_bytes},
                       {"initializers", s.initializers},
                       {"nodes", s.nodes},
                       {"functions", s.functions},
                       {"inputs", std::move(inputs)},
                       {"outputs", std::move(outputs)},
                       {"ops", std::move(ops)},
                       {"supported", s.unsupported.empty()},
                       {"unsupported_ops", s.unsupported}});
  }
  Rows rows = {{"file", fmt::format("ONNX, IR version {}", s.ir_version)}};
  if (!s.producer.empty()) rows.push_back({"made by", printable(s.producer)});
  std::string opsets;
  for (const auto& [domain, version] : s.opsets)
    opsets += fmt::format("{}{} {}", opsets.empty() ? "" : ", ", domain.empty() ? "ai.onnx" : printable(domain), version);
  rows.push_back({"operator sets", opsets});
  rows.push_back({"parameters", fmt::format("{} in {} tensors, {}", count_text(static_cast<std::uint64_t>(s.parameters)), s.initializers,
                                            bytes_text(s.parameter_bytes))});
  rows.push_back({"nodes", fmt::format("{}{}", s.nodes, s.functions > 0 ? fmt::format(", {} functions", s.functions) : "")});
  for (const auto& port : s.inputs) rows.push_back({"input", printable(port.name), port_text(port)});
  for (const auto& port : s.outputs) rows.push_back({"output", printable(port.name), port_text(port)});
  // The facts above the ports are one column of text; aligning them with the ports' names would tear the table apart.
  const std::size_t ports = s.inputs.size() + s.outputs.size();
  print(table(std::span(rows).first(rows.size() - ports)) + "\n" + table(std::span(rows).last(ports)));

  std::vector<std::pair<std::size_t, std::string>> ops;
  for (const auto& [op, count] : s.ops) ops.emplace_back(count, op);
  std::sort(ops.begin(), ops.end(),
            [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
  Rows counts;
  for (const auto& [count, op] : ops) counts.push_back({fmt::format("{}", count), printable(op)});
  const std::size_t right[] = {0};
  print("\n" + table(counts, right));
  if (!s.unsupported.empty())
    print(printable(fmt::format("\nQuern cannot run this model: it lacks {}", fmt::join(s.unsupported, ", "))) + "\n");
}

void inspect(const Options& options) { file_kind(options.model) == FileKind::gguf ? inspect_gguf(options) : inspect_onnx(options); }

}  // namespace

void add_inspect(CLI::App& app) {
  CLI::App* command = app.add_subcommand("inspect", "Show what a model is and what it will need, also one that Quern cannot run");
  auto options = std::make_shared<Options>();
  add_model(*command, options->model, "GGUF or ONNX file");
  command->add_flag("--template", options->chat_template, "Print the chat template and nothing else");
  add_precision(*command, options->precision);
  add_kv_type(*command, options->kv_dtype);
  add_json(*command, options->json);
  command->add_flag("-v,--verbose,--tensors", options->verbose, "Also all metadata and tensors (JSON has them always)");
  add_examples(*command,
               "  quern inspect model.gguf\n"
               "  quern inspect model.gguf --json | jq .memory.total_bytes\n"
               "  quern inspect model.onnx");
  command->callback([options] { inspect(*options); });
}

}  // namespace quern::cli
