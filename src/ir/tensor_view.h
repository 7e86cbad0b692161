#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ir/dtype.h"

namespace quern::ir {

constexpr std::size_t kMaxRank = 8;

/// A tensor in memory, as kernels see it: numbers only; dense, but for states. Does not own its bytes. Pointers of plain types are aligned
/// to 64 bytes when they come from an arena, and to nothing in particular when they come from a file.
struct TensorView {
  std::byte* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t rank = 0;
  std::int64_t dims[kMaxRank] = {};
  /// Of a state: bytes from one index of the first dimension to the next, where other states lie between; 0: nothing does.
  std::int64_t gap_stride = 0;

  std::span<const std::int64_t> shape() const { return {dims, static_cast<std::size_t>(rank)}; }
  std::int64_t elements() const {
    std::int64_t n = 1;
    for (std::int64_t i = 0; i < rank; ++i) n *= dims[i];
    return n;
  }
  std::int64_t bytes() const { return elements() / block_elements(dtype) * block_bytes(dtype); }
  /// Bytes from one index of the first dimension to the next.
  std::int64_t outer_stride() const {
    if (gap_stride != 0) return gap_stride;
    std::int64_t n = 1;
    for (std::int64_t i = 1; i < rank; ++i) n *= dims[i];
    return n / block_elements(dtype) * block_bytes(dtype);
  }
  /// The last dimension (1 for a scalar), and all others multiplied.
  std::int64_t columns() const { return rank > 0 ? dims[rank - 1] : 1; }
  std::int64_t rows() const {
    std::int64_t n = 1;
    for (std::int64_t i = 0; i + 1 < rank; ++i) n *= dims[i];
    return n;
  }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
};

}  // namespace quern::ir
