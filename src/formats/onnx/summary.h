#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace quern::onnx {

/// What a file says of itself, read without importing it: also for models that Quern cannot run.
struct Summary {
  struct Port {
    std::string name;
    std::string dtype;              // "f32", or ONNX's own name for types that Quern has not
    bool has_shape = false;         // without one even the rank is open
    std::vector<std::string> dims;  // numbers, symbols' names, or "?"
  };

  std::int64_t ir_version = 0;
  std::string producer;                                      // name and version; may be empty
  std::vector<std::pair<std::string, std::int64_t>> opsets;  // domain ("" is ONNX's own) and version
  std::vector<Port> inputs, outputs;                         // inputs without those that have an initializer
  std::map<std::string, std::size_t> ops;                    // nodes by type, "domain.Type" outside ONNX's own domain
  std::vector<std::string> unsupported;                      // the types among them that an import refuses
  std::size_t nodes = 0, initializers = 0, functions = 0;
  std::int64_t parameters = 0;        // elements of all initializers
  std::uint64_t parameter_bytes = 0;  // 0 for element types that Quern has not
};

/// Errors: not_found, data_corrupt, resource_exhausted.
Summary summarize_file(const std::string& path);
Summary summarize_bytes(std::span<const std::byte> bytes, const std::string& name);

}  // namespace quern::onnx
