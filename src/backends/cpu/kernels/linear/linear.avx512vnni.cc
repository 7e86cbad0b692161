// Products on 512-bit vectors. The direct loops of the formats are in the files direct_*.avx512vnni.cc, so that each compiles fast.
#include <immintrin.h>

#include "backends/cpu/kernels/linear/direct_loops.h"
#include "backends/cpu/kernels/linear/job.h"
#include "backends/cpu/kernels/linear/zmm.inc"

#include "backends/cpu/kernels/linear/panel.inc"

namespace quern::cpu {
namespace {

// From so many rows on, unpacking the tile once to memory costs less than once for every eight rows.
constexpr std::int64_t kPanelRows = 17;

/// kRows rows of x times kTiles panels that lie one after the other.
template <PanelKind kKind, int kRows, int kTiles>
__attribute__((noinline)) void panel_rows(const LinearJob& job, const std::uint8_t* w, std::int64_t tile, std::int64_t row) {
  constexpr Panel kP = kPanels[kKind.parts];
  const std::int64_t blocks = job.k / kBlockColumns, stride = job.x_stride, tile_bytes = blocks * kP.bytes;
  const std::uint8_t* x = job.x + row * stride;
  __m512 total[kTiles][kRows];
  for (int t = 0; t < kTiles; ++t)
    for (int r = 0; r < kRows; ++r) total[t][r] = _mm512_setzero_ps();
  for (std::int64_t b = 0; b < blocks; ++b, x += kA8Bytes, w += kP.bytes)
#pragma GCC unroll 2
    for (int part = 0; part < kKind.parts; ++part) {
      constexpr int kGroups = 8 / kKind.parts;
      __m512i dot[kTiles][kRows];
      for (int t = 0; t < kTiles; ++t)
        for (int r = 0; r < kRows; ++r) dot[t][r] = _mm512_setzero_si512();
#pragma GCC unroll 8
      for (int i = 0; i < kGroups; ++i) {
        const int g = part * kGroups + i;
        __m512i q[kTiles];
        for (int t = 0; t < kTiles; ++t) q[t] = _mm512_load_si512(w + t * tile_bytes + kP.quants + 64 * g);
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) {
          const __m512i four = broadcast4(x + r * stride + kA8Quants + 4 * g);
          for (int t = 0; t < kTiles; ++t) dot[t][r] = _mm512_dpbusd_epi32(dot[t][r], four, q[t]);
        }
      }
      for (int t = 0; t < kTiles; ++t) {
        const std::uint8_t* p = w + t * tile_bytes + 64 * part;
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) {
          const std::uint8_t* xr = x + r * stride;
          total[t][r] = accumulate<kKind.minimum, kKind.parts>(total[t][r], take_zero<kKind.zero_bytes>(dot[t][r], xr, p + kP.zeros), xr,
                                                               part, reinterpret_cast<const float*>(p + kP.scales),
                                                               reinterpret_cast<const float*>(p + kP.minimums));
        }
      }
    }
  for (int t = 0; t < kTiles; ++t) {
    const __mmask16 columns = columns_of(job, tile + t);
    for (int r = 0; r < kRows; ++r) store(job.y + (row + r) * job.y_stride + (tile + t) * kTileRows, total[t][r], columns);
  }
}

/// All rows of the job, as many at once as 32 registers allow. The last ones begin earlier and overlap: a row computed twice is the same.
template <PanelKind kKind, int kTiles>
void all_rows(const LinearJob& job, std::int64_t tile) {
  constexpr int kRows = kTiles == 2 ? 6 : 12;
  static_assert(kPanelRows >= kRows);
  for (std::int64_t row = job.row_begin; row < job.row_end; row += kRows)
    panel_rows<kKind, kRows, kTiles>(job, job.scratch, tile, row + kRows <= job.row_end ? row : job.row_end - kRows);
}

template <Packing kPacking>
void panels(const LinearJob& job) {
  const std::int64_t blocks = job.k / kBlockColumns, panel_bytes = blocks * kPanels[kFormat<kPacking>.parts].bytes;
  std::int64_t tile = job.tile_begin;
  for (; tile + 2 <= job.tile_end; tile += 2) {
    make_panel<kPacking>(job, tile, 0, blocks, job.scratch);
    make_panel<kPacking>(job, tile + 1, 0, blocks, job.scratch + panel_bytes);
    all_rows<kPanelKind<kPacking>, 2>(job, tile);
  }
  if (tile < job.tile_end) {
    make_panel<kPacking>(job, tile, 0, blocks, job.scratch);
    all_rows<kPanelKind<kPacking>, 1>(job, tile);
  }
}

template <int... kPacking>
void dispatch(const LinearJob& job, Sequence<kPacking...>) {
  static constexpr LinearLoop kPanelLoops[] = {panels<Packing(kPacking)>...};
  job.row_end - job.row_begin < kPanelRows ? kDirectLoops[int(job.packing)](job) : kPanelLoops[int(job.packing)](job);
}

}  // namespace

void linear_integer_avx512vnni(const LinearJob& job) {
  static_assert(kFormatCount == 21);
  dispatch(job, Sequence<0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20>());
}

}  // namespace quern::cpu
