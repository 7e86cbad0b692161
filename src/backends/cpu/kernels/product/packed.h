#pragma once

#include <memory>
#include <vector>

#include "ir/graph.h"

namespace quern::cpu {

/// Constant weights rearranged when a node is lowered; aligned to 64.
using PackedFloats = std::shared_ptr<float[]>;

/// Errors: resource_exhausted.
PackedFloats allocate_floats(std::int64_t count);
/// The floats of an f32 constant, whose bytes in a file may lie at any address.
std::vector<float> aligned_copy(const ir::Value& constant);

}  // namespace quern::cpu
