// Products of bf16 on the tile unit, whose sums stay in its registers: 32 rows of x by two tiles of w at a time. Few rows go the same way,
// so that they have the same bits, but read w from one end to the other, as memory likes it.
#include <immintrin.h>

#include "backends/cpu/kernels/linear/job.h"

#include "backends/cpu/kernels/tile_unit.inc"

namespace quern::cpu {
namespace {

// Tiles 0-3: sums, rows 0-15 with both tiles of w and rows 16-31 with both. Tiles 4-5: x. Tiles 6-7: w.
constexpr TileConfig kConfig = {1, 0, {}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};

constexpr int kStepColumns = 32, kStepBytes = 1024;  // what one instruction multiplies: 16 rows of 32 columns

/// Columns [first, first + count) of up to 16 rows of x as tiles of so many rows, one after the other: rows of a wide x may all fall on the
/// same lines of the cache.
inline void gather_x(const LinearJob& job, std::int64_t row, std::int64_t rows, std::int64_t first, std::int64_t count,
                     std::int64_t x_tile_bytes, std::uint8_t* to) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::uint8_t* from = job.x + (row + r) * job.x_stride + 2 * first;
    for (std::int64_t i = 0; i < count; i += kStepColumns)
      _mm512_store_si512(to + i / kStepColumns * x_tile_bytes + 64 * r, _mm512_loadu_si512(from + 2 * i));
  }
}

/// Where a tile of sums lies in y, if all of it does; else null, and it goes through 16 x 16 floats.
inline float* whole_tile(const LinearJob& job, std::int64_t row, std::int64_t rows, std::int64_t tile) {
  return rows == 16 && job.n - tile * kTileRows >= kTileRows ? job.y + row * job.y_stride + tile * kTileRows : nullptr;
}

inline __mmask16 columns_of(const LinearJob& job, std::int64_t tile) {
  const std::int64_t left = job.n - tile * kTileRows;
  return left >= kTileRows ? 0xffff : static_cast<__mmask16>((1u << left) - 1);
}

/// The sums so far of up to 16 rows and one tile, which are none before the first column.
template <int kTile>
inline void load_sums(const LinearJob& job, std::int64_t row, std::int64_t rows, std::int64_t tile, std::int64_t first) {
  if (first == 0) {
    _tile_zero(kTile);
  } else if (const float* y = whole_tile(job, row, rows, tile)) {
    _tile_loadd(kTile, y, job.y_stride * 4);
  } else {
    alignas(64) float sums[256];
    const __mmask16 columns = columns_of(job, tile);
    for (std::int64_t r = 0; r < rows; ++r)
      _mm512_store_ps(sums + 16 * r, _mm512_maskz_loadu_ps(columns, job.y + (row + r) * job.y_stride + tile * kTileRows));
    memory_barrier();
    _tile_loadd(kTile, sums, 64);
  }
}
template <int kTile>
inline void store_sums(const LinearJob& job, std::int64_t row, std::int64_t rows, std::int64_t tile) {
  if (float* y = whole_tile(job, row, rows, tile)) {
    _tile_stored(kTile, y, job.y_stride * 4);
    return;
  }
  alignas(64) float sums[256];
  _tile_stored(kTile, sums, 64);
  memory_barrier();
  const __mmask16 columns = columns_of(job, tile);
  for (std::int64_t r = 0; r < rows; ++r)
    _mm512_mask_storeu_ps(job.y + (row + r) * job.y_stride + tile * kTileRows, columns, _mm512_load_ps(sums + 16 * r));
}

/// Adds the products of `steps` steps to the sums of kXTiles x kWTiles. x: gathered; w: the packed tile at the first step.
template <int kXTiles, int kWTiles>
inline void multiply(const std::uint8_t* x, std::int64_t x_tile_bytes, const std::uint8_t* w, std::int64_t tile_bytes, std::int64_t steps) {
  for (std::int64_t i = 0; i < steps; ++i) {
    _tile_loadd(4, x + i * x_tile_bytes, 64);
    if constexpr (kXTiles == 1) {  // few rows: every byte of w is used once
      for (int line = 0; line < kStepBytes; line += 64)
        _mm_prefetch(reinterpret_cast<const char*>(w + (i + 1) * kStepBytes + line), _MM_HINT_T0);
      _tile_loadd(6, w + i * kStepBytes, 64);
    } else {  // past the first-level cache, which x keeps
      _tile_stream_loadd(6, w + i * kStepBytes, 64);
    }
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kWTiles == 2) {
      _tile_stream_loadd(7, w + tile_bytes + i * kStepBytes, 64);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (kXTiles == 2) {
      _tile_loadd(5, x + (steps + i) * x_tile_bytes, 64);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (kWTiles == 2) _tile_dpbf16ps(3, 5, 7);
    }
  }
}

template <int kXTiles, int kWTiles>
void block(const LinearJob& job, const std::uint8_t* x, std::int64_t row, std::int64_t rows, std::int64_t tile, std::int64_t first,
           std::int64_t count, std::int64_t x_tile_bytes) {
  const std::int64_t high = rows > 16 ? rows - 16 : 0, low = rows - high;
  load_sums<0>(job, row, low, tile, first);
  if constexpr (kWTiles == 2) load_sums<1>(job, row, low, tile + 1, first);
  if constexpr (kXTiles == 2) load_sums<2>(job, row + 16, high, tile, first);
  if constexpr (kXTiles == 2 && kWTiles == 2) load_sums<3>(job, row + 16, high, tile + 1, first);
  const std::uint8_t* w = job.weights + tile * job.tile_bytes + first * kTileRows * 2;
  multiply<kXTiles, kWTiles>(x, x_tile_bytes, w, job.tile_bytes, count / kStepColumns);
  store_sums<0>(job, row, low, tile);
  if constexpr (kWTiles == 2) store_sums<1>(job, row, low, tile + 1);
  if constexpr (kXTiles == 2) store_sums<2>(job, row + 16, high, tile);
  if constexpr (kXTiles == 2 && kWTiles == 2) store_sums<3>(job, row + 16, high, tile + 1);
}

/// Up to 16 rows, with as many columns at once as fit.
void few_rows(const LinearJob& job, std::int64_t row, std::int64_t rows) {
  TileConfig config = kConfig;
  config.rows[0] = config.rows[4] = static_cast<std::uint8_t>(rows);
  _tile_loadconfig(&config);
  const std::int64_t x_tile_bytes = 64 * rows, most = kTileUnitBf16Scratch / x_tile_bytes * kStepColumns;
  for (std::int64_t first = 0; first < job.k; first += most) {
    const std::int64_t count = job.k - first < most ? job.k - first : most;
    gather_x(job, row, rows, first, count, x_tile_bytes, job.scratch);
    memory_barrier();
    for (std::int64_t tile = job.tile_begin; tile < job.tile_end; ++tile)
      block<1, 1>(job, job.scratch, row, rows, tile, first, count, x_tile_bytes);
  }
}

/// 17 or more rows.
void many_rows(const LinearJob& job, std::int64_t row_begin, std::int64_t row_end) {
  _tile_loadconfig(&kConfig);
  // Parts of the columns, about as long as each other.
  const std::int64_t steps = job.k / kStepColumns, most = kTileUnitColumns / kStepColumns, parts = (steps + most - 1) / most;
  for (std::int64_t part = 0; part < parts; ++part) {
    const std::int64_t first = steps * part / parts * kStepColumns, count = steps * (part + 1) / parts * kStepColumns - first;
    for (std::int64_t row = row_begin; row < row_end; row += 32) {
      const std::int64_t rows = row_end - row < 32 ? row_end - row : 32;
      gather_x(job, row, 16, first, count, kStepBytes, job.scratch);
      gather_x(job, row + 16, rows - 16, first, count, kStepBytes, job.scratch + count / kStepColumns * kStepBytes);
      memory_barrier();
      std::int64_t tile = job.tile_begin;
      for (; tile + 2 <= job.tile_end; tile += 2) block<2, 2>(job, job.scratch, row, rows, tile, first, count, kStepBytes);
      if (tile < job.tile_end) block<2, 1>(job, job.scratch, row, rows, tile, first, count, kStepBytes);
    }
  }
}

}  // namespace

void linear_bf16_amx(const LinearJob& job) {
  const std::int64_t rest = (job.row_end - job.row_begin) % 32, few = rest <= 16 ? rest : 0;
  if (job.row_end - few > job.row_begin) many_rows(job, job.row_begin, job.row_end - few);
  if (few > 0) few_rows(job, job.row_end - few, few);
  _tile_release();
}

}  // namespace quern::cpu
