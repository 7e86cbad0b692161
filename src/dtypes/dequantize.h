#pragma once

#include <cstddef>
#include <cstdint>

#include "ir/dtype.h"

namespace quern::dtypes {

/// The value of every element, as the format defines it: bit for bit what the reference implementation of GGUF computes (float32 arithmetic
/// in the order it writes it). Infinities and NaN in a block's scale spread to its elements and do no other harm.
/// Shapes    src: whole blocks of `type`, at any address; dst: [elements] f32; elements a multiple of block_elements(type).
/// Rounding  f64, i32 and i64 round to the nearest float; every other type is exact up to the format's own arithmetic.
/// Errors    unsupported (a type without floats: boolean, unsigned integers, a8), invalid_argument (not whole blocks).
void dequantize(ir::DType type, const std::byte* src, float* dst, std::int64_t elements);

}  // namespace quern::dtypes
