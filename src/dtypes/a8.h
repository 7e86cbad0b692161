#pragma once

#include <cstddef>
#include <cstdint>

namespace quern::dtypes {

/// One block of ir::DType::a8: 32 activations as unsigned bytes, value[i] = scale * q[i] + minimum. `sum` is scale * (q[0] + … + q[31]), which
/// products with weights that have a minimum of their own need.
struct A8Block {
  float scale, minimum, sum;
  std::uint8_t q[32];
};
static_assert(sizeof(A8Block) == 44);

/// Quantises `blocks` * 32 floats. scale = (max - min) / 255, q rounded to nearest even; a block with a NaN or an infinity becomes all NaN
/// (scale and minimum NaN), so that a fault is seen and not hidden.
void quantize_a8(const float* x, std::byte* y, std::int64_t blocks);
void dequantize_a8(const std::byte* x, float* y, std::int64_t blocks);

}  // namespace quern::dtypes
