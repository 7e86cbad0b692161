#include <immintrin.h>

#include "backends/cpu/kernels/linear/job.h"

namespace quern::cpu {
namespace {

/// Half a column: 8 of the 16 rows of a tile.
template <Packing kPacking>
inline __attribute__((always_inline)) __m256 load_half(const std::uint8_t* w, std::int64_t i) {
  if constexpr (kPacking == Packing::f32) return _mm256_loadu_ps(reinterpret_cast<const float*>(w) + 8 * i);
  const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(w) + i);
  if constexpr (kPacking == Packing::f16) return _mm256_cvtph_ps(half);
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

template <Packing kPacking, int kRows>
inline void rows_of_tile(const LinearJob& job, std::int64_t tile, std::int64_t row) {
  const std::uint8_t* w = job.weights + tile * job.tile_bytes;
  const std::uint8_t* x = job.x + row * job.x_stride;
  __m256 total[kRows][2];
  for (int r = 0; r < kRows; ++r) total[r][0] = total[r][1] = _mm256_setzero_ps();
  for (std::int64_t k = 0; k < job.k; ++k) {
    const __m256 first = load_half<kPacking>(w, 2 * k), second = load_half<kPacking>(w, 2 * k + 1);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m256 value = _mm256_set1_ps(reinterpret_cast<const float*>(x + r * job.x_stride)[k]);
      total[r][0] = _mm256_fmadd_ps(value, first, total[r][0]);
      total[r][1] = _mm256_fmadd_ps(value, second, total[r][1]);
    }
  }
  const std::int64_t left = job.n - tile * kTileRows;
  for (int r = 0; r < kRows; ++r) {
    float* y = job.y + (row + r) * job.y_stride + tile * kTileRows;
    float all[kTileRows];
    _mm256_storeu_ps(all, total[r][0]);
    _mm256_storeu_ps(all + 8, total[r][1]);
    __builtin_memcpy(y, all, static_cast<std::size_t>(left < kTileRows ? left : kTileRows) * sizeof(float));
  }
}

template <Packing kPacking>
void loop(const LinearJob& job) {
  for (std::int64_t tile = job.tile_begin; tile < job.tile_end; ++tile) {
    std::int64_t row = job.row_begin;
    for (; row + 6 <= job.row_end; row += 6) rows_of_tile<kPacking, 6>(job, tile, row);  // 12 sums of 16 registers
    for (; row + 2 <= job.row_end; row += 2) rows_of_tile<kPacking, 2>(job, tile, row);
    for (; row < job.row_end; ++row) rows_of_tile<kPacking, 1>(job, tile, row);
  }
}

}  // namespace

void linear_float_avx2(const LinearJob& job) {
  switch (job.packing) {
    case Packing::f16: return loop<Packing::f16>(job);
    case Packing::bf16: return loop<Packing::bf16>(job);
    default: return loop<Packing::f32>(job);
  }
}

}  // namespace quern::cpu
