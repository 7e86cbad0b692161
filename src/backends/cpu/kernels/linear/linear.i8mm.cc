// I8MM multiplies unsigned bytes with signed ones: word by word for few rows; for many, two rows of x with two of w at once, 8 columns
// long.
#include <arm_neon.h>

#include "backends/cpu/kernels/linear/job.h"

namespace quern::cpu {
namespace {

using Bytes = uint8x16_t;
constexpr bool kSignedX = false, kPairs = true;

inline Bytes load_x(const std::uint8_t* p) { return vld1q_u8(p); }

template <int kLane>
inline __attribute__((always_inline)) int32x4_t dot(int32x4_t sum, int8x16_t w, Bytes x) {
  return vsudotq_laneq_s32(sum, w, x, kLane);
}

inline __attribute__((always_inline)) int32x4_t add_up(int32x4_t sum, int8x16_t w) { return vdotq_s32(sum, w, vdupq_n_s8(1)); }

}  // namespace
}  // namespace quern::cpu

#include "backends/cpu/kernels/linear/neon.inc"

namespace quern::cpu {
namespace {

/// Two numbers, twice: those of a pair of rows of w as a product has them.
inline __attribute__((always_inline)) int32x4_t load_twice(const std::uint8_t* p) {
  return vreinterpretq_s32_s64(vdupq_n_s64(*reinterpret_cast<const std::int64_t*>(p)));
}

/// Each of two numbers twice: those of a pair of rows of x.
template <int kLane>
inline __attribute__((always_inline)) float32x4_t each_twice(float32x4_t first, float32x4_t second) {
  return vcombine_f32(vdup_laneq_f32(first, kLane), vdup_laneq_f32(second, kLane));
}

// A product is [x0·w0, x0·w1, x1·w0, x1·w1], and so are the totals until they are stored.
template <PanelKind kKind>
__attribute__((noinline)) void four_rows(const LinearJob& job, std::int64_t tile, std::int64_t row) {
  constexpr HalfPanel kP = kHalfPanels[kKind.parts];
  constexpr int kSteps = 4 / kKind.parts;  // of 8 columns
  const std::uint8_t* p = job.scratch;
  for (int half = 0; half < 2; ++half) {
    const std::uint8_t* x = job.x + row * job.x_stride;
    float32x4_t total[2][4];
    for (auto& pair : total)
      for (float32x4_t& t : pair) t = vdupq_n_f32(0);
    for (std::int64_t b = job.k / kBlockColumns; b > 0; --b, p += kP.bytes, x += kA8Bytes)
#pragma GCC unroll 2
      for (int part = 0; part < kKind.parts; ++part) {
        int32x4_t dots[2][4];
        for (auto& pair : dots)
          for (int32x4_t& d : pair) d = vdupq_n_s32(0);
#pragma GCC unroll 4
        for (int step = part * kSteps; step < (part + 1) * kSteps; ++step) {
          uint8x16_t columns[2];
          for (int i = 0; i < 2; ++i) {
            const std::uint8_t* at = x + 2 * i * job.x_stride + kA8Quants + 8 * step;
            columns[i] = vcombine_u8(vld1_u8(at), vld1_u8(at + job.x_stride));
          }
          for (int j = 0; j < 4; ++j) {
            const int8x16_t q = vld1q_s8(reinterpret_cast<const std::int8_t*>(p + kP.quants + 64 * step + 16 * j));
            for (int i = 0; i < 2; ++i) dots[i][j] = vusmmlaq_s32(dots[i][j], columns[i], q);
          }
        }
        for (int i = 0; i < 2; ++i) {
          const Head first(x + 2 * i * job.x_stride), second(x + (2 * i + 1) * job.x_stride);
          const float32x4_t scale = each_twice<0>(first.numbers, second.numbers);
          [[maybe_unused]] const float32x4_t sum =
              vcombine_f32(vget_low_f32(sum_of_part<kKind.parts>(first, part)), vget_low_f32(sum_of_part<kKind.parts>(second, part)));
          const int32x4_t zero =
              vreinterpretq_s32_f32(each_twice<3>(vreinterpretq_f32_s32(first.zero), vreinterpretq_f32_s32(second.zero)));
          for (int j = 0; j < 4; ++j) {
            const auto at = [&](int list) __attribute__((always_inline)) { return load_twice(p + list + 32 * part + 8 * j); };
            const float32x4_t value = vcvtq_f32_s32(vmlsq_s32(dots[i][j], at(kP.sums), zero));
            if constexpr (kKind.minimum) total[i][j] = vfmaq_f32(total[i][j], vreinterpretq_f32_s32(at(kP.minimums)), sum);
            total[i][j] = vfmaq_f32(total[i][j], vmulq_f32(value, scale), vreinterpretq_f32_s32(at(kP.scales)));
          }
        }
      }
    for (int i = 0; i < 2; ++i) {
      const auto& t = total[i];
      const float32x4_t low[] = {vcombine_f32(vget_low_f32(t[0]), vget_low_f32(t[1])),
                                 vcombine_f32(vget_low_f32(t[2]), vget_low_f32(t[3]))};
      const float32x4_t high[] = {vcombine_f32(vget_high_f32(t[0]), vget_high_f32(t[1])),
                                  vcombine_f32(vget_high_f32(t[2]), vget_high_f32(t[3]))};
      store<2>(job, tile, 2 * half, row + 2 * i, low);
      store<2>(job, tile, 2 * half, row + 2 * i + 1, high);
    }
  }
}

}  // namespace

void linear_integer_i8mm(const LinearJob& job) { all_formats(job); }

}  // namespace quern::cpu
