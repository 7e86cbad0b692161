#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "ir/tensor_view.h"

namespace quern::cpu {

/// A box of indices walked in row-major order, with N operands that are broadcast to it by NumPy's rule. Axes of size 1 are dropped and
/// neighbours that every operand walks with one stride are merged, so that the last axis is as long as can be.
template <std::size_t N>
struct Loop {
  std::int64_t rank = 0;
  std::int64_t dims[ir::kMaxRank] = {};
  std::int64_t strides[N][ir::kMaxRank] = {};  // in elements

  Loop() = default;
  /// An axis that does not fit is read at index 0: sizes that turn out wrong read nothing outside a tensor.
  Loop(const ir::TensorView& to, const std::array<ir::TensorView, N>& from) {
    std::int64_t dense[N];
    std::fill(dense, dense + N, 1);
    std::int64_t reversed_dims[ir::kMaxRank] = {}, reversed[N][ir::kMaxRank] = {};
    for (std::int64_t axis = to.rank; axis-- > 0;) {
      const std::int64_t size = to.dims[axis];
      std::int64_t stride[N];
      for (std::size_t i = 0; i < N; ++i) {
        const std::int64_t own = axis - to.rank + from[i].rank;
        stride[i] = own >= 0 && from[i].dims[own] == size ? dense[i] : 0;
        if (own >= 0) dense[i] *= from[i].dims[own];
      }
      if (size == 1) continue;
      bool merges = rank > 0;
      for (std::size_t i = 0; merges && i < N; ++i) merges = stride[i] == reversed[i][rank - 1] * reversed_dims[rank - 1];
      if (merges) {
        reversed_dims[rank - 1] *= size;
        continue;
      }
      reversed_dims[rank] = size;
      for (std::size_t i = 0; i < N; ++i) reversed[i][rank] = stride[i];
      ++rank;
    }
    for (std::int64_t axis = 0; axis < rank; ++axis) {
      dims[axis] = reversed_dims[rank - 1 - axis];
      for (std::size_t i = 0; i < N; ++i) strides[i][axis] = reversed[i][rank - 1 - axis];
    }
  }

  std::int64_t elements() const {
    std::int64_t n = 1;
    for (std::int64_t i = 0; i < rank; ++i) n *= dims[i];
    return n;
  }
  /// The last axis: how long, and how operand i walks it.
  std::int64_t inner() const { return rank > 0 ? dims[rank - 1] : 1; }
  std::int64_t inner_stride(std::size_t i) const { return rank > 0 ? strides[i][rank - 1] : 0; }

  /// Where each operand is at a row-major index of the box.
  std::array<std::int64_t, N> offsets(std::int64_t index) const {
    std::array<std::int64_t, N> at{};
    for (std::int64_t axis = rank; axis-- > 0; index /= dims[axis])
      for (std::size_t i = 0; i < N; ++i) at[i] += index % dims[axis] * strides[i][axis];
    return at;
  }

  /// Calls f(index, count, offsets) for runs along the last axis that cover the indices [begin, end).
  template <class F>
  void runs(std::int64_t begin, std::int64_t end, F&& f) const {
    const std::int64_t length = inner();
    while (begin < end) {
      const std::int64_t count = std::min(end - begin, length - begin % length);
      f(begin, count, offsets(begin));
      begin += count;
    }
  }
};

}  // namespace quern::cpu
