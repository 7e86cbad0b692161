#include <immintrin.h>

#include "backends/cpu/kernels/linear/job.h"

namespace quern::cpu {
namespace {

template <int kRows>
inline void rows_of_tile(const LinearJob& job, std::int64_t tile, std::int64_t row) {
  const float* w = reinterpret_cast<const float*>(job.weights) + tile * job.k * kTileRows;
  const std::uint8_t* x = job.x + row * job.x_stride;
  __m256 total[kRows][2];
  for (int r = 0; r < kRows; ++r) total[r][0] = total[r][1] = _mm256_setzero_ps();
  for (std::int64_t k = 0; k < job.k; ++k, w += kTileRows) {
    const __m256 first = _mm256_loadu_ps(w), second = _mm256_loadu_ps(w + 8);
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

}  // namespace

void linear_f32_avx2(const LinearJob& job) {
  for (std::int64_t tile = job.tile_begin; tile < job.tile_end; ++tile) {
    std::int64_t row = job.row_begin;
    for (; row + 6 <= job.row_end; row += 6) rows_of_tile<6>(job, tile, row);  // 12 sums of 16 registers
    for (; row + 2 <= job.row_end; row += 2) rows_of_tile<2>(job, tile, row);
    for (; row < job.row_end; ++row) rows_of_tile<1>(job, tile, row);
  }
}

}  // namespace quern::cpu
