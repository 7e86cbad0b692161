#pragma once

#include <cstdint>

#include "base/float16.h"
#include "base/unaligned.h"
#include "dtypes/levels.h"

namespace quern::dtypes {

/// The element types that floats can be read from, one row each; a row declares the dequantiser detail::dequantize_NAME.
// clang-format off
#define QUERN_DEQUANTIZED_TYPES(X) \
  X(f32) X(f16) X(bf16) X(f64) X(i8) X(i16) X(i32) X(i64) X(q4_0) X(q4_1) X(q5_0) X(q5_1) X(q8_0) X(q8_1) X(q2_K) X(q3_K) \
  X(q4_K) X(q5_K) X(q6_K) X(q8_K) X(iq2_xxs) X(iq2_xs) X(iq2_s) X(iq3_xxs) X(iq3_s) X(iq1_s) X(iq1_m) X(iq4_nl) X(iq4_xs) \
  X(tq1_0) X(tq2_0) X(mxfp4) X(nvfp4) X(q1_0) X(q2_0)
// clang-format on

namespace detail {

#define X(name) void dequantize_##name(const std::uint8_t* src, float* dst, std::int64_t blocks);
QUERN_DEQUANTIZED_TYPES(X)
#undef X

inline float load_f16(const std::uint8_t* src) { return f16_to_f32(load<std::uint16_t>(src)); }

/// Calls block(src, dst) for each block of kBytes bytes and kElements elements.
template <int kBytes, int kElements, class Block>
void each_block(const std::uint8_t* src, float* dst, std::int64_t blocks, Block block) {
  for (; blocks > 0; --blocks, src += kBytes, dst += kElements) block(src, dst);
}

}  // namespace detail
}  // namespace quern::dtypes
