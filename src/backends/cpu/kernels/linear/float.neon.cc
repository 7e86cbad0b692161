#include <arm_neon.h>

#include "backends/cpu/kernels/linear/job.h"

namespace quern::cpu {
namespace {

/// A quarter of a column: 4 of the 16 rows of a tile.
template <Packing kPacking>
inline __attribute__((always_inline)) float32x4_t load_quarter(const std::uint8_t* w, std::int64_t i) {
  if constexpr (kPacking == Packing::f32) return vreinterpretq_f32_u8(vld1q_u8(w + 16 * i));
  const uint8x8_t half = vld1_u8(w + 8 * i);
  if constexpr (kPacking == Packing::f16) return vcvt_f32_f16(vreinterpret_f16_u8(half));
  return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(half), 16));
}

template <Packing kPacking, int kRows>
inline void rows_of_tile(const LinearJob& job, std::int64_t tile, std::int64_t row) {
  const std::uint8_t* w = job.weights + tile * job.tile_bytes;
  const std::uint8_t* x = job.x + row * job.x_stride;
  float32x4_t total[kRows][4];
  for (auto& all : total)
    for (float32x4_t& t : all) t = vdupq_n_f32(0);
  for (std::int64_t k = 0; k < job.k; ++k) {
    float32x4_t column[4];
    for (int c = 0; c < 4; ++c) column[c] = load_quarter<kPacking>(w, 4 * k + c);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const float32x4_t value = vdupq_n_f32(reinterpret_cast<const float*>(x + r * job.x_stride)[k]);
      for (int c = 0; c < 4; ++c) total[r][c] = vfmaq_f32(total[r][c], value, column[c]);
    }
  }
  const std::int64_t left = job.n - tile * kTileRows;
  for (int r = 0; r < kRows; ++r) {
    float* y = job.y + (row + r) * job.y_stride + tile * kTileRows;
    float all[kTileRows];
    for (int c = 0; c < 4; ++c) vst1q_f32(all + 4 * c, total[r][c]);
    __builtin_memcpy(y, all, static_cast<std::size_t>(left < kTileRows ? left : kTileRows) * sizeof(float));
  }
}

template <Packing kPacking>
void loop(const LinearJob& job) {
  for (std::int64_t tile = job.tile_begin; tile < job.tile_end; ++tile) {
    std::int64_t row = job.row_begin;
    for (; row + 6 <= job.row_end; row += 6) rows_of_tile<kPacking, 6>(job, tile, row);  // 24 sums of 32 registers
    for (; row + 2 <= job.row_end; row += 2) rows_of_tile<kPacking, 2>(job, tile, row);
    for (; row < job.row_end; ++row) rows_of_tile<kPacking, 1>(job, tile, row);
  }
}

}  // namespace

void linear_float_neon(const LinearJob& job) {
  switch (job.packing) {
    case Packing::f16: return loop<Packing::f16>(job);
    case Packing::bf16: return loop<Packing::bf16>(job);
    default: return loop<Packing::f32>(job);
  }
}

}  // namespace quern::cpu
