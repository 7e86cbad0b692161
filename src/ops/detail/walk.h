#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <tuple>

#include "ir/tensor_view.h"

namespace quern::ops::detail {

using ir::TensorView;

/// One number for each axis; axes past a tensor's rank are unused.
using Axes = std::array<std::int64_t, ir::kMaxRank>;

/// A box of indices that is walked in row-major order.
struct Box {
  std::int64_t rank = 0;
  Axes dims{};

  Box() = default;
  explicit Box(const TensorView& view) : rank(view.rank) { std::copy_n(view.dims, view.rank, dims.begin()); }
  void add(std::int64_t size) { dims[static_cast<std::size_t>(rank++)] = size; }
  std::int64_t elements() const {
    std::int64_t n = 1;
    for (std::int64_t i = 0; i < rank; ++i) n *= dims[static_cast<std::size_t>(i)];
    return n;
  }
};

/// Elements between neighbours along each axis of a dense tensor.
inline Axes strides_of(const TensorView& view) {
  Axes strides{};
  std::int64_t stride = 1;
  for (std::int64_t i = view.rank; i-- > 0; stride *= view.dims[i]) strides[static_cast<std::size_t>(i)] = stride;
  return strides;
}

/// The strides with which `view` is read when broadcast to `to` by NumPy's rule. An axis that does not fit is read at index 0, so that
/// sizes which turn out wrong at run time read nothing outside the tensor.
inline Axes broadcast_strides(const TensorView& view, const Box& to) {
  const Axes dense = strides_of(view);
  Axes strides{};
  for (std::int64_t i = 0; i < std::min(view.rank, to.rank); ++i) {
    const auto from = static_cast<std::size_t>(view.rank - 1 - i), at = static_cast<std::size_t>(to.rank - 1 - i);
    strides[at] = view.dims[from] == to.dims[at] ? dense[from] : 0;
  }
  return strides;
}

/// Calls f(index, offset_0, …) for every index of the box in row-major order; the offsets follow the given strides.
template <std::size_t N, class F>
void walk(const Box& box, const std::array<Axes, N>& strides, F&& f) {
  const std::int64_t n = box.elements();
  if (n <= 0) return;
  Axes index{};
  std::array<std::int64_t, N> offsets{};
  for (std::int64_t i = 0; i < n; ++i) {
    std::apply([&](auto... offset) { f(i, offset...); }, offsets);
    for (std::int64_t axis = box.rank; axis-- > 0;) {
      const auto a = static_cast<std::size_t>(axis);
      const bool carry = ++index[a] == box.dims[a];
      const std::int64_t steps = carry ? 1 - box.dims[a] : 1;
      for (std::size_t k = 0; k < N; ++k) offsets[k] += steps * strides[k][a];
      if (!carry) break;
      index[a] = 0;
    }
  }
}

/// Calls f(i, index) for every index of the box in row-major order, with the coordinates in `index`.
template <class F>
void walk_indices(const Box& box, F&& f) {
  const std::int64_t n = box.elements();
  if (n <= 0) return;
  Axes index{};
  for (std::int64_t i = 0; i < n; ++i) {
    f(i, static_cast<const Axes&>(index));
    for (std::int64_t axis = box.rank; axis-- > 0;) {
      const auto a = static_cast<std::size_t>(axis);
      if (++index[a] < box.dims[a]) break;
      index[a] = 0;
    }
  }
}

/// Sizes before, at and after an axis: a tensor seen as [outer, size, inner].
struct Split3 {
  std::int64_t outer = 1, size = 1, inner = 1;
};
inline Split3 split_at(const TensorView& view, std::int64_t axis) {
  if (axis < 0) axis += view.rank;
  Split3 s;
  for (std::int64_t i = 0; i < view.rank; ++i) (i < axis ? s.outer : i == axis ? s.size : s.inner) *= view.dims[i];
  return s;
}

/// Copies one element of `size` bytes.
inline void copy_element(std::byte* to, std::int64_t to_index, const std::byte* from, std::int64_t from_index, std::int64_t size) {
  std::memcpy(to + to_index * size, from + from_index * size, static_cast<std::size_t>(size));
}
inline std::int64_t element_bytes(const TensorView& view) { return ir::block_bytes(view.dtype); }

}  // namespace quern::ops::detail
