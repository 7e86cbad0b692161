// DotProd multiplies signed bytes with signed ones, or unsigned with unsigned: x is made signed, and the zero point 128 less.
#include <arm_neon.h>

#include "backends/cpu/kernels/linear/job.h"

namespace quern::cpu {
namespace {

using Bytes = int8x16_t;
constexpr bool kSignedX = true, kPairs = false;

inline Bytes load_x(const std::uint8_t* p) { return vreinterpretq_s8_u8(veorq_u8(vld1q_u8(p), vdupq_n_u8(0x80))); }

template <int kLane>
inline __attribute__((always_inline)) int32x4_t dot(int32x4_t sum, int8x16_t w, Bytes x) {
  return vdotq_laneq_s32(sum, w, x, kLane);
}

inline __attribute__((always_inline)) int32x4_t add_up(int32x4_t sum, int8x16_t w) { return vdotq_s32(sum, w, vdupq_n_s8(1)); }

}  // namespace
}  // namespace quern::cpu

#include "backends/cpu/kernels/linear/neon.inc"

#include "backends/cpu/kernels/linear/neon_rows.inc"

namespace quern::cpu {

void linear_integer_neondot(const LinearJob& job) { all_formats(job); }

}  // namespace quern::cpu
