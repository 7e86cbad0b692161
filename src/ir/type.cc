#include "ir/type.h"

namespace quern::ir {

std::string to_string(const Type& type) { return (type.state ? "state " : "") + std::string(name(type.dtype)) + to_string(type.shape); }

Dim byte_size(const Type& type) {
  if (!is_block(type.dtype)) return element_count(type.shape) * block_bytes(type.dtype);
  Dim n = 1;
  for (std::size_t i = 0; i < type.shape.size(); ++i)
    n = n * (i + 1 == type.shape.size() ? ceil_div(type.shape[i], block_elements(type.dtype)) : type.shape[i]);
  return n * block_bytes(type.dtype);
}

}  // namespace quern::ir
