#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/onnx/detail/wire.h"
#include "ir/dtype.h"

// The messages of onnx.proto that an import needs, as views into the file. What may be many (nodes' attributes, initializers) is kept as
// its bytes and decoded when it is looked at, so that a file of tiny empty messages cannot cost more than a few times its size.
namespace quern::onnx {

/// More than ten times what the largest published graphs have; a bound for the memory that a small file can ask for.
inline constexpr std::size_t kMaxNodes = 250'000;
inline constexpr std::size_t kMaxTensors = 250'000;
inline constexpr std::size_t kMaxPorts = 10'000;     // inputs, outputs of the graph
inline constexpr std::size_t kMaxNames = 4'000'000;  // inputs and outputs of all nodes

struct TensorProto {
  std::string_view name, body;
  std::vector<std::int64_t> dims;
  std::int32_t data_type = 0;
  std::optional<std::string_view> raw;
  bool external = false;
  std::vector<std::pair<std::string_view, std::string_view>> external_data;
};

/// The kinds of attribute, with the numbers of AttributeProto.AttributeType.
enum class Kind : std::int32_t {
  undefined = 0,
  number = 1,
  integer = 2,
  text = 3,
  tensor = 4,
  graph = 5,
  numbers = 6,
  integers = 7,
  texts = 8,
  tensors = 9,
  graphs = 10,
  sparse_tensor = 11,
  sparse_tensors = 12,
  type = 13,
  types = 14
};

struct AttributeProto {
  std::string_view name;
  Kind kind = Kind::undefined;
  bool refers_to_function = false;  // its value is an attribute of the function around it
  float number = 0;
  std::int64_t integer = 0;
  std::string_view text, tensor;  // tensor: a TensorProto
  std::vector<float> numbers;
  std::vector<std::int64_t> integers;
  std::vector<std::string_view> texts;
};

struct NodeProto {
  std::string_view name, op_type, domain;
  std::vector<std::string_view> inputs, outputs, attributes;  // attributes: AttributeProto
  const char* position = nullptr;
};

struct DimProto {
  std::optional<std::int64_t> value;
  std::string_view param;  // a symbol's name; empty: unnamed
};

struct ValueProto {
  std::string_view name;
  bool is_tensor = false, has_shape = false;
  std::int32_t data_type = 0;
  std::vector<DimProto> dims;
  const char* position = nullptr;
};

struct GraphProto {
  std::string_view name;
  std::vector<NodeProto> nodes;
  std::vector<std::string_view> initializers;  // TensorProto
  std::vector<ValueProto> inputs, outputs;
  bool has_sparse_initializers = false;
};

struct ModelProto {
  std::int64_t ir_version = 0;
  std::vector<std::pair<std::string_view, std::int64_t>> opsets;  // domain ("ai.onnx" is written ""), version
  std::string_view producer_name, producer_version, domain, doc;
  GraphProto graph;
  std::size_t functions = 0;

  /// The version of the default domain.
  std::int64_t opset() const;
};

/// Errors: data_corrupt (malformed, no graph, no opset), resource_exhausted (more than the bounds above).
ModelProto parse_model(const wire::Source& source);
AttributeProto parse_attribute(const wire::Source& source, std::string_view body);
/// Dimensions are not negative, at most kMaxRank, and their product fits.
TensorProto parse_tensor(const wire::Source& source, std::string_view body);

/// The element type of a TensorProto.DataType; nothing for types that Quern has not (text, complex, 8- and 4-bit floats, 4-bit integers).
std::optional<ir::DType> dtype_of(std::int64_t data_type);
/// How ONNX calls it, for messages.
std::string_view data_type_name(std::int64_t data_type);

}  // namespace quern::onnx
