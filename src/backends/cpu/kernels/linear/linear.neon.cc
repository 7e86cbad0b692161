// Machines without DotProd (before about 2018): products of bytes in 16 bits, added in pairs.
#include <arm_neon.h>

#include "backends/cpu/kernels/linear/job.h"

namespace quern::cpu {
namespace {

using Bytes = int8x16_t;
constexpr bool kSignedX = true, kPairs = false;

inline Bytes load_x(const std::uint8_t* p) { return vreinterpretq_s8_u8(veorq_u8(vld1q_u8(p), vdupq_n_u8(0x80))); }

template <int kLane>
inline __attribute__((always_inline)) int32x4_t dot(int32x4_t sum, int8x16_t w, Bytes x) {
  const int8x16_t four = vreinterpretq_s8_s32(vdupq_laneq_s32(vreinterpretq_s32_s8(x), kLane));
  const int16x8_t low = vmull_s8(vget_low_s8(w), vget_low_s8(four)), high = vmull_high_s8(w, four);
  return vaddq_s32(sum, vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high)));
}

inline __attribute__((always_inline)) int32x4_t add_up(int32x4_t sum, int8x16_t w) { return vpadalq_s16(sum, vpaddlq_s8(w)); }

}  // namespace
}  // namespace quern::cpu

#include "backends/cpu/kernels/linear/neon.inc"

#include "backends/cpu/kernels/linear/neon_rows.inc"

namespace quern::cpu {

void linear_integer_neon(const LinearJob& job) { all_formats(job); }

}  // namespace quern::cpu
