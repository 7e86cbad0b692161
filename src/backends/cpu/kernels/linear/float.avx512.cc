#include <immintrin.h>

#include "backends/cpu/kernels/linear/job.h"

namespace quern::cpu {
namespace {

template <Packing kPacking>
inline __attribute__((always_inline)) __m512 load_column(const std::uint8_t* w, std::int64_t column) {
  if constexpr (kPacking == Packing::f32) return _mm512_loadu_ps(w + 64 * column);
  const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w + 32 * column));
  if constexpr (kPacking == Packing::f16) return _mm512_cvtph_ps(half);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

// 16 sums keep two FMA pipes of latency 4 busy, and fewer loads than FMAs are needed from 4 x 4 on.
template <Packing kPacking, int kRows, int kTiles>
inline void rows_of_tiles(const LinearJob& job, std::int64_t tile, std::int64_t row) {
  const std::uint8_t* w = job.weights + tile * job.tile_bytes;
  const std::uint8_t* x = job.x + row * job.x_stride;
  __m512 total[kRows][kTiles];
  for (int r = 0; r < kRows; ++r)
    for (int t = 0; t < kTiles; ++t) total[r][t] = _mm512_setzero_ps();
  for (std::int64_t k = 0; k < job.k; ++k) {
    __m512 column[kTiles];
    for (int t = 0; t < kTiles; ++t) column[t] = load_column<kPacking>(w + t * job.tile_bytes, k);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m512 value = _mm512_set1_ps(reinterpret_cast<const float*>(x + r * job.x_stride)[k]);
      for (int t = 0; t < kTiles; ++t) total[r][t] = _mm512_fmadd_ps(value, column[t], total[r][t]);
    }
  }
  for (int t = 0; t < kTiles; ++t) {
    const std::int64_t left = job.n - (tile + t) * kTileRows;
    const __mmask16 columns = left >= kTileRows ? 0xffff : static_cast<__mmask16>((1u << left) - 1);
    for (int r = 0; r < kRows; ++r) _mm512_mask_storeu_ps(job.y + (row + r) * job.y_stride + (tile + t) * kTileRows, columns, total[r][t]);
  }
}

template <Packing kPacking, int kTiles>
void some_rows(const LinearJob& job, std::int64_t tile) {
  std::int64_t row = job.row_begin;
  if (kTiles == 1)
    for (; row + 16 <= job.row_end; row += 16) rows_of_tiles<kPacking, 16, 1>(job, tile, row);
  for (; row + 4 <= job.row_end; row += 4) rows_of_tiles<kPacking, 4, kTiles>(job, tile, row);
  for (; row < job.row_end; ++row) rows_of_tiles<kPacking, 1, kTiles>(job, tile, row);
}

template <Packing kPacking>
void loop(const LinearJob& job) {
  std::int64_t tile = job.tile_begin;
  for (; tile + 4 <= job.tile_end; tile += 4) some_rows<kPacking, 4>(job, tile);
  for (; tile < job.tile_end; ++tile) some_rows<kPacking, 1>(job, tile);
}

}  // namespace

void linear_float_avx512(const LinearJob& job) {
  switch (job.packing) {
    case Packing::f16: return loop<Packing::f16>(job);
    case Packing::bf16: return loop<Packing::bf16>(job);
    default: return loop<Packing::f32>(job);
  }
}

}  // namespace quern::cpu
