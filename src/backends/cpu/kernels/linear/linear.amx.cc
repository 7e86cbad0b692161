// Blocks of 16 rows of x by 16 of w on the tile unit (exact integers), with the same float arithmetic after it as the vector loops, so that
// every element has the same bits on both.
#include <immintrin.h>

#include "backends/cpu/kernels/linear/job.h"
#include "backends/cpu/kernels/linear/zmm.inc"

namespace quern::cpu {
namespace {

constexpr int kTileUnitRows = 16;

// Not every compiler knows that the tile instructions read and write memory.
inline void memory_barrier() { asm volatile("" ::: "memory"); }

// Tiles 0-3: sums, 16 x 16 i32. Tiles 4-5: x, 16 rows of z and q (w4) or q. Tiles 6-7: the panel, 9 or 8 groups of 16 x 4 bytes.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t bytes[16] = {64, 64, 64, 64, 36, 36, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 9, 9};
};
struct alignas(64) TileConfig8 {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t bytes[16] = {64, 64, 64, 64, 32, 32, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 8, 8};
};
constexpr TileConfig kConfig4;
constexpr TileConfig8 kConfig8;

template <WeightLayout kLayout, bool kMinimum>
inline __attribute__((always_inline)) void epilogue(const std::int32_t* dots, const std::uint8_t* x, std::int64_t stride,
                                                    const std::uint8_t* panel, __m512* total) {
  const __m512 scale = _mm512_load_ps(panel + kPanelScales), minimum = _mm512_load_ps(panel + kPanelMinimums);
  const __m512i zero = _mm512_load_si512(panel + kPanelZero);
#pragma GCC unroll 16
  for (int r = 0; r < kTileUnitRows; ++r) {
    const std::uint8_t* xr = x + r * stride;
    __m512i dot = _mm512_load_si512(dots + 16 * r);
    if constexpr (kLayout == WeightLayout::w8) dot = zero_part<kLayout>(dot, xr, zero);
    total[r] = accumulate<kLayout, kMinimum>(total[r], dot, xr, scale, minimum);
  }
}

template <WeightLayout kLayout, bool kMinimum>
void sixteen_rows(const LinearJob& job, std::int64_t tile, std::int64_t row) {
  constexpr int kX = kLayout == WeightLayout::w4 ? kA8Zero : kA8Quants, kW = kLayout == WeightLayout::w4 ? kPanelZero : kPanelQuants;
  alignas(64) std::int32_t dots[2][256];
  const std::int64_t blocks = job.k / kBlockColumns, stride = job.x_stride;
  const std::uint8_t* x = job.x + row * stride;
  const std::uint8_t* panel = job.scratch;
  __m512 total[kTileUnitRows];
  for (int r = 0; r < kTileUnitRows; ++r) total[r] = _mm512_setzero_ps();
  std::int64_t b = 0;
  for (; b + 2 <= blocks; b += 2, x += 2 * kA8Bytes, panel += 2 * kPanelBytes) {
    _tile_loadd(4, x + kX, stride);
    _tile_loadd(6, panel + kW, 64);
    _tile_zero(0);
    _tile_dpbusd(0, 4, 6);
    _tile_loadd(5, x + kA8Bytes + kX, stride);
    _tile_loadd(7, panel + kPanelBytes + kW, 64);
    _tile_zero(1);
    _tile_dpbusd(1, 5, 7);
    _tile_stored(0, dots[0], 64);
    _tile_stored(1, dots[1], 64);
    memory_barrier();
    epilogue<kLayout, kMinimum>(dots[0], x, stride, panel, total);
    epilogue<kLayout, kMinimum>(dots[1], x + kA8Bytes, stride, panel + kPanelBytes, total);
  }
  if (b < blocks) {
    _tile_loadd(4, x + kX, stride);
    _tile_loadd(6, panel + kW, 64);
    _tile_zero(0);
    _tile_dpbusd(0, 4, 6);
    _tile_stored(0, dots[0], 64);
    memory_barrier();
    epilogue<kLayout, kMinimum>(dots[0], x, stride, panel, total);
  }
  const __mmask16 columns = columns_of(job, tile);
  for (int r = 0; r < kTileUnitRows; ++r) store(job.y + (row + r) * job.y_stride + tile * kTileRows, total[r], columns);
}

template <WeightLayout kLayout, bool kMinimum>
void loop(const LinearJob& job) {
  const std::int64_t tile_bytes = job.k / kBlockColumns * job.block_bytes;
  const bool many = job.row_end - job.row_begin >= kTileUnitRows;
  // The configuration is loaded and released in every call: it is then never alive while a thread sleeps.
  if (many) _tile_loadconfig(kLayout == WeightLayout::w4 ? static_cast<const void*>(&kConfig4) : &kConfig8);
  for (std::int64_t tile = job.tile_begin; tile < job.tile_end; ++tile) {
    const std::uint8_t* w = job.weights + tile * tile_bytes;
    if (!many) {
      some_rows<kLayout, kMinimum, false>(job, w, tile, job.row_begin, job.row_end);
      continue;
    }
    make_panel<kLayout>(job, w);
    memory_barrier();
    std::int64_t row = job.row_begin;
    for (; row + kTileUnitRows <= job.row_end; row += kTileUnitRows) sixteen_rows<kLayout, kMinimum>(job, tile, row);
    some_rows<kLayout, kMinimum, true>(job, job.scratch, tile, row, job.row_end);
  }
  if (many) _tile_release();
}

}  // namespace

void linear_w4_amx(const LinearJob& job) { loop<WeightLayout::w4, true>(job); }

void linear_w8_amx(const LinearJob& job) {
  job.minimum == Minimum::none ? loop<WeightLayout::w8, false>(job) : loop<WeightLayout::w8, true>(job);
}

}  // namespace quern::cpu
