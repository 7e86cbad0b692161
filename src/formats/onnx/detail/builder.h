#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "formats/onnx/detail/tensor.h"
#include "ir/graph.h"

namespace quern::onnx {

/// One ONNX node on its way to the canonical form.
struct Draft {
  std::string_view op;                                      // ONNX operator type
  std::vector<ir::Value*> inputs;                           // absent optional inputs are null
  ir::Attributes attributes;                                // numbers as the IR has them: integers 64-bit, floats as double
  std::map<std::string, TensorProto, std::less<>> tensors;  // attributes that are tensors
  std::size_t outputs = 0;                                  // how many the node names, with unnamed ones between
  std::vector<ir::Value*> results;                          // set by a rewrite that needs no further node

  std::int64_t integer(std::string_view attribute, std::int64_t fallback) const;
  /// The attribute's value, which the draft loses. Errors: data_corrupt when it is of another type.
  template <class T>
  std::optional<T> take(std::string_view attribute);
  ir::Value* input(std::size_t i) const { return i < inputs.size() ? inputs[i] : nullptr; }
  void set_input(std::size_t i, ir::Value* value);
  [[noreturn]] static void unsupported(std::string what);
};

/// Makes the constants and extra nodes that rewrites need.
class Builder {
 public:
  Builder(ir::Graph& graph, TensorReader& tensors) : graph_(graph), tensors_(tensors) {}

  /// Names that made-up values must not take.
  std::unordered_set<std::string_view> reserved;
  /// What made-up values are named after: the node that is being imported.
  std::string prefix;

  ir::Value* emit(std::string_view op, std::vector<ir::Value*> inputs, ir::Attributes attributes = {});
  ir::Value* integers(const std::vector<std::int64_t>& values, bool scalar = false);
  ir::Value* floats(const std::vector<double>& values, bool scalar = false);
  /// A scalar of an element type.
  ir::Value* scalar(ir::DType type, double value);
  ir::Value* tensor(const TensorProto& tensor);
  std::string fresh_name(std::string_view what) const;
  ir::Graph& graph() { return graph_; }

 private:
  ir::Graph& graph_;
  TensorReader& tensors_;
};

template <class T>
std::optional<T> Draft::take(std::string_view name) {
  const auto found = attributes.find(name);
  if (found == attributes.end()) return std::nullopt;
  T* value = std::get_if<T>(&found->second);
  if (value == nullptr) throw Error(Code::data_corrupt, "attribute '" + std::string(name) + "' has the wrong type");
  std::optional<T> out(std::move(*value));
  attributes.erase(found);
  return out;
}

}  // namespace quern::onnx
