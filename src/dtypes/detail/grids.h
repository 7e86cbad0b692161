#pragma once

#include <cstdint>

namespace quern::dtypes::detail {

/// The code books of the IQ formats: which magnitudes a code stands for. They are data of the format (they were found by search, so no
/// formula gives them). An entry packs its elements from the low bits up: 8 elements of 2 bits in the iq1 and iq2 grids, 4 of 3 bits in the
/// iq3 grids; a field indexes the levels below.
extern const std::uint16_t kGrid_iq2_xxs[256], kGrid_iq2_xs[512], kGrid_iq2_s[1024];
extern const std::uint16_t kGrid_iq3_xxs[256], kGrid_iq3_s[512];
extern const std::uint16_t kGrid_iq1[2048];  // IQ1_S and IQ1_M

inline constexpr float kLevels_iq1[4] = {-1, 0, 1, 0};  // the fourth is never used, as in iq2
inline constexpr float kLevels_iq2[4] = {8, 25, 43, 0};
inline constexpr float kLevels_iq3_xxs[8] = {4, 12, 20, 28, 36, 44, 52, 62};
inline constexpr float kLevels_iq3_s[8] = {1, 3, 5, 7, 9, 11, 13, 15};

}  // namespace quern::dtypes::detail
