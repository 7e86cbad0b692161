// Blocks of 16 rows of x by 16 of w on the tile unit (exact integers), with the same float arithmetic after it as the vector loops, so that
// every element has the same bits on both.
#include <immintrin.h>

#include "backends/cpu/kernels/linear/job.h"
#include "backends/cpu/kernels/linear/zmm.inc"

namespace quern::cpu {
namespace {

constexpr int kTileUnitRows = 16;

template <int kNumber>
struct Number {
  static constexpr int kValue = kNumber;
};

// Not every compiler knows that the tile instructions read and write memory.
inline void memory_barrier() { asm volatile("" ::: "memory"); }

// Tiles 0-1: sums, 16 x 16 i32. Tiles 4-5: x, 16 rows of z and q (w4) or q alone (w8). Tiles 6-7: the panel, 9 or 8 groups of 16 x 4 bytes.
struct alignas(64) TileConfig {
  std::uint8_t palette, start_row, reserved[14];
  std::uint16_t bytes[16];
  std::uint8_t rows[16];
};
constexpr TileConfig kConfigW4 = {1, 0, {}, {64, 64, 0, 0, 36, 36, 64, 64}, {16, 16, 0, 0, 16, 16, 9, 9}};
constexpr TileConfig kConfigW8 = {1, 0, {}, {64, 64, 0, 0, 32, 32, 64, 64}, {16, 16, 0, 0, 16, 16, 8, 8}};

/// Loads one block of x and w and multiplies them into tile kOdd; GCC takes tile numbers as literals only.
template <WeightLayout kLayout, int kOdd>
inline __attribute__((always_inline)) void multiply(const std::uint8_t* x, std::int64_t row_bytes, const std::uint8_t* panel) {
  x += kLayout == WeightLayout::w4 ? kA8Zero : kA8Quants;
  panel += kLayout == WeightLayout::w4 ? kPanelZero : kPanelQuants;
  if constexpr (kOdd == 0) {
    _tile_loadd(4, x, row_bytes);
    _tile_loadd(6, panel, 64);
    _tile_zero(0);
    _tile_dpbusd(0, 4, 6);
  } else {
    _tile_loadd(5, x, row_bytes);
    _tile_loadd(7, panel, 64);
    _tile_zero(1);
    _tile_dpbusd(1, 5, 7);
  }
}

template <int kOdd>
inline __attribute__((always_inline)) void store_dots(std::int32_t* dots) {
  if constexpr (kOdd == 0)
    _tile_stored(0, dots, 64);
  else
    _tile_stored(1, dots, 64);
}

template <WeightLayout kLayout, bool kMinimum>
inline __attribute__((always_inline)) void add_block(const std::int32_t* dots, const std::uint8_t* x, std::int64_t row_bytes,
                                                     const std::uint8_t* panel, __m512* total) {
  const Scales scales = load_panel_scales(panel);
  const __m512i zero = _mm512_load_si512(panel + kPanelZero);
#pragma GCC unroll 16
  for (int r = 0; r < kTileUnitRows; ++r) {
    const std::uint8_t* xr = x + r * row_bytes;
    __m512i dot = _mm512_load_si512(dots + 16 * r);
    if constexpr (kLayout == WeightLayout::w8) dot = zero_part<kLayout>(dot, xr, zero);
    total[r] = accumulate<kMinimum>(total[r], dot, xr, scales);
  }
}

/// 16 rows times one tile. The tile unit works ahead of the vectors, so that its long way from load to store overlaps with theirs.
template <WeightLayout kLayout, bool kMinimum>
__attribute__((noinline)) void sixteen_rows(const LinearJob& job, const std::uint8_t* panel, std::int64_t tile, std::int64_t row) {
  alignas(64) std::int32_t dots[2][256];
  const std::int64_t blocks = job.k / kBlockColumns;
  const std::uint8_t* x = job.x + row * job.x_stride;
  const std::int64_t row_bytes = job.x_stride;
  __m512 total[kTileUnitRows];
  for (int r = 0; r < kTileUnitRows; ++r) total[r] = _mm512_setzero_ps();
  // Step b: multiply block b + 1, store the products of b, add those of b - 1.
  const auto step = [&](std::int64_t b, auto odd) __attribute__((always_inline)) {
    constexpr int kOdd = decltype(odd)::kValue;
    const std::uint8_t *xb = x + b * kA8Bytes, *pb = panel + b * kPanelBytes;
    if (b + 1 < blocks) multiply<kLayout, 1 - kOdd>(xb + kA8Bytes, row_bytes, pb + kPanelBytes);
    if (b < blocks) store_dots<kOdd>(dots[kOdd]);
    memory_barrier();
    if (b > 0) add_block<kLayout, kMinimum>(dots[1 - kOdd], xb - kA8Bytes, row_bytes, pb - kPanelBytes, total);
    memory_barrier();
  };
  multiply<kLayout, 0>(x, row_bytes, panel);
  std::int64_t b = 0;
  for (; b + 2 <= blocks; b += 2) {
    step(b, Number<0>());
    step(b + 1, Number<1>());
  }
  step(b, Number<0>());
  if (b < blocks) step(b + 1, Number<1>());
  const __mmask16 columns = columns_of(job, tile);
  for (int r = 0; r < kTileUnitRows; ++r) store(job.y + (row + r) * job.y_stride + tile * kTileRows, total[r], columns);
}

template <WeightLayout kLayout, bool kMinimum>
void loop(const LinearJob& job) {
  const std::int64_t blocks = job.k / kBlockColumns, tile_bytes = blocks * job.block_bytes;
  if (job.row_end - job.row_begin < kTileUnitRows) {
    for (std::int64_t tile = job.tile_begin; tile < job.tile_end; ++tile)
      some_rows<kLayout, kMinimum, false, 1>(job, job.weights + tile * tile_bytes, tile, job.row_begin, job.row_end);
    return;
  }
  // The configuration is loaded and released in every call: it is then never alive while a thread sleeps.
  _tile_loadconfig(kLayout == WeightLayout::w4 ? &kConfigW4 : &kConfigW8);
  for (std::int64_t tile = job.tile_begin; tile < job.tile_end; ++tile) {
    make_panel<kLayout>(job, job.weights + tile * tile_bytes, job.scratch);
    memory_barrier();
    std::int64_t row = job.row_begin;
    for (; row + kTileUnitRows <= job.row_end; row += kTileUnitRows) sixteen_rows<kLayout, kMinimum>(job, job.scratch, tile, row);
    some_rows<kLayout, kMinimum, true, 1>(job, job.scratch, tile, row, job.row_end);
  }
  _tile_release();
}

}  // namespace

void linear_w4_amx(const LinearJob& job) { loop<WeightLayout::w4, true>(job); }

void linear_w8_amx(const LinearJob& job) {
  job.minimum == Minimum::none ? loop<WeightLayout::w8, false>(job) : loop<WeightLayout::w8, true>(job);
}

}  // namespace quern::cpu
