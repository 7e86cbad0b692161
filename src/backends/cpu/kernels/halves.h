#pragma once

#include <cstdint>

namespace quern::cpu {

/// base/float16.h's f32_to_f16 and f32_to_bf16 of n floats, to the bit.
void to_f16(const float* x, std::uint16_t* y, std::int64_t n);
void to_bf16(const float* x, std::uint16_t* y, std::int64_t n);

}  // namespace quern::cpu
