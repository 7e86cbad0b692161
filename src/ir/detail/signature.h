#pragma once

#include <string_view>
#include <vector>

#include "ir/op.h"

namespace quern::ir::detail {

/// Checks a node's inputs and attributes against its op and fills in defaults.
/// Errors: invalid_argument naming op, node, input or attribute.
void check_signature(const Op& op, const std::vector<Value*>& inputs, Attributes& attributes, std::string_view name);

}  // namespace quern::ir::detail
