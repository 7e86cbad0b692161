#include "dtypes/a8.h"

#include <cmath>
#include <cstring>

namespace quern::dtypes {

void quantize_a8(const float* x, std::byte* y, std::int64_t blocks) {
  for (std::int64_t b = 0; b < blocks; ++b, x += 32, y += sizeof(A8Block)) {
    A8Block block{};
    float low = x[0], high = x[0], check = 0;
    for (int i = 0; i < 32; ++i) {
      low = x[i] < low ? x[i] : low;
      high = x[i] > high ? x[i] : high;
      check += x[i] - x[i];  // NaN when any element is not finite
    }
    block.scale = (high - low) / 255.0f;
    block.minimum = low;
    if (check != 0.0f || !std::isfinite(block.scale)) {
      block.scale = block.minimum = block.sum = NAN;
    } else {
      const float inverse = block.scale > 0 ? 1.0f / block.scale : 0.0f;
      int sum = 0;
      for (int i = 0; i < 32; ++i) {
        const float q = std::nearbyintf((x[i] - low) * inverse);
        block.q[i] = static_cast<std::uint8_t>(q > 255.0f ? 255.0f : q);
        sum += block.q[i];
      }
      block.sum = block.scale * float(sum);
    }
    std::memcpy(y, &block, sizeof block);
  }
}

void dequantize_a8(const std::byte* x, float* y, std::int64_t blocks) {
  for (std::int64_t b = 0; b < blocks; ++b, x += sizeof(A8Block), y += 32) {
    A8Block block;
    std::memcpy(&block, x, sizeof block);
    for (int i = 0; i < 32; ++i) y[i] = block.scale * float(block.q[i]) + block.minimum;
  }
}

}  // namespace quern::dtypes
