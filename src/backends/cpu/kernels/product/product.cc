#include "backends/cpu/kernels/product/product.h"

#include <hwy/cache_control.h>

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/product/product.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace quern::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Lanes16 = hn::CappedTag<float, kPanelColumns>;
constexpr int kVectors = static_cast<int>(kPanelColumns / hn::MaxLanes(Lanes16()));  // in a row of a panel

// Two panels of 256 rows are 32 KiB: they stay in the first-level cache while all rows of A pass by.
constexpr std::int64_t kDepth = 256;
// The sums of one pass live in registers beside a row of the panels and one value of A: 24 of 32 registers with AVX-512, 12 of 16 before.
constexpr int kPanels = kVectors == 1 ? 2 : 1;
constexpr int kRows = kVectors == 4 ? 3 : kVectors == 2 ? 6 : 12;
// How far ahead of their use panels are asked for: with few rows they come straight from memory, and the hardware's own prefetch stops at
// every page of 4 KiB.
constexpr std::int64_t kAhead = 512;
// With few rows more panels at once, so that there are enough chains of FMAs to hide their latency.
constexpr int kWidePanels = 4 / kVectors;
constexpr std::int64_t kWideRows = kVectors == 1 ? 4 : 2;

/// R rows of P panels over the whole depth. `a`: the first row; `y` may be partial in its last columns when `n` is less than P panels.
template <int R, int P>
HWY_INLINE void MultiplyTile(const float* HWY_RESTRICT a, std::int64_t a_row, std::int64_t a_column, const float* HWY_RESTRICT b,
                             std::int64_t panel_stride, std::int64_t depth, float* y, std::int64_t y_row, std::int64_t n,
                             const float* row_bias, bool add) {
  const Lanes16 d;
  constexpr int kWide = P * kVectors;
  constexpr std::int64_t kLanes = kPanelColumns / kVectors, kColumns = P * kPanelColumns;
  HWY_ALIGN float edge[R * kColumns];  // the tile by itself, when y has fewer columns
  float* out = y;
  std::int64_t out_row = y_row;
  if (n < kColumns) {
    out = edge;
    out_row = kColumns;
    for (int r = 0; r < R; ++r)
      for (std::int64_t j = 0; j < kColumns; ++j) edge[r * kColumns + j] = add && j < n ? y[r * y_row + j] : 0.0f;
  }
  // Unrolled by order: sums that are indexed by a loop's counter would live in memory.
  hn::Vec<Lanes16> sum[R][kWide];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < kWide; ++v)
      sum[r][v] = add ? hn::LoadU(d, out + r * out_row + v * kLanes) : hn::Set(d, row_bias ? row_bias[r] : 0.0f);
  for (std::int64_t k = 0; k < depth; ++k) {
    hn::Vec<Lanes16> row[kWide];
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) hwy::Prefetch(b + p * panel_stride + kAhead);
#pragma GCC unroll 4
    for (int v = 0; v < kWide; ++v) row[v] = hn::LoadU(d, b + v / kVectors * panel_stride + v % kVectors * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const auto value = hn::Set(d, a[r * a_row]);
#pragma GCC unroll 4
      for (int v = 0; v < kWide; ++v) sum[r][v] = hn::MulAdd(value, row[v], sum[r][v]);
    }
    a += a_column;
    b += kPanelColumns;
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < kWide; ++v) hn::StoreU(sum[r][v], d, out + r * out_row + v * kLanes);
  if (n < kColumns)
    for (int r = 0; r < R; ++r)
      for (std::int64_t j = 0; j < n; ++j) y[r * y_row + j] = edge[r * kColumns + j];
}

/// All panels of some rows, P at a time.
template <int R, int P>
void MultiplyRows(const Product& x, std::int64_t k, std::int64_t depth, std::int64_t row, std::int64_t panel, std::int64_t panel_end) {
  const bool add = x.add || k > 0;
  const float* a =
      x.a_tile != 0 ? x.a + row / kPackedRows * x.a_tile + k * kPackedRows + row % kPackedRows : x.a + row * x.a_row + k * x.a_column;
  for (; panel < panel_end; panel += P) {
    const float* b = x.panels + panel * x.panel_stride + k * kPanelColumns;
    float* y = x.y + row * x.y_row + panel * kPanelColumns;
    const std::int64_t n = x.n - panel * kPanelColumns;
    const float* bias = x.row_bias ? x.row_bias + row : nullptr;
    if (x.a_tile != 0)
      MultiplyTile<R, P>(a, 1, kPackedRows, b, x.panel_stride, depth, y, x.y_row, n, bias, add);
    else
      MultiplyTile<R, P>(a, x.a_row, x.a_column, b, x.panel_stride, depth, y, x.y_row, n, bias, add);
  }
}

/// The last rows, fewer than kRows.
template <int P>
void MultiplyLastRows(const Product& x, std::int64_t k, std::int64_t depth, std::int64_t row, std::int64_t panel, std::int64_t panel_end) {
  if constexpr (kRows > 8)
    for (; row + 8 <= x.m; row += 8) MultiplyRows<8, P>(x, k, depth, row, panel, panel_end);
  if constexpr (kRows > 4)
    for (; row + 4 <= x.m; row += 4) MultiplyRows<4, P>(x, k, depth, row, panel, panel_end);
  if (row + 2 <= x.m) MultiplyRows<2, P>(x, k, depth, row, panel, panel_end), row += 2;
  if (row < x.m) MultiplyRows<1, P>(x, k, depth, row, panel, panel_end);
}

void MultiplyF32(const Product& x) {
  const std::int64_t panels = panel_count(x.n);
  std::int64_t k = 0;
  do {  // once even when there is nothing to sum: y begins with the bias
    const std::int64_t depth = std::min(kDepth, x.k - k);
    std::int64_t panel = 0;
    if (x.m <= kWideRows)
      for (; panel + kWidePanels <= panels; panel += kWidePanels) MultiplyLastRows<kWidePanels>(x, k, depth, 0, panel, panel + kWidePanels);
    for (; panel + kPanels <= panels; panel += kPanels) {
      std::int64_t row = 0;
      for (; row + kRows <= x.m; row += kRows) MultiplyRows<kRows, kPanels>(x, k, depth, row, panel, panel + kPanels);
      MultiplyLastRows<kPanels>(x, k, depth, row, panel, panel + kPanels);
    }
    for (; panel < panels; ++panel) {
      std::int64_t row = 0;
      for (; row + kRows <= x.m; row += kRows) MultiplyRows<kRows, 1>(x, k, depth, row, panel, panel + 1);
      MultiplyLastRows<1>(x, k, depth, row, panel, panel + 1);
    }
    k += kDepth;
  } while (k < x.k);
}

}  // namespace quern::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quern::cpu {
HWY_EXPORT(MultiplyF32);

void multiply(const Product& product) noexcept { HWY_DYNAMIC_DISPATCH(MultiplyF32)(product); }

void pack_panels(const float* b, std::int64_t b_row, std::int64_t b_column, std::int64_t k, std::int64_t first, std::int64_t columns,
                 float* panels) noexcept {
  for (std::int64_t p = 0; p < columns; p += kPanelColumns) {
    const std::int64_t width = std::min(kPanelColumns, columns - p);
    const float* from = b + (first + p) * b_column;
    for (std::int64_t i = 0; i < k; ++i, from += b_row, panels += kPanelColumns) {
      if (width == kPanelColumns && b_column == 1) {
        std::memcpy(panels, from, kPanelColumns * sizeof(float));
        continue;
      }
      for (std::int64_t j = 0; j < kPanelColumns; ++j) panels[j] = j < width ? from[j * b_column] : 0.0f;
    }
  }
}

void pack_rows(const float* a, std::int64_t a_row, std::int64_t m, std::int64_t k, float* tiles) noexcept {
  for (std::int64_t row = 0; row < m; row += kPackedRows)
    for (std::int64_t i = 0; i < k; ++i, tiles += kPackedRows)
      for (std::int64_t r = 0; r < kPackedRows; ++r) tiles[r] = row + r < m ? a[(row + r) * a_row + i] : 0.0f;
}

}  // namespace quern::cpu
#endif  // HWY_ONCE
