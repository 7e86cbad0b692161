#pragma once

#include <cstdint>

#include "formats/onnx/detail/builder.h"

namespace quern::onnx {

/// Rewrites a node as its operator set wrote it into the form that the newest set gives it, or replaces it by values (Draft::results).
/// Errors: unsupported (a mode that has no newer form), data_corrupt (attributes of the wrong type).
void upgrade(Builder& builder, Draft& draft, std::int64_t opset);

}  // namespace quern::onnx
