// Products of bf16 on the tile unit, whose sums stay in its registers: 32 rows of x by two tiles of w at a time. One row goes the same way,
// so that it has the same bits.
#include <immintrin.h>

#include "backends/cpu/kernels/linear/job.h"

#include "backends/cpu/kernels/tile_unit.inc"

namespace quern::cpu {
namespace {

// Tiles 0-3: sums, rows 0-15 with both tiles of w and rows 16-31 with both. Tiles 4-5: x. Tiles 6-7: w.
constexpr TileConfig kConfig = {1, 0, {}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};

constexpr int kStepColumns = 32, kStepBytes = 1024;  // what one instruction multiplies: 16 rows of 32 columns

/// Columns [first, first + count) of up to 32 rows of x as tiles, one after the other, those of the second sixteen rows behind all of the
/// first: rows of a wide x may all fall on the same lines of the cache.
inline void gather_x(const LinearJob& job, std::int64_t row, std::int64_t rows, std::int64_t first, std::int64_t count, std::uint8_t* to) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::uint8_t* from = job.x + (row + r) * job.x_stride + 2 * first;
    std::uint8_t* at = to + r / 16 * (count / kStepColumns) * kStepBytes + r % 16 * 64;
    for (std::int64_t i = 0; i < count; i += kStepColumns)
      _mm512_store_si512(at + i / kStepColumns * kStepBytes, _mm512_loadu_si512(from + 2 * i));
  }
}

inline __mmask16 columns_of(const LinearJob& job, std::int64_t tile) {
  const std::int64_t left = job.n - tile * kTileRows;
  return left >= kTileRows ? 0xffff : static_cast<__mmask16>((1u << left) - 1);
}

/// y of 16 rows and one tile, to or from 16 x 16 floats.
inline void load_sums(const LinearJob& job, std::int64_t row, std::int64_t rows, std::int64_t tile, float* sums) {
  const __mmask16 columns = columns_of(job, tile);
  for (std::int64_t r = 0; r < rows; ++r)
    _mm512_store_ps(sums + 16 * r, _mm512_maskz_loadu_ps(columns, job.y + (row + r) * job.y_stride + tile * kTileRows));
}
inline void store_sums(const LinearJob& job, std::int64_t row, std::int64_t rows, std::int64_t tile, const float* sums) {
  const __mmask16 columns = columns_of(job, tile);
  for (std::int64_t r = 0; r < rows; ++r)
    _mm512_mask_storeu_ps(job.y + (row + r) * job.y_stride + tile * kTileRows, columns, _mm512_load_ps(sums + 16 * r));
}

/// Adds the products of `steps` steps to the sums of kXTiles x kWTiles. x: gathered; w: the packed tile at the first step.
template <int kXTiles, int kWTiles>
inline void multiply(const std::uint8_t* x, const std::uint8_t* w, std::int64_t tile_bytes, std::int64_t steps) {
  for (std::int64_t i = 0; i < steps; ++i) {
    _tile_loadd(4, x + i * kStepBytes, 64);
    if constexpr (kXTiles == 1)  // few rows: every byte of w is used once
      for (int line = 0; line < kStepBytes; line += 64) {
        _mm_prefetch(reinterpret_cast<const char*>(w + (i + 4) * kStepBytes + line), _MM_HINT_T0);
        if constexpr (kWTiles == 2) _mm_prefetch(reinterpret_cast<const char*>(w + tile_bytes + (i + 4) * kStepBytes + line), _MM_HINT_T0);
      }
    _tile_loadd(6, w + i * kStepBytes, 64);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kWTiles == 2) {
      _tile_loadd(7, w + tile_bytes + i * kStepBytes, 64);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (kXTiles == 2) {
      _tile_loadd(5, x + (steps + i) * kStepBytes, 64);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (kWTiles == 2) _tile_dpbf16ps(3, 5, 7);
    }
  }
}

template <int kXTiles, int kWTiles>
void block(const LinearJob& job, const std::uint8_t* x, std::int64_t row, std::int64_t rows, std::int64_t tile, std::int64_t first,
           std::int64_t count) {
  alignas(64) float sums[4][256] = {};
  const std::int64_t high = rows > 16 ? rows - 16 : 0, low = rows - high;
  if (first > 0)
    for (int t = 0; t < kWTiles; ++t) {
      load_sums(job, row, low, tile + t, sums[t]);
      load_sums(job, row + 16, high, tile + t, sums[2 + t]);
    }
  memory_barrier();
  _tile_loadd(0, sums[0], 64);
  if constexpr (kWTiles == 2) _tile_loadd(1, sums[1], 64);
  if constexpr (kXTiles == 2) _tile_loadd(2, sums[2], 64);
  if constexpr (kXTiles == 2 && kWTiles == 2) _tile_loadd(3, sums[3], 64);
  multiply<kXTiles, kWTiles>(x, job.weights + tile * job.tile_bytes + first * kTileRows * 2, job.tile_bytes, count / kStepColumns);
  _tile_stored(0, sums[0], 64);
  if constexpr (kWTiles == 2) _tile_stored(1, sums[1], 64);
  if constexpr (kXTiles == 2) _tile_stored(2, sums[2], 64);
  if constexpr (kXTiles == 2 && kWTiles == 2) _tile_stored(3, sums[3], 64);
  memory_barrier();
  for (int t = 0; t < kWTiles; ++t) {
    store_sums(job, row, low, tile + t, sums[t]);
    store_sums(job, row + 16, high, tile + t, sums[2 + t]);
  }
}

}  // namespace

void linear_bf16_amx(const LinearJob& job) {
  _tile_loadconfig(&kConfig);
  for (std::int64_t first = 0; first < job.k; first += kTileUnitColumns) {
    const std::int64_t count = job.k - first < kTileUnitColumns ? job.k - first : kTileUnitColumns;
    for (std::int64_t row = job.row_begin; row < job.row_end; row += 32) {
      const std::int64_t rows = job.row_end - row < 32 ? job.row_end - row : 32;
      gather_x(job, row, rows, first, count, job.scratch);
      memory_barrier();
      std::int64_t tile = job.tile_begin;
      for (; tile + 2 <= job.tile_end; tile += 2)
        rows > 16 ? block<2, 2>(job, job.scratch, row, rows, tile, first, count)
                  : block<1, 2>(job, job.scratch, row, rows, tile, first, count);
      if (tile < job.tile_end)
        rows > 16 ? block<2, 1>(job, job.scratch, row, rows, tile, first, count)
                  : block<1, 1>(job, job.scratch, row, rows, tile, first, count);
    }
  }
  _tile_release();
}

}  // namespace quern::cpu
