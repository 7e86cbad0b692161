#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/cpu/kernels/window.h"

namespace quern::cpu {

/// Elements of one channel that a window sees: rows x columns of them, the first at x. Output i of a row sees the same, i * stride elements
/// on.
struct Taps {
  const float* x;
  std::int64_t rows, columns;          // of the window
  std::int64_t row_step, column_step;  // elements of the channel from one to the next
  std::int64_t stride;
};

/// y[i] = what the window's elements come to, for i < n. Taken row by row, each element of y one chain in that order.
///   weighted  s = bias; s = fma(w, x, s), weights of a row `w_row` after those of the one before
///   maximum   from -inf; NaN wins
///   sum       from 0
void weighted_taps(const Taps& taps, const float* w, std::int64_t w_row, float bias, float* y, std::int64_t n) noexcept;
void maximum_taps(const Taps& taps, float* y, std::int64_t n) noexcept;
void sum_taps(const Taps& taps, float* y, std::int64_t n) noexcept;

/// Walks row `oy` of the outputs over a channel of height x width: f(taps, first row of the window, first column, begin, end) for runs of
/// outputs [begin, end) whose windows lie inside the channel in the same way. Windows that see padding alone come with no rows or no
/// columns.
template <class F>
void for_window_runs(const Window2d& window, const float* channel, std::int64_t height, std::int64_t width, std::int64_t oy,
                     std::int64_t out_width, F&& f) {
  const WindowAxis &rows = window.rows, &columns = window.columns;
  const auto [ky, ky_end] = rows.taps(oy, height);
  // Outputs between those whose first and whose last column lie inside see the whole window; the few others are runs of one.
  const std::int64_t whole = columns.inside(0, width, out_width).first;
  const std::int64_t whole_end = std::max(whole, columns.inside(columns.kernel - 1, width, out_width).second);
  for (std::int64_t ox = 0; ox < out_width;) {
    const auto [kx, kx_end] = columns.taps(ox, width);
    const std::int64_t end = ox == whole && whole_end > whole ? whole_end : ox + 1;
    const bool empty = ky == ky_end || kx == kx_end;
    const float* x = empty ? channel : channel + rows.position(oy, ky) * width + columns.position(ox, kx);
    f(Taps{x, ky_end - ky, kx_end - kx, rows.dilation * width, columns.dilation, columns.stride}, ky, kx, ox, end);
    ox = end;
  }
}

}  // namespace quern::cpu
