#pragma once

#include <cstdint>
#include <optional>

#include "ir/dtype.h"

namespace quern::gguf {

/// The tensor types of GGUF: X(number in the file, element type).
// clang-format off
#define QUERN_GGUF_TYPES(X) \
  X(0, f32) X(1, f16) X(2, q4_0) X(3, q4_1) X(6, q5_0) X(7, q5_1) X(8, q8_0) X(9, q8_1) X(10, q2_K) X(11, q3_K) X(12, q4_K) \
  X(13, q5_K) X(14, q6_K) X(15, q8_K) X(16, iq2_xxs) X(17, iq2_xs) X(18, iq3_xxs) X(19, iq1_s) X(20, iq4_nl) X(21, iq3_s) \
  X(22, iq2_s) X(23, iq4_xs) X(24, i8) X(25, i16) X(26, i32) X(27, i64) X(28, f64) X(29, iq1_m) X(30, bf16) X(34, tq1_0) \
  X(35, tq2_0) X(39, mxfp4) X(40, nvfp4) X(41, q1_0) X(42, q2_0)
// clang-format on

/// The number GGUF files write for an element type, and back. Nothing for a type that the format has not (or has no more).
std::optional<std::uint32_t> gguf_type(ir::DType type);
std::optional<ir::DType> dtype_from_gguf(std::uint32_t number);

}  // namespace quern::gguf
