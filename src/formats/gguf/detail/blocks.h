#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "base/float16.h"

namespace quern::gguf {

/// The tensor types of GGUF, one row each: X(number in the file, element type). A row declares the dequantiser detail::dequantize_NAME.
#define QUERN_GGUF_TYPES(X)                                                                                                           \
  X(0, f32)                                                                                                                           \
  X(1, f16)                                                                                                                           \
  X(2, q4_0)                                                                                                                          \
  X(3, q4_1)                                                                                                                          \
  X(6, q5_0) X(7, q5_1) X(8, q8_0) X(9, q8_1) X(10, q2_K) X(11, q3_K) X(12, q4_K) X(13, q5_K) X(14, q6_K) X(15, q8_K) X(16, iq2_xxs)  \
      X(17, iq2_xs) X(18, iq3_xxs) X(19, iq1_s) X(20, iq4_nl) X(21, iq3_s) X(22, iq2_s) X(23, iq4_xs) X(24, i8) X(25, i16) X(26, i32) \
          X(27, i64) X(28, f64) X(29, iq1_m) X(30, bf16) X(34, tq1_0) X(35, tq2_0) X(39, mxfp4) X(40, nvfp4) X(41, q1_0) X(42, q2_0)

namespace detail {

#define X(number, name) void dequantize_##name(const std::uint8_t* src, float* dst, std::int64_t blocks);
QUERN_GGUF_TYPES(X)
#undef X

/// Reads a little-endian number that may lie at any address.
template <class T>
T load(const void* src) {
  static_assert(std::endian::native == std::endian::little);
  T value;
  std::memcpy(&value, src, sizeof value);
  return value;
}

inline float load_f16(const std::uint8_t* src) { return f16_to_f32(load<std::uint16_t>(src)); }

/// Calls block(src, dst) for each block of kBytes bytes and kElements elements.
template <int kBytes, int kElements, class Block>
void each_block(const std::uint8_t* src, float* dst, std::int64_t blocks, Block block) {
  for (; blocks > 0; --blocks, src += kBytes, dst += kElements) block(src, dst);
}

inline constexpr std::int8_t kLevels_iq4_nl[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

}  // namespace detail
}  // namespace quern::gguf
