#pragma once

#include <cstddef>
#include <cstdint>

#include "ir/dtype.h"
#include "ir/tensor_view.h"

namespace quern::ops {

/// How one head of one block of a key-value cache lies in memory: `tokens` times `dim` numbers. Keys are transposed, so that a vector of
/// them belongs to one element and many tokens, which is what a product with a query wants.
///   f32, f16, bf16   keys [dim, tokens], values [tokens, dim]
///   q8_0             number = scale * integer, a scale (f16) for every 32 elements of a token, the largest magnitude at 127
///                    keys: scales [dim / 32, tokens], then i8 [dim, tokens]; values: scales [tokens, dim / 32], then i8 [tokens, dim]
///   q4_1             number = scale * integer + minimum (both f16), integers 0 … 15
///                    keys: scales [dim / 32, tokens], minima alike, then bytes [dim / 2, tokens]; values: scales [tokens, dim / 32],
///                    minima alike, then bytes [tokens, dim / 2]; byte 16 n + i has element 32 n + i below and 32 n + 16 + i above
/// The block types take as many bytes as those of GGUF by the same names, in another order.
struct KvLayout {
  ir::DType dtype;
  std::int64_t tokens, dim;
  bool transposed;

  static bool supports(ir::DType dtype);
  std::int64_t bytes() const { return tokens * dim / ir::block_elements(dtype) * ir::block_bytes(dtype); }
  /// Writes the elements x[dim] of one token, rounded to nearest. NaN and infinity stay such in plain types and make a group of 32 NaN in
  /// the others.
  void store(std::byte* piece, std::int64_t token, const float* x) const;
  float load(const std::byte* piece, std::int64_t token, std::int64_t i) const;
};

/// The layout of a cache of keys (transposed) or values.
KvLayout kv_layout(const ir::TensorView& cache, bool transposed);

}  // namespace quern::ops
