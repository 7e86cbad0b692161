#pragma once

// Plain data only: kernels compiled for wide instruction sets include this too.
#include <cstdint>

namespace quern::dtypes {

/// What the 4-bit codes of iq4_nl and iq4_xs stand for, times the block's scale.
inline constexpr std::int8_t kLevelsIq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
/// The floats E2M1 of mxfp4 and nvfp4, doubled.
inline constexpr std::int8_t kLevelsE2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/// What the grids of IQ1 (with their shift, times 8), IQ2 and IQ3 are made of, with signs; ascending, those of eight filled up with zeros.
inline constexpr std::int8_t kLevelsIq1[16] = {-9, -7, -1, 1, 7, 9};
inline constexpr std::int8_t kLevelsIq2[16] = {-43, -25, -8, 8, 25, 43};
inline constexpr std::int8_t kLevelsIq3Xxs[16] = {-62, -52, -44, -36, -28, -20, -12, -4, 4, 12, 20, 28, 36, 44, 52, 62};
inline constexpr std::int8_t kLevelsIq3S[16] = {-15, -13, -11, -9, -7, -5, -3, -1, 1, 3, 5, 7, 9, 11, 13, 15};

}  // namespace quern::dtypes
