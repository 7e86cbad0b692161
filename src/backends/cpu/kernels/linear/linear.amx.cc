// Blocks of 16 rows of x by 16 of w on the tile unit (exact integers), with the same float arithmetic after it as the vector loops, so that
// every element has the same bits on both.
#include <immintrin.h>

#include "backends/cpu/kernels/linear/direct_loops.h"
#include "backends/cpu/kernels/linear/job.h"
#include "backends/cpu/kernels/linear/zmm.inc"

#include "backends/cpu/kernels/linear/panel.inc"

namespace quern::cpu {
namespace {

constexpr int kTileUnitRows = 16;

template <int kNumber>
struct Number {
  static constexpr int kValue = kNumber;
};

// Not every compiler knows that the tile instructions read and write memory.
inline void memory_barrier() { asm volatile("" ::: "memory"); }

// Tiles 0-3: sums, 16 x 16 i32, of even and odd blocks and their parts. Tiles 4-5: x, 16 rows of the zero point (where its product is the
// tile unit's work too) and q. Tiles 6-7: the panel, groups of 16 x 4 bytes.
struct alignas(64) TileConfig {
  std::uint8_t palette, start_row, reserved[14];
  std::uint16_t bytes[16];
  std::uint8_t rows[16];
};

template <PanelKind kKind>
struct Tiles {
  static constexpr int kGroups = 8 / kKind.parts + (kKind.zero_bytes ? 1 : 0);
  static constexpr int kXOffset = kKind.zero_bytes ? kA8Zero : kA8Quants;
  static constexpr int kPanelOffset = kKind.zero_bytes ? kPanels[kKind.parts].zeros : kPanels[kKind.parts].quants;
  static constexpr TileConfig kConfig = {
      1, 0, {}, {64, 64, 64, 64, 4 * kGroups, 4 * kGroups, 64, 64}, {16, 16, 16, 16, 16, 16, kGroups, kGroups}};
};

/// Loads a block of x and w and multiplies them into the tiles of kOdd; GCC takes tile numbers as literals only.
template <PanelKind kKind, int kOdd>
inline __attribute__((always_inline)) void multiply(const std::uint8_t* x, std::int64_t row_bytes, const std::uint8_t* panel) {
  x += Tiles<kKind>::kXOffset;
  panel += Tiles<kKind>::kPanelOffset;
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
  if constexpr (kKind.parts == 2 && kOdd == 0) {
    _tile_loadd(4, x + 16, row_bytes);
    _tile_loadd(6, panel + 256, 64);
    _tile_zero(2);
    _tile_dpbusd(2, 4, 6);
  } else if constexpr (kKind.parts == 2) {
    _tile_loadd(5, x + 16, row_bytes);
    _tile_loadd(7, panel + 256, 64);
    _tile_zero(3);
    _tile_dpbusd(3, 5, 7);
  }
}

template <PanelKind kKind, int kOdd>
inline __attribute__((always_inline)) void store_dots(std::int32_t (*dots)[256]) {
  if constexpr (kOdd == 0) {
    _tile_stored(0, dots[0], 64);
    if constexpr (kKind.parts == 2) _tile_stored(2, dots[1], 64);
  } else {
    _tile_stored(1, dots[0], 64);
    if constexpr (kKind.parts == 2) _tile_stored(3, dots[1], 64);
  }
}

template <PanelKind kKind>
inline __attribute__((always_inline)) void add_block(const std::int32_t (*dots)[256], const std::uint8_t* x, std::int64_t row_bytes,
                                                     const std::uint8_t* panel, __m512* total) {
  constexpr Panel kP = kPanels[kKind.parts];
  for (int part = 0; part < kKind.parts; ++part) {
    const std::uint8_t* p = panel + 64 * part;
#pragma GCC unroll 16
    for (int r = 0; r < kTileUnitRows; ++r) {
      const std::uint8_t* xr = x + r * row_bytes;
      __m512i dot = _mm512_load_si512(dots[part] + 16 * r);
      if constexpr (!kKind.zero_bytes) dot = take_zero<false>(dot, xr, p + kP.zeros);
      total[r] = accumulate<kKind.minimum, kKind.parts>(total[r], dot, xr, part, reinterpret_cast<const float*>(p + kP.scales),
                                                        reinterpret_cast<const float*>(p + kP.minimums));
    }
  }
}

/// 16 rows times one tile. The tile unit works ahead of the vectors, so that its long way from load to store overlaps with theirs.
template <PanelKind kKind>
__attribute__((noinline)) void sixteen_rows(const LinearJob& job, const std::uint8_t* panel, std::int64_t tile, std::int64_t row) {
  alignas(64) std::int32_t dots[2][kKind.parts][256];
  constexpr int kPanelBytes = kPanels[kKind.parts].bytes;
  const std::int64_t blocks = job.k / kBlockColumns;
  const std::uint8_t* x = job.x + row * job.x_stride;
  const std::int64_t row_bytes = job.x_stride;
  __m512 total[kTileUnitRows];
  for (int r = 0; r < kTileUnitRows; ++r) total[r] = _mm512_setzero_ps();
  // Step b: multiply block b + 1, store the products of b, add those of b - 1.
  const auto step = [&](std::int64_t b, auto odd) __attribute__((always_inline)) {
    constexpr int kOdd = decltype(odd)::kValue;
    const std::uint8_t *xb = x + b * kA8Bytes, *pb = panel + b * kPanelBytes;
    if (b + 1 < blocks) multiply<kKind, 1 - kOdd>(xb + kA8Bytes, row_bytes, pb + kPanelBytes);
    if (b < blocks) store_dots<kKind, kOdd>(dots[kOdd]);
    memory_barrier();
    if (b > 0) add_block<kKind>(dots[1 - kOdd], xb - kA8Bytes, row_bytes, pb - kPanelBytes, total);
    memory_barrier();
  };
  multiply<kKind, 0>(x, row_bytes, panel);
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

/// All rows of the job against the panel of one tile. The last sixteen begin earlier and overlap: a row computed twice is the same.
template <PanelKind kKind>
void all_rows(const LinearJob& job, std::int64_t tile) {
  for (std::int64_t row = job.row_begin; row < job.row_end; row += kTileUnitRows)
    sixteen_rows<kKind>(job, job.scratch, tile, row + kTileUnitRows <= job.row_end ? row : job.row_end - kTileUnitRows);
}

template <Packing kPacking>
void tiles(const LinearJob& job) {
  // The configuration is loaded and released in every call: it is then never alive while a thread sleeps.
  _tile_loadconfig(&Tiles<kPanelKind<kPacking>>::kConfig);
  for (std::int64_t tile = job.tile_begin; tile < job.tile_end; ++tile) {
    make_panel<kPacking>(job, tile, job.scratch);
    memory_barrier();
    all_rows<kPanelKind<kPacking>>(job, tile);
  }
  _tile_release();
}

template <int... kPacking>
void dispatch(const LinearJob& job, Sequence<kPacking...>) {
  static constexpr LinearLoop kTileLoops[] = {tiles<Packing(kPacking)>...};
  job.row_end - job.row_begin < kTileUnitRows ? kDirectLoops[int(job.packing)](job) : kTileLoops[int(job.packing)](job);
}

}  // namespace

void linear_integer_amx(const LinearJob& job) {
  static_assert(kFormatCount == 14);
  dispatch(job, Sequence<0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13>());
}

}  // namespace quern::cpu
