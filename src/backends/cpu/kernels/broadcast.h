#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "ir/tensor_view.h"

namespace quern::cpu {

/// A box of indices walked in row-major order, with N operands that have a stride along each axis. Axes of size 1 are dropped and
/// neighbours that every operand walks with one stride are merged, so that the last axis is as long as can be.
template <std::size_t N>
struct Loop {
  using Strides = std::array<std::int64_t, N>;

  std::int64_t rank = 0;
  std::int64_t dims[ir::kMaxRank] = {};
  Strides strides[ir::kMaxRank] = {};  // of each axis, in elements

  Loop() = default;
  /// Operands broadcast to `to` by NumPy's rule. An axis that does not fit is read at index 0: sizes that turn out wrong read nothing
  /// outside a tensor.
  Loop(const ir::TensorView& to, const std::array<ir::TensorView, N>& from) {
    Strides dense;
    dense.fill(1);
    for (std::int64_t axis = to.rank; axis-- > 0;) {
      Strides stride{};
      for (std::size_t i = 0; i < N; ++i) {
        const std::int64_t own = axis - to.rank + from[i].rank;
        if (own < 0) continue;
        if (from[i].dims[own] == to.dims[axis]) stride[i] = dense[i];
        dense[i] *= from[i].dims[own];
      }
      add_outer(to.dims[axis], stride);
    }
    reverse();
  }
  /// One operand with strides of its own along the axes of `to`.
  Loop(const ir::TensorView& to, const std::int64_t* own)
    requires(N == 1)
  {
    for (std::int64_t axis = to.rank; axis-- > 0;) add_outer(to.dims[axis], {own[axis]});
    reverse();
  }

  std::int64_t elements() const {
    std::int64_t n = 1;
    for (std::int64_t i = 0; i < rank; ++i) n *= dims[i];
    return n;
  }
  /// The last axis: how long, and how the operands walk it.
  std::int64_t inner() const { return rank > 0 ? dims[rank - 1] : 1; }
  Strides inner_strides() const { return rank > 0 ? strides[rank - 1] : Strides{}; }

  /// Where each operand is at a row-major index of the box.
  Strides offsets(std::int64_t index) const {
    Strides at{};
    for (std::int64_t axis = rank; axis-- > 0; index /= dims[axis])
      for (std::size_t i = 0; i < N; ++i) at[i] += index % dims[axis] * strides[axis][i];
    return at;
  }

  /// Calls f(index, count, offsets) for runs along the last axis that cover the indices [begin, end).
  template <class F>
  void runs(std::int64_t begin, std::int64_t end, F&& f) const {
    if (begin >= end) return;
    std::int64_t index[ir::kMaxRank] = {};
    for (std::int64_t axis = rank, rest = begin; axis-- > 0; rest /= dims[axis]) index[axis] = rest % dims[axis];
    Strides at = offsets(begin);
    const std::int64_t last = rank - 1;
    while (true) {
      const std::int64_t count = rank == 0 ? 1 : std::min(end - begin, dims[last] - index[last]);
      f(begin, count, at);
      begin += count;
      if (begin >= end) return;
      // To the start of the next run: the last axis from 0, the one before it a step on.
      for (std::size_t i = 0; i < N; ++i) at[i] -= index[last] * strides[last][i];
      index[last] = 0;
      for (std::int64_t axis = last; axis-- > 0;) {
        const bool carry = ++index[axis] == dims[axis];
        for (std::size_t i = 0; i < N; ++i) at[i] += carry ? (1 - dims[axis]) * strides[axis][i] : strides[axis][i];
        if (!carry) break;
        index[axis] = 0;
      }
    }
  }

 private:
  /// Axes are added from the last to the first, and turned round at the end.
  void add_outer(std::int64_t size, const Strides& stride) {
    if (size == 1) return;
    bool merges = rank > 0;
    for (std::size_t i = 0; merges && i < N; ++i) merges = stride[i] == strides[rank - 1][i] * dims[rank - 1];
    if (merges) {
      dims[rank - 1] *= size;
    } else {
      dims[rank] = size;
      strides[rank++] = stride;
    }
  }
  void reverse() {
    std::reverse(dims, dims + rank);
    std::reverse(strides, strides + rank);
  }
};

}  // namespace quern::cpu
