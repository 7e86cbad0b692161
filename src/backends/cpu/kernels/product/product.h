#pragma once

#include <cstdint>

namespace quern::cpu {

/// Products of f32 matrices, Y [m, n] = A [m, k] · B [k, n], the core of matmul, gemm and conv.
///
/// B lies in panels of 16 columns: panel p is [k][16], column j of B being column j % 16 of panel j / 16; columns past n are zeros.
/// A is read with two strides, so that a matrix, its transpose and rows packed by pack_rows() are all the same to it.
constexpr std::int64_t kPanelColumns = 16;
/// Rows that pack_rows() lays side by side: tile t is [k][12], row i of A being row i % 12 of tile i / 12. What one pass of the inner loop
/// takes with 32 vector registers (12 x 2 sums of 16 floats), twice what it takes with 16 registers (6 x 2 sums of 8).
constexpr std::int64_t kPackedRows = 12;

struct Product {
  const float* a;
  std::int64_t a_row, a_column;  // element (i, k) of A is a[i * a_row + k * a_column]
  std::int64_t a_tile;  // not 0: A is packed by pack_rows(), so many floats from tile to tile; a_row and a_column are not looked at
  const float* panels;
  std::int64_t panel_stride;  // floats from one panel of B to the next, ≥ 16 * k
  float* y;
  std::int64_t y_row;  // floats from row to row
  std::int64_t m, n, k;
  const float* row_bias;  // [m] or null: what the sums of a row begin with
  bool add;               // the sums begin with what y holds (row_bias is not looked at)
};

/// Each element of y is one chain: s = bias; for each k in order: s = fma(a, b, s). A product over k in pieces, each but the first with
/// `add`, gives the same bits as one piece, and so does every division into rows and panels.
void multiply(const Product& product) noexcept;

constexpr std::int64_t panel_count(std::int64_t n) { return (n + kPanelColumns - 1) / kPanelColumns; }
constexpr std::int64_t packed_row_floats(std::int64_t m, std::int64_t k) { return (m + kPackedRows - 1) / kPackedRows * kPackedRows * k; }

/// Columns [first, first + columns) of B into panels, column `first` into the first of them. Element (k, j) of B is b[k * b_row + j *
/// b_column].
void pack_panels(const float* b, std::int64_t b_row, std::int64_t b_column, std::int64_t k, std::int64_t first, std::int64_t columns,
                 float* panels) noexcept;
/// A [m, k] with rows a_row apart into tiles of 12 rows; rows past m are zeros.
void pack_rows(const float* a, std::int64_t a_row, std::int64_t m, std::int64_t k, float* tiles) noexcept;

}  // namespace quern::cpu
