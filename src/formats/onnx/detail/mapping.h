#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "formats/onnx/detail/model.h"
#include "ir/op.h"

namespace quern::onnx {

/// One row of mappings.inc.
struct Mapping {
  std::string_view onnx, op, extra_attributes;  // the attributes are separated by spaces

  bool has_extra(std::string_view attribute) const;
};

/// The row of an operator, or null.
const Mapping* find_mapping(std::string_view domain, std::string_view op_type);
/// The op that a row names; null when it names none or the registry lacks it.
const ir::Op* find_op(const Mapping& mapping);
bool has_attribute(const ir::Op& op, std::string_view name);

/// What an import of these nodes would not understand (operators, attributes), each with how often and where first. Empty: nothing.
std::vector<std::string> unsupported(const wire::Source& source, const GraphProto& graph);
/// "Conv", "com.microsoft.Attention".
std::string full_name(const NodeProto& node);
/// "node 'x' (Conv)"; a node without a name is named after its first output.
std::string describe(const NodeProto& node);

}  // namespace quern::onnx
