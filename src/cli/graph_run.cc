#include "cli/graph_run.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/float16.h"
#include "base/thread_pool.h"
#include "base/unaligned.h"
#include "cli/command.h"
#include "cli/output.h"
#include "formats/npy/npy.h"
#include "runtime/graph_model.h"

namespace quern::cli {
namespace {

namespace fs = std::filesystem;
using Port = runtime::GraphModel::Port;

/// An input: the array, and its bytes where kernels can read them (files need not be aligned).
struct Input {
  npy::Array array;
  std::unique_ptr<std::byte, decltype([](std::byte* p) { ::operator delete(p, std::align_val_t(64)); })> aligned;
  ir::TensorView view;

  explicit Input(const std::string& path) : array(npy::read_file(path)) {
    if (array.shape.size() > ir::kMaxRank)
      throw Error(Code::unsupported, fmt::format("the array has {} dimensions, at most {} are supported", array.shape.size(), ir::kMaxRank))
          .at(path);
    auto* data = const_cast<std::byte*>(array.bytes.data());  // inputs are only read
    if (reinterpret_cast<std::uintptr_t>(data) % 64 != 0) {
      aligned.reset(static_cast<std::byte*>(::operator new(array.bytes.size(), std::align_val_t(64))));
      std::memcpy(aligned.get(), data, array.bytes.size());
      data = aligned.get();
    }
    view.data = data;
    view.dtype = array.dtype;
    view.rank = static_cast<std::int64_t>(array.shape.size());
    std::copy(array.shape.begin(), array.shape.end(), view.dims);
  }
};

/// NAME=FILE options by name. A name may hold '=', so the longest name of the model that fits is taken.
std::map<std::string, std::string> named_files(const GraphRunOptions& options, std::span<const Port> ports) {
  std::map<std::string, std::string> files;
  for (const std::string& text : options.inputs) {
    const Port* best = nullptr;
    for (const Port& port : ports)
      if (text.starts_with(port.name + "=") && (best == nullptr || port.name.size() > best->name.size())) best = &port;
    if (best == nullptr) {
      if (text.find('=') == std::string::npos) throw UsageError("--input " + text + ": NAME=FILE.npy is needed");
      std::string names;
      for (const Port& port : ports) names += (names.empty() ? "'" : ", '") + port.name + "'";
      throw UsageError("--input " + text + ": the model has no such input; its inputs are " + names);
    }
    if (!files.emplace(best->name, text.substr(best->name.size() + 1)).second)
      throw UsageError("the input '" + best->name + "' is given twice");
  }
  return files;
}

/// Value names by the file that each has; two of one file would overwrite each other.
void refuse_shared_files(std::span<const Port> ports) {
  std::map<std::string, std::string> seen;
  for (const Port& port : ports)
    if (const auto [other, fresh] = seen.emplace(value_file_name(port.name), port.name); !fresh)
      throw Error(Code::unsupported, "'" + other->second + "' and '" + port.name + "' would be the same file '" + other->first + "'")
          .hint("give inputs with --input NAME=FILE.npy");
}

std::vector<Input> read_inputs(const GraphRunOptions& options, std::span<const Port> ports) {
  const std::map<std::string, std::string> named = named_files(options, ports);
  if (!options.input_folder.empty()) {
    if (!fs::is_directory(options.input_folder)) throw Error(Code::not_found, "no such folder").at(options.input_folder);
    refuse_shared_files(ports);
  }
  std::vector<Input> inputs;
  std::string missing;
  for (const Port& port : ports) {
    const auto found = named.find(port.name);
    std::string path = found != named.end() ? found->second : "";
    if (path.empty() && !options.input_folder.empty()) path = fs::path(options.input_folder) / value_file_name(port.name);
    if (path.empty() || (found == named.end() && !fs::exists(path))) {
      missing +=
          fmt::format("{}'{}' {}{}", missing.empty() ? "" : ", ", port.name, to_string(port.type), path.empty() ? "" : " (" + path + ")");
      continue;
    }
    inputs.emplace_back(path);
    const Input& input = inputs.back();
    if (input.array.dtype != port.type.dtype)
      throw Error(Code::invalid_argument,
                  fmt::format("input '{}' must be {}, not {}", port.name, to_string(port.type), ir::name(input.array.dtype)))
          .at(path)
          .hint("convert it, with NumPy's astype");
  }
  if (!missing.empty())
    throw Error(Code::not_found, "missing inputs: " + missing)
        .hint("give each with --input NAME=FILE.npy, or all in a folder with --inputs DIR");
  return inputs;
}

double element(const ir::TensorView& t, std::int64_t i) {
  const std::byte* at = t.data + i * ir::block_bytes(t.dtype);
  switch (t.dtype) {
    case ir::DType::boolean: return load<std::uint8_t>(at) != 0 ? 1 : 0;
    case ir::DType::i8: return load<std::int8_t>(at);
    case ir::DType::i16: return load<std::int16_t>(at);
    case ir::DType::i32: return load<std::int32_t>(at);
    case ir::DType::i64: return static_cast<double>(load<std::int64_t>(at));
    case ir::DType::u8: return load<std::uint8_t>(at);
    case ir::DType::u16: return load<std::uint16_t>(at);
    case ir::DType::u32: return load<std::uint32_t>(at);
    case ir::DType::u64: return static_cast<double>(load<std::uint64_t>(at));
    case ir::DType::f16: return static_cast<double>(f16_to_f32(load<std::uint16_t>(at)));
    case ir::DType::bf16: return static_cast<double>(bf16_to_f32(load<std::uint16_t>(at)));
    case ir::DType::f32: return static_cast<double>(load<float>(at));
    case ir::DType::f64: return load<double>(at);
    default: return std::numeric_limits<double>::quiet_NaN();  // block types are no outputs
  }
}

/// Of the elements that are numbers.
struct Statistics {
  double min = std::numeric_limits<double>::infinity(), max = -min, sum = 0;
  std::int64_t numbers = 0, not_numbers = 0;
  double mean() const { return sum / double(numbers); }
};

Statistics statistics(const ir::TensorView& t) {
  Statistics s;
  for (std::int64_t i = 0; i < t.elements(); ++i) {
    const double x = element(t, i);
    if (std::isnan(x)) {
      ++s.not_numbers;
      continue;
    }
    s.min = std::min(s.min, x);
    s.max = std::max(s.max, x);
    s.sum += x;
    ++s.numbers;
  }
  return s;
}

std::string shape_text(std::span<const std::int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

nlohmann::ordered_json to_json(const Port& port, const ir::TensorView& t, const std::string& file) {
  nlohmann::ordered_json out = {{"name", port.name}, {"dtype", ir::name(t.dtype)}, {"shape", t.shape()}};
  const Statistics s = statistics(t);
  const auto number = [&](double x) { return s.numbers > 0 && std::isfinite(x) ? nlohmann::ordered_json(x) : nlohmann::ordered_json(); };
  out["min"] = number(s.min);
  out["max"] = number(s.max);
  out["mean"] = number(s.mean());
  out["nan"] = s.not_numbers;
  if (!file.empty()) out["file"] = file;
  return out;
}

std::vector<std::string> to_row(const Port& port, const ir::TensorView& t) {
  const Statistics s = statistics(t);
  std::vector<std::string> row = {printable(port.name), std::string(ir::name(t.dtype)) + shape_text(t.shape())};
  if (s.numbers > 0) row.push_back(fmt::format("min {:.6g}  max {:.6g}  mean {:.6g}", s.min, s.max, s.mean()));
  if (s.not_numbers > 0) row.push_back(fmt::format("{} NaN", s.not_numbers));
  return row;
}

/// The same run again and again: the first one pays for pages and clocks.
void run_for_profile(runtime::GraphSession& session, std::span<const ir::TensorView> inputs) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kLongEnough = std::chrono::milliseconds(500);
  constexpr int kMostRuns = 100;
  const auto end = Clock::now() + kLongEnough;
  for (int run = 0; run < kMostRuns && (run == 0 || Clock::now() < end); ++run) session.run(inputs);
}

}  // namespace

std::string value_file_name(std::string_view value) {
  std::string name(value);
  for (char& c : name) {
    const bool kept = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
    if (!kept) c = '_';
  }
  return name + ".npy";
}

void run_graph(const GraphRunOptions& options) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto model = runtime::GraphModel::load(options.model);
  const auto loaded = Clock::now();
  const std::vector<Input> inputs = read_inputs(options, model->inputs());
  if (!options.output_folder.empty()) {
    refuse_shared_files(model->outputs());
    std::error_code failed;
    fs::create_directories(options.output_folder, failed);
    if (failed) throw Error(Code::invalid_argument, "cannot make the folder: " + failed.message()).at(options.output_folder);
  }
  std::vector<ir::TensorView> views;
  for (const Input& input : inputs) views.push_back(input.view);
  runtime::GraphSession session(model, process_pool());
  const auto began = Clock::now();
  const std::vector<ir::TensorView> outputs = session.run(views);
  const std::chrono::duration<double> load_time = loaded - start, run_time = Clock::now() - began;
  if (options.profile != nullptr) {
    session.set_profile(options.profile);
    run_for_profile(session, views);
  }

  nlohmann::ordered_json described = nlohmann::ordered_json::array();
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Port& port = model->outputs()[i];
    const ir::TensorView& t = outputs[i];
    std::string file;
    if (!options.output_folder.empty()) {
      file = fs::path(options.output_folder) / value_file_name(port.name);
      npy::write_file(file, t.dtype, t.shape(), {t.data, static_cast<std::size_t>(t.bytes())});
    }
    if (options.json)
      described.push_back(to_json(port, t, file));
    else if (file.empty())
      rows.push_back(to_row(port, t));
  }
  if (options.json) {
    const nlohmann::ordered_json out = {
        {"model", options.model}, {"load_s", load_time.count()}, {"run_s", run_time.count()}, {"outputs", std::move(described)}};
    print(out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  } else {
    print(table(rows));
  }
  if (options.verbose)
    fmt::print(stderr, "load {:.3f} s, run {:.3f} s, {} workers\n", load_time.count(), run_time.count(), process_pool().workers());
}

}  // namespace quern::cli
