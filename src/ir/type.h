#pragma once

#include <string>

#include "ir/dim.h"
#include "ir/dtype.h"

namespace quern::ir {

/// What a value is: a tensor of a shape, row-major, the last dimension fastest (and, for block formats, the one that is cut into blocks).
/// A `state` is a tensor that outlives the run (a KV cache): it enters as a graph input, is threaded through the nodes that change it in
/// place, and leaves as an output, so that order needs no special rule.
struct Type {
  DType dtype = DType::f32;
  Shape shape;
  bool state = false;

  friend bool operator==(const Type&, const Type&) = default;
};

/// "f32[T, 576]", "state f16[blocks, 3, 16, 64]".
std::string to_string(const Type& type);
/// Bytes of a dense tensor of this type; rows of block formats are whole blocks.
Dim byte_size(const Type& type);

}  // namespace quern::ir
