#include <immintrin.h>

#include "backends/cpu/kernels/linear/job.h"

namespace quern::cpu {
namespace {

/// Two columns of a row of x, in every lane.
inline __m512bh broadcast_pair(const std::uint8_t* p) {
  std::int32_t bits;
  __builtin_memcpy(&bits, p, 4);
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(bits));
}

template <int kRows, int kTiles>
inline void rows_of_tiles(const LinearJob& job, std::int64_t tile, std::int64_t row) {
  const std::uint8_t* w = job.weights + tile * job.tile_bytes;
  const std::uint8_t* x = job.x + row * job.x_stride;
  __m512 total[kRows][kTiles];
  for (int r = 0; r < kRows; ++r)
    for (int t = 0; t < kTiles; ++t) total[r][t] = _mm512_setzero_ps();
  for (std::int64_t pair = 0; pair < job.k / 2; ++pair, w += 64, x += 4) {
    __m512bh column[kTiles];
    for (int t = 0; t < kTiles; ++t) {
      if (kRows <= 4) _mm_prefetch(reinterpret_cast<const char*>(w + t * job.tile_bytes + kPrefetchBytes), _MM_HINT_T0);
      column[t] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(w + t * job.tile_bytes));
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m512bh value = broadcast_pair(x + r * job.x_stride);
      for (int t = 0; t < kTiles; ++t) total[r][t] = _mm512_dpbf16_ps(total[r][t], column[t], value);
    }
  }
  for (int t = 0; t < kTiles; ++t) {
    const std::int64_t left = job.n - (tile + t) * kTileRows;
    const __mmask16 columns = left >= kTileRows ? 0xffff : static_cast<__mmask16>((1u << left) - 1);
    for (int r = 0; r < kRows; ++r) _mm512_mask_storeu_ps(job.y + (row + r) * job.y_stride + (tile + t) * kTileRows, columns, total[r][t]);
  }
}

template <int kTiles>
void all_rows(const LinearJob& job, std::int64_t tile) {
  std::int64_t row = job.row_begin;
  for (; row + 6 <= job.row_end; row += 6) rows_of_tiles<6, kTiles>(job, tile, row);
  for (; row + 2 <= job.row_end; row += 2) rows_of_tiles<2, kTiles>(job, tile, row);
  for (; row < job.row_end; ++row) rows_of_tiles<1, kTiles>(job, tile, row);
}

}  // namespace

void linear_bf16_avx512bf16(const LinearJob& job) {
  std::int64_t tile = job.tile_begin;
  for (; tile + 4 <= job.tile_end; tile += 4) all_rows<4>(job, tile);
  for (; tile < job.tile_end; ++tile) all_rows<1>(job, tile);
}

}  // namespace quern::cpu
