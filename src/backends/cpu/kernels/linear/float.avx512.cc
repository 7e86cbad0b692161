#include <immintrin.h>

#include "backends/cpu/kernels/linear/job.h"

namespace quern::cpu {
namespace {

template <Packing kPacking>
constexpr int kColumnBytes = kPacking == Packing::f32 ? 64 : 32;

template <Packing kPacking>
inline __attribute__((always_inline)) __m512 load_column(const std::uint8_t* w) {
  if constexpr (kPacking == Packing::f32) return _mm512_loadu_ps(w);
  const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w));
  if constexpr (kPacking == Packing::f16) return _mm512_cvtph_ps(half);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

// 8 sums keep two FMA pipes of latency 4 busy; a column of f16 costs both pipes a turn, so many rows share it. Few rows wait for memory
// instead, which prefers few tiles at once.
template <Packing kPacking, int kRows, int kTiles>
inline void rows_of_tiles(const LinearJob& job, std::int64_t tile, std::int64_t row) {
  const std::uint8_t* w = job.weights + tile * job.tile_bytes;
  const std::uint8_t* x = job.x + row * job.x_stride;
  __m512 total[kRows][kTiles];
  for (int r = 0; r < kRows; ++r)
    for (int t = 0; t < kTiles; ++t) total[r][t] = _mm512_setzero_ps();
  for (std::int64_t k = 0; k < job.k; ++k) {
    __m512 column[kTiles];
    for (int t = 0; t < kTiles; ++t) {
      const std::uint8_t* from = w + t * job.tile_bytes + kColumnBytes<kPacking> * k;
      if constexpr (kRows <= 4) _mm_prefetch(reinterpret_cast<const char*>(from + kPrefetchBytes), _MM_HINT_T0);
      column[t] = load_column<kPacking>(from);
    }
#pragma GCC unroll 12
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

template <Packing kPacking, int kRows, int kTiles>
void all_tiles(const LinearJob& job, std::int64_t row) {
  std::int64_t tile = job.tile_begin;
  for (; tile + kTiles <= job.tile_end; tile += kTiles) rows_of_tiles<kPacking, kRows, kTiles>(job, tile, row);
  for (; tile < job.tile_end; ++tile) rows_of_tiles<kPacking, kRows, 1>(job, tile, row);
}

constexpr std::int64_t kManyRows = 12;

/// Rows [begin, end), at least kManyRows: each pair of tiles meets all of them. The last ones begin earlier and overlap: a row computed
/// twice is the same.
template <Packing kPacking>
void many_rows(const LinearJob& job, std::int64_t begin, std::int64_t end) {
  const auto row_at = [&](std::int64_t row) { return row + kManyRows <= end ? row : end - kManyRows; };
  std::int64_t tile = job.tile_begin;
  for (; tile + 2 <= job.tile_end; tile += 2)
    for (std::int64_t row = begin; row < end; row += kManyRows) rows_of_tiles<kPacking, kManyRows, 2>(job, tile, row_at(row));
  if (tile < job.tile_end)
    for (std::int64_t row = begin; row < end; row += kManyRows) rows_of_tiles<kPacking, kManyRows, 1>(job, tile, row_at(row));
}

template <Packing kPacking>
void loop(const LinearJob& job) {
  std::int64_t row = job.row_begin;
  if (job.row_end - row >= kManyRows) {
    constexpr std::int64_t kBytes = std::int64_t{1} << 20;  // of x: these stay in the second cache while all tiles pass
    const std::int64_t fit = kBytes / (job.k * 4) / kManyRows * kManyRows, step = fit < kManyRows ? kManyRows : fit;
    for (; row < job.row_end; row += step) {
      const std::int64_t end = row + step < job.row_end ? row + step : job.row_end;
      many_rows<kPacking>(job, end - row < kManyRows ? end - kManyRows : row, end);
    }
    return;
  }
  for (; row + 8 <= job.row_end; row += 8) all_tiles<kPacking, 8, 3>(job, row);
  for (; row + 4 <= job.row_end; row += 4) all_tiles<kPacking, 4, 4>(job, row);
  for (; row + 2 <= job.row_end; row += 2) all_tiles<kPacking, 2, 4>(job, row);
  for (; row < job.row_end; ++row) all_tiles<kPacking, 1, 4>(job, row);
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
