// How keys and values lie in a cache, and how far they are from what was stored.
#include "ops/kv_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace quern::ops {
namespace {

using ir::DType;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();

/// Stores tokens one after the other and loads all of them.
std::vector<float> through(const KvLayout& layout, const std::vector<float>& x) {
  std::vector<std::byte> piece(static_cast<std::size_t>(layout.bytes()) + 1, std::byte{0x5a});
  for (std::int64_t t = 0; t < layout.tokens; ++t) layout.store(piece.data(), t, x.data() + t * layout.dim);
  EXPECT_EQ(piece.back(), std::byte{0x5a}) << "wrote past its end";
  std::vector<float> back;
  for (std::int64_t t = 0; t < layout.tokens; ++t)
    for (std::int64_t i = 0; i < layout.dim; ++i) back.push_back(layout.load(piece.data(), t, i));
  return back;
}

TEST(KvLayout, every_number_comes_back_as_near_as_its_type_allows) {
  std::mt19937 random(1);
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_1})
    for (const bool transposed : {false, true})
      for (const std::int64_t dim : {32, 96})
        for (const float size : {1e-6f, 1e-3f, 1.0f, 300.0f})
          for (const float middle : {0.0f, 2.0f}) {
            const KvLayout layout{dtype, 16, dim, transposed};
            std::vector<float> x(static_cast<std::size_t>(layout.tokens * dim));
            std::uniform_real_distribution<float> value(-size + middle * size, size + middle * size);
            for (float& f : x) f = value(random);
            const std::vector<float> y = through(layout, x);
            for (std::size_t i = 0; i < x.size(); ++i) {
              const auto group = x.begin() + static_cast<std::int64_t>(i / 32 * 32);
              const auto [low, high] = std::minmax_element(group, group + 32);
              const float largest = std::max(std::abs(*low), std::abs(*high));
              // A scale is rounded up to 11 bits, or to a multiple of 2^-24; a minimum to the nearest of these.
              const float bound = dtype == DType::f32    ? 0
                                  : dtype == DType::f16  ? std::abs(x[i]) * 0x1p-11f + 0x1p-25f
                                  : dtype == DType::bf16 ? std::abs(x[i]) * 0x1p-8f
                                  : dtype == DType::q8_0 ? largest / 127 * 0.5005f + 0x1p-24f
                                                         : (*high - *low) / 15 * 0.5005f + largest * 0x1p-10f + 0x1p-23f;
              ASSERT_LE(std::abs(x[i] - y[i]), bound * 1.001f) << ir::name(dtype) << " " << x[i] << " of " << size;
            }
          }
}

TEST(KvLayout, what_is_no_number_shows_and_what_is_too_large_is_cut) {
  for (const DType dtype : {DType::q8_0, DType::q4_1})
    for (const float bad : {kNan, kInfinity, -kInfinity}) {
      const KvLayout layout{dtype, 16, 64, true};
      std::vector<float> x(16 * 64, 1.0f);
      x[70] = bad;  // token 1, element 6
      const std::vector<float> y = through(layout, x);
      for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i >= 64 && i < 96) << ir::name(dtype) << " " << i;
    }
  for (const DType dtype : {DType::q8_0, DType::q4_1}) {
    std::vector<float> x(16 * 32, 0.0f);
    x[3] = 1e30f;
    for (const float y : through({dtype, 16, 32, false}, x)) EXPECT_TRUE(std::isfinite(y));
  }
}

TEST(KvLayout, takes_as_many_bytes_as_the_block_types_of_files) {
  EXPECT_EQ((KvLayout{DType::q8_0, 16, 64, true}.bytes()), 16 * 64 / 32 * 34);
  EXPECT_EQ((KvLayout{DType::q4_1, 16, 64, false}.bytes()), 16 * 64 / 32 * 20);
}

}  // namespace
}  // namespace quern::ops
