#include "backends/cpu/kernels/product/packed.h"

#include <cstring>

#include "backends/cpu/kernels/linear/weight_memory.h"
#include "base/error.h"

namespace quern::cpu {

PackedFloats allocate_floats(std::int64_t count) {
  const auto bytes = allocate_weights(static_cast<std::size_t>(count) * sizeof(float));
  return {bytes, reinterpret_cast<float*>(bytes.get())};
}

std::vector<float> aligned_copy(const ir::Value& value) {
  const auto bytes = static_cast<std::size_t>(ir::byte_size(value.type).constant().value_or(0));
  QUERN_ASSERT(value.type.dtype == ir::DType::f32 && bytes <= value.constant->bytes);
  std::vector<float> floats(bytes / sizeof(float));
  if (bytes > 0) std::memcpy(floats.data(), value.constant->data, bytes);
  return floats;
}

}  // namespace quern::cpu
