#include "dtypes/dequantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>

#include "base/error.h"
#include "base/unaligned.h"
#include "dtypes/detail/blocks.h"

namespace quern::dtypes {
namespace {

constexpr ir::DType kTypes[] = {
#define X(name) ir::DType::name,
    QUERN_DEQUANTIZED_TYPES(X)
#undef X
};

std::vector<std::byte> read_data(const std::string& name) {
  std::ifstream in(std::string(QUERN_SOURCE_DIR) + "/tests/dtypes/data/" + name, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return {bytes, bytes + text.size()};
}

class Dequantize : public ::testing::TestWithParam<ir::DType> {};

TEST_P(Dequantize, gives_bit_for_bit_what_the_reference_gives) {
  const ir::DType type = GetParam();
  const std::vector<std::byte> file = read_data("dequantize/" + std::string(ir::name(type)) + ".bin");
  ASSERT_GT(file.size(), 4u) << "no data for this type: run make_dequantize.py";
  const auto blocks = static_cast<std::int64_t>(load<std::uint32_t>(file.data()));
  const std::int64_t elements = blocks * ir::block_elements(type), bytes = blocks * ir::block_bytes(type);
  ASSERT_EQ(file.size(), static_cast<std::size_t>(4 + bytes + 4 * elements));

  std::vector<float> got(static_cast<std::size_t>(elements) + 1, 12345.0f);
  dequantize(type, file.data() + 4, got.data(), elements);  // at an address that is not aligned for u64
  EXPECT_EQ(got.back(), 12345.0f) << "wrote past the end";
  for (std::int64_t i = 0; i < elements; ++i) {
    const auto expected = load<float>(file.data() + 4 + bytes + 4 * i);
    const float value = got[static_cast<std::size_t>(i)];
    if (std::isnan(expected) && std::isnan(value)) continue;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(value), std::bit_cast<std::uint32_t>(expected))
        << "element " << i << ": " << value << ", expected " << expected;
  }
}

INSTANTIATE_TEST_SUITE_P(EveryType, Dequantize, ::testing::ValuesIn(kTypes),
                         [](const auto& info) { return std::string(ir::name(info.param)); });

TEST(Dequantize, knows_every_block_type_of_the_ir) {
  std::byte bytes[512] = {};
  float out[256];
  const ir::DType types[] = {
#define X(name, elements, size) ir::DType::name,
      QUERN_DTYPES(X)
#undef X
  };
  for (const ir::DType type : types)
    if (ir::is_block(type) && type != ir::DType::a8) {
      EXPECT_NO_THROW(dequantize(type, bytes, out, ir::block_elements(type))) << ir::name(type);
    }
}

TEST(Dequantize, refuses_what_is_not_whole_blocks_or_not_of_the_format) {
  std::byte block[64] = {};
  float out[64];
  EXPECT_THROW(dequantize(ir::DType::q4_0, block, out, 31), Error);
  EXPECT_THROW(dequantize(ir::DType::q4_0, block, out, -32), Error);
  EXPECT_THROW(dequantize(ir::DType::a8, block, out, 32), Error);
  EXPECT_NO_THROW(dequantize(ir::DType::q4_0, nullptr, nullptr, 0));
}

}  // namespace
}  // namespace quern::dtypes
