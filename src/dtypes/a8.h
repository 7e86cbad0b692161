#pragma once

#include <cstddef>
#include <cstdint>

namespace quern::dtypes {

/// One block of ir::DType::a8: 32 activations as unsigned bytes about an integer zero point, value[i] = scale * (q[i] - z), so that a
/// product with integer weights is an exact integer and 0 stays 0. `sum` is the sum of the 32 values, which weights with a minimum of their
/// own need, `low_sum` that of the first 16. z is kept four times: it is then one more group of four factors in front of q, and integer dot
/// products take it as such.
struct A8Block {
  float scale, sum, low_sum;
  std::uint8_t z[4];
  std::uint8_t q[32];
};
static_assert(sizeof(A8Block) == 48);

/// Quantises `blocks` * 32 floats: scale = (max(x, 0) - min(x, 0)) / 254, z and q - z rounded to nearest even, so no value is off by more
/// than half a scale. A block with a NaN or an infinity becomes all NaN (scale and sums NaN), so that a fault is seen and not hidden; one
/// whose values are all below 1e-34 becomes zero. The kernels of every instruction set give these bits.
void quantize_a8(const float* x, std::byte* y, std::int64_t blocks);
void dequantize_a8(const std::byte* x, float* y, std::int64_t blocks);

}  // namespace quern::dtypes
