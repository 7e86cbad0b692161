#pragma once

// Plain data only: kernels compiled for wide instruction sets include this too.
#include <cstdint>

namespace quern::dtypes {

/// What the 4-bit codes of iq4_nl and iq4_xs stand for, times the block's scale.
inline constexpr std::int8_t kLevelsIq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
/// The floats E2M1 of mxfp4 and nvfp4, doubled.
inline constexpr std::int8_t kLevelsE2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

}  // namespace quern::dtypes
