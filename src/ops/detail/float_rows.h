#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/float16.h"
#include "dtypes/a8.h"
#include "dtypes/dequantize.h"
#include "ir/op.h"

// Rows of floats, blocks or shortened activations: what the ops of language models share.
namespace quern::ops::detail {

using ir::Call, ir::Dim, ir::DType, ir::InferContext, ir::TensorView, ir::Type;

inline constexpr std::int64_t kMaxBlock = 256;

/// Calls f(i, value) for the elements of one row of any float or block type.
template <class F>
inline void for_each_in_row(const std::byte* row, DType dtype, std::int64_t columns, F f) {
  float block[kMaxBlock];
  const std::int64_t step = ir::is_block(dtype) ? ir::block_elements(dtype) : 1;
  for (std::int64_t i = 0; i < columns; i += step) {
    const std::byte* at = row + i / ir::block_elements(dtype) * ir::block_bytes(dtype);
    if (dtype == DType::a8)
      dtypes::dequantize_a8(at, block, 1);
    else
      dtypes::dequantize(dtype, at, block, step);
    for (std::int64_t j = 0; j < step; ++j) f(i + j, block[j]);
  }
}

inline std::int64_t row_bytes(DType dtype, std::int64_t columns) { return columns / ir::block_elements(dtype) * ir::block_bytes(dtype); }

inline void expect_rank(const InferContext& c, std::size_t i, std::int64_t rank) {
  if (c.rank(i) != rank)
    c.fail("input " + std::to_string(i) + " must have rank " + std::to_string(rank) + ", not shape " + ir::to_string(c.shape(i)));
}
inline void expect_dtype(const InferContext& c, std::size_t i, DType dtype) {
  if (c.dtype(i) != dtype)
    c.fail("input " + std::to_string(i) + " must be " + std::string(ir::name(dtype)) + ", not " + std::string(ir::name(c.dtype(i))));
}
inline void expect_equal(const InferContext& c, const Dim& a, const Dim& b, std::string_view what) {
  if (!(a == b)) c.fail(std::string(what) + " differ: " + a.to_string() + " and " + b.to_string());
}

inline void expect_outputs(const InferContext& c, std::size_t count) {
  if (c.node().outputs.size() != count)
    c.fail("has " + std::to_string(c.node().outputs.size()) + " outputs where its inputs make " + std::to_string(count));
}

/// A shape with the element type that the attribute `dtype` asks for.
inline Type quantized_or_plain(const InferContext& c, ir::Shape shape) {
  const DType dtype = c.node().dtype("dtype");
  if (dtype != DType::f32 && dtype != DType::a8 && dtype != DType::bf16)
    c.fail("dtype is " + std::string(ir::name(dtype)) + " where f32, a8 or bf16 is wanted");
  if (dtype == DType::a8 && shape.empty()) c.fail("a8 has no scalars");
  if (dtype == DType::a8 && !shape.back().divisible_by(ir::block_elements(DType::a8)))
    c.fail("the width " + shape.back().to_string() + " is no multiple of 32");
  return {dtype, std::move(shape)};
}

/// Writes values at an element of an f32, bf16 or a8 tensor; for a8, whole blocks.
inline void store_floats(const TensorView& y, std::int64_t element, const std::vector<float>& values) {
  if (values.empty()) return;
  if (y.dtype == DType::a8)
    dtypes::quantize_a8(values.data(), y.data + row_bytes(y.dtype, element), static_cast<std::int64_t>(values.size()) / 32);
  else
    for (std::size_t i = 0; i < values.size(); ++i)
      y.dtype == DType::f32 ? void(y.as<float>()[element + static_cast<std::int64_t>(i)] = values[i])
                            : void(y.as<std::uint16_t>()[element + static_cast<std::int64_t>(i)] = f32_to_bf16(values[i]));
}

}  // namespace quern::ops::detail
