// Blocks of 16 rows of x by 16 of w on the tile unit (exact integers), with the same float arithmetic after it as the vector loops, so that
// every element has the same bits on both.
#include <immintrin.h>

#include "backends/cpu/kernels/linear/direct_loops.h"
#include "backends/cpu/kernels/linear/job.h"
#include "backends/cpu/kernels/linear/zmm.inc"

#include "backends/cpu/kernels/linear/panel.inc"
#include "backends/cpu/kernels/tile_unit.inc"

namespace quern::cpu {
namespace {

template <int kNumber>
struct Number {
  static constexpr int kValue = kNumber;
};

// Tiles 0-3: sums, 16 x 16 i32, of even and odd blocks and their parts. Tiles 4-5: x, 16 rows of the zero point (where its product is the
// tile unit's work too) and q. Tiles 6-7: the panel, groups of 16 x 4 bytes.

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
inline __attribute__((always_inline)) void multiply(const std::uint8_t* x, const std::uint8_t* panel) {
  x += Tiles<kKind>::kXOffset;
  panel += Tiles<kKind>::kPanelOffset;
  if constexpr (kOdd == 0) {
    _tile_loadd(4, x, kTileUnitXBytes);
    _tile_loadd(6, panel, 64);
    _tile_zero(0);
    _tile_dpbusd(0, 4, 6);
  } else {
    _tile_loadd(5, x, kTileUnitXBytes);
    _tile_loadd(7, panel, 64);
    _tile_zero(1);
    _tile_dpbusd(1, 5, 7);
  }
  if constexpr (kKind.parts == 2 && kOdd == 0) {
    _tile_loadd(4, x + 16, kTileUnitXBytes);
    _tile_loadd(6, panel + 256, 64);
    _tile_zero(2);
    _tile_dpbusd(2, 4, 6);
  } else if constexpr (kKind.parts == 2) {
    _tile_loadd(5, x + 16, kTileUnitXBytes);
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
inline __attribute__((always_inline)) void add_block(const std::int32_t (*dots)[256], const std::uint8_t* x, const std::uint8_t* panel,
                                                     __m512* total) {
  constexpr Panel kP = kPanels[kKind.parts];
#pragma GCC unroll 2
  for (int part = 0; part < kKind.parts; ++part) {
    const std::uint8_t* p = panel + 64 * part;
#pragma GCC unroll 16
    for (int r = 0; r < kTileUnitRows; ++r) {
      const std::uint8_t* xr = x + r * kTileUnitXBytes;
      __m512i dot = _mm512_load_si512(dots[part] + 16 * r);
      if constexpr (!kKind.zero_bytes) dot = take_zero<false>(dot, xr, p + kP.zeros);
      total[r] = accumulate<kKind.minimum, kKind.parts>(total[r], dot, xr, part, reinterpret_cast<const float*>(p + kP.scales),
                                                        reinterpret_cast<const float*>(p + kP.minimums));
    }
  }
}

/// 16 rows times `blocks` blocks of one tile, added to what y holds unless it is the first part of k; y has the first `rows` of them. The
/// tile unit works ahead of the vectors, so that its long way from load to store overlaps with theirs.
template <PanelKind kKind>
__attribute__((noinline)) void sixteen_rows(const LinearJob& job, const std::uint8_t* x, const std::uint8_t* panel, std::int64_t blocks,
                                            std::int64_t tile, std::int64_t row, std::int64_t rows, bool is_first) {
  alignas(64) std::int32_t dots[2][kKind.parts][256];
  constexpr int kPanelBytes = kPanels[kKind.parts].bytes, kXBlock = kTileUnitRows * kTileUnitXBytes;
  const __mmask16 columns = columns_of(job, tile);
  float* y = job.y + row * job.y_stride + tile * kTileRows;
  __m512 total[kTileUnitRows];
  // Without these the sums would live in memory.
#pragma GCC unroll 16
  for (int r = 0; r < kTileUnitRows; ++r)
    total[r] = is_first || r >= rows ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(columns, y + r * job.y_stride);
  // Step b: multiply block b + 1, store the products of b, add those of b - 1.
  const auto step = [&](std::int64_t b, auto odd) __attribute__((always_inline)) {
    constexpr int kOdd = decltype(odd)::kValue;
    const std::uint8_t *xb = x + b * kXBlock, *pb = panel + b * kPanelBytes;
    if (b + 1 < blocks) multiply<kKind, 1 - kOdd>(xb + kXBlock, pb + kPanelBytes);
    if (b < blocks) store_dots<kKind, kOdd>(dots[kOdd]);
    memory_barrier();
    if (b > 0) add_block<kKind>(dots[1 - kOdd], xb - kXBlock, pb - kPanelBytes, total);
    memory_barrier();
  };
  multiply<kKind, 0>(x, panel);
  std::int64_t b = 0;
  for (; b + 2 <= blocks; b += 2) {
    step(b, Number<0>());
    step(b + 1, Number<1>());
  }
  step(b, Number<0>());
  if (b < blocks) step(b + 1, Number<1>());
#pragma GCC unroll 16
  for (int r = 0; r < kTileUnitRows; ++r)
    if (r < rows) store(y + r * job.y_stride, total[r], columns);
}

/// Blocks [first, first + count) of 16 rows of x, each row of a block in a line of the cache: where they come from, lines split them. Rows
/// that are not there repeat the last one.
inline void gather_x(const LinearJob& job, std::int64_t row, std::int64_t rows, std::int64_t first, std::int64_t count, std::uint8_t* to) {
  for (int r = 0; r < kTileUnitRows; ++r) {
    const std::uint8_t* from = job.x + (row + (r < rows ? r : rows - 1)) * job.x_stride + first * kA8Bytes;
    for (std::int64_t b = 0; b < count; ++b)
      _mm512_store_si512(to + (b * kTileUnitRows + r) * kTileUnitXBytes,
                         _mm512_maskz_loadu_epi32((1u << (kA8Bytes / 4)) - 1, from + b * kA8Bytes));
  }
}

/// Columns outside (few blocks, so that 16 rows of x stay in the first-level cache), then tiles (unpacked once, in the second level), rows.
template <Packing kPacking>
void tiles(const LinearJob& job) {
  constexpr PanelKind kKind = kPanelKind<kPacking>;
  const std::int64_t blocks = job.k / kBlockColumns;
  std::uint8_t* x = job.scratch + kTileUnitBlocks * kTileUnitTiles * kMaxPanelBytes;
  // The configuration is loaded and released in every call: it is then never alive while a thread sleeps.
  _tile_loadconfig(&Tiles<kKind>::kConfig);
  for (std::int64_t begin = job.tile_begin; begin < job.tile_end; begin += kTileUnitTiles) {
    const std::int64_t tile_count = job.tile_end - begin < kTileUnitTiles ? job.tile_end - begin : kTileUnitTiles;
    for (std::int64_t first = 0; first < blocks; first += kTileUnitBlocks) {
      const std::int64_t count = blocks - first < kTileUnitBlocks ? blocks - first : kTileUnitBlocks;
      const std::int64_t panel_bytes = count * kPanels[kKind.parts].bytes;
      for (std::int64_t t = 0; t < tile_count; ++t) make_panel<kPacking>(job, begin + t, first, count, job.scratch + t * panel_bytes);
      for (std::int64_t row = job.row_begin; row < job.row_end; row += kTileUnitRows) {
        const std::int64_t rows = job.row_end - row < kTileUnitRows ? job.row_end - row : kTileUnitRows;
        gather_x(job, row, rows, first, count, x);
        memory_barrier();
        for (std::int64_t t = 0; t < tile_count; ++t)
          sixteen_rows<kKind>(job, x, job.scratch + t * panel_bytes, count, begin + t, row, rows, first == 0);
      }
    }
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
  static_assert(kFormatCount == 21);
  dispatch(job, Sequence<0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20>());
}

}  // namespace quern::cpu
