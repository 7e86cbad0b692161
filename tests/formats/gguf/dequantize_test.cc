#include "formats/gguf/dequantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "base/error.h"
#include "bytes.h"
#include "formats/gguf/detail/blocks.h"

namespace quern::gguf {
namespace {

using testing::data_path;
using testing::read_file;

constexpr ir::DType kTypes[] = {
#define X(number, name) ir::DType::name,
    QUERN_GGUF_TYPES(X)
#undef X
};

class Dequantize : public ::testing::TestWithParam<ir::DType> {};

TEST_P(Dequantize, gives_bit_for_bit_what_the_reference_gives) {
  const ir::DType type = GetParam();
  const std::vector<std::byte> file = read_file(data_path("dequantize/" + std::string(ir::name(type)) + ".bin"));
  ASSERT_GT(file.size(), 4u) << "no data for this type: run make_dequantize.py";
  const auto blocks = static_cast<std::int64_t>(detail::load<std::uint32_t>(file.data()));
  const std::int64_t elements = blocks * ir::block_elements(type), bytes = blocks * ir::block_bytes(type);
  ASSERT_EQ(file.size(), static_cast<std::size_t>(4 + bytes + 4 * elements));

  std::vector<float> got(static_cast<std::size_t>(elements) + 1, 12345.0f);
  dequantize(type, file.data() + 4, got.data(), elements);  // at an address that is not aligned for u64
  EXPECT_EQ(got.back(), 12345.0f) << "wrote past the end";
  for (std::int64_t i = 0; i < elements; ++i) {
    const auto expected = detail::load<float>(file.data() + 4 + bytes + 4 * i);
    const float value = got[static_cast<std::size_t>(i)];
    if (std::isnan(expected) && std::isnan(value)) continue;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(value), std::bit_cast<std::uint32_t>(expected))
        << "element " << i << ": " << value << ", expected " << expected;
  }
}

INSTANTIATE_TEST_SUITE_P(EveryType, Dequantize, ::testing::ValuesIn(kTypes),
                         [](const auto& info) { return std::string(ir::name(info.param)); });

TEST(Dequantize, knows_every_block_type_of_the_ir){
#define X(name, elements, bytes) EXPECT_TRUE(elements == 1 || ir::DType::name == ir::DType::a8 || gguf_type(ir::DType::name)) << #name;
    QUERN_DTYPES(X)
#undef X
}

TEST(Dequantize, maps_type_numbers_both_ways) {
  for (ir::DType type : kTypes) EXPECT_EQ(dtype_from_gguf(gguf_type(type).value()), type);
  EXPECT_EQ(dtype_from_gguf(0), ir::DType::f32);
  EXPECT_EQ(dtype_from_gguf(12), ir::DType::q4_K);
  EXPECT_EQ(dtype_from_gguf(30), ir::DType::bf16);
  EXPECT_EQ(dtype_from_gguf(4), std::nullopt);
  EXPECT_EQ(dtype_from_gguf(0xffffffffu), std::nullopt);
  EXPECT_EQ(gguf_type(ir::DType::u8), std::nullopt);
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
}  // namespace quern::gguf
