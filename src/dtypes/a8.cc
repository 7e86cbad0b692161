#include "dtypes/a8.h"

#include <cmath>
#include <cstring>

namespace quern::dtypes {

void quantize_a8(const float* x, std::byte* y, std::int64_t blocks) {
  for (std::int64_t b = 0; b < blocks; ++b, x += 32, y += sizeof(A8Block)) {
    A8Block block{};
    float low = 0, high = 0;
    bool finite = true;
    for (int i = 0; i < 32; ++i) {
      low = x[i] < low ? x[i] : low;
      high = x[i] > high ? x[i] : high;
      finite = finite && std::isfinite(x[i]);
    }
    const float scale = high * (1.0f / 254) - low * (1.0f / 254);  // no overflow for any finite values
    if (!finite) {
      block.scale = block.sum = block.low_sum = NAN;
    } else if (scale >= 0x1p-120f) {  // below, the inverse would overflow
      const float inverse = 1.0f / scale;
      const int z = static_cast<int>(std::nearbyintf(-low * inverse));
      int sum = 0, low_sum = 0;
      for (int i = 0; i < 32; ++i) {
        int q = static_cast<int>(std::nearbyintf(x[i] * inverse)) + z;
        q = q < 0 ? 0 : q > 255 ? 255 : q;
        block.q[i] = static_cast<std::uint8_t>(q);
        sum += q - z;
        if (i < 16) low_sum += q - z;
      }
      block.scale = scale;
      block.sum = scale * static_cast<float>(sum);
      block.low_sum = scale * static_cast<float>(low_sum);
      std::memset(block.z, z, sizeof block.z);
    }
    std::memcpy(y, &block, sizeof block);
  }
}

void dequantize_a8(const std::byte* x, float* y, std::int64_t blocks) {
  for (std::int64_t b = 0; b < blocks; ++b, x += sizeof(A8Block), y += 32) {
    A8Block block;
    std::memcpy(&block, x, sizeof block);
    for (int i = 0; i < 32; ++i) y[i] = block.scale * static_cast<float>(int(block.q[i]) - int(block.z[0]));
  }
}

}  // namespace quern::dtypes
