#include "base/float16.h"

#include <gtest/gtest.h>

#include <cmath>

namespace quern {

TEST(Float16, every_half_survives_the_round_trip) {
  for (std::uint32_t h = 0; h < 0x10000; ++h) {
    const float f = f16_to_f32(std::uint16_t(h));
    if (std::isnan(f)) {
      EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(f))));
    } else {
      ASSERT_EQ(f32_to_f16(f), h);
    }
  }
}

TEST(Float16, rounds_to_nearest_even_and_overflows_to_infinity) {
  EXPECT_EQ(f32_to_f16(1.0f + 0x1p-11f), 0x3c00);  // a tie goes to the even neighbour
  EXPECT_EQ(f32_to_f16(1.0f + 3 * 0x1p-11f), 0x3c02);
  EXPECT_EQ(f32_to_f16(65519.996f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(0x1p-25f), 0x0000);  // a tie between 0 and the smallest subnormal
  EXPECT_EQ(f32_to_f16(std::nextafterf(0x1p-25f, 1.0f)), 0x0001);
}

TEST(BFloat16, rounds_to_nearest_even) {
  EXPECT_EQ(f32_to_bf16(1.0f + 0x1p-8f), 0x3f80);
  EXPECT_EQ(f32_to_bf16(1.0f + 3 * 0x1p-8f), 0x3f82);
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::nanf("")))));
}

}  // namespace quern
