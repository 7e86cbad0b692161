// dtypes::quantize_a8 on 128-bit vectors, the same bits.
#include <arm_neon.h>

#include "backends/cpu/kernels/linear/job.h"

namespace quern::cpu {
namespace {

inline void put(std::uint8_t* y, float scale, float sum, float low_sum) {
  __builtin_memcpy(y, &scale, 4);
  __builtin_memcpy(y + kA8Sum, &sum, 4);
  __builtin_memcpy(y + kA8LowSum, &low_sum, 4);
}

}  // namespace

void quantize_a8_neon(const float* x, std::uint8_t* y, std::int64_t blocks) {
  const uint32x4_t exponent = vdupq_n_u32(0x7f800000);
  for (std::int64_t b = 0; b < blocks; ++b, x += kBlockColumns, y += kA8Bytes) {
    float32x4_t v[8], low = vdupq_n_f32(0), high = low;
    uint32x4_t fault = vdupq_n_u32(0);
    for (int i = 0; i < 8; ++i) {
      v[i] = vld1q_f32(x + 4 * i);
      low = vminq_f32(v[i], low);
      high = vmaxq_f32(v[i], high);
      fault = vorrq_u32(fault, vceqq_u32(vandq_u32(vreinterpretq_u32_f32(v[i]), exponent), exponent));
    }
    const float least = vminvq_f32(low), scale = vmaxvq_f32(high) * (1.0f / 254) - least * (1.0f / 254);
    const bool finite = vmaxvq_u32(fault) == 0;
    if (!finite || !(scale >= 0x1p-120f)) {
      __builtin_memset(y, 0, kA8Bytes);
      if (!finite) put(y, __builtin_nanf(""), __builtin_nanf(""), __builtin_nanf(""));
      continue;
    }
    const float inverse = 1.0f / scale;
    const int z = vcvtns_s32_f32(-least * inverse);
    int32x4_t q[8];
    for (int i = 0; i < 8; ++i) {
      q[i] = vaddq_s32(vcvtnq_s32_f32(vmulq_n_f32(v[i], inverse)), vdupq_n_s32(z));
      q[i] = vminq_s32(vmaxq_s32(q[i], vdupq_n_s32(0)), vdupq_n_s32(255));
    }
    int sums[2];
    for (int half = 0; half < 2; ++half) {
      const int32x4_t* h = q + 4 * half;
      sums[half] = vaddvq_s32(vaddq_s32(vaddq_s32(h[0], h[1]), vaddq_s32(h[2], h[3]))) - kBlockColumns / 2 * z;
      const int16x8_t first = vcombine_s16(vmovn_s32(h[0]), vmovn_s32(h[1])), second = vcombine_s16(vmovn_s32(h[2]), vmovn_s32(h[3]));
      vst1q_u8(y + kA8Quants + 16 * half, vreinterpretq_u8_s8(vcombine_s8(vmovn_s16(first), vmovn_s16(second))));
    }
    put(y, scale, scale * static_cast<float>(sums[0] + sums[1]), scale * static_cast<float>(sums[0]));
    __builtin_memset(y + kA8Zero, z, 4);
  }
}

}  // namespace quern::cpu
