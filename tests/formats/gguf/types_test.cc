#include "formats/gguf/types.h"

#include <gtest/gtest.h>

namespace quern::gguf {

TEST(GgufTypes, maps_type_numbers_both_ways) {
#define X(number, name)                                \
  EXPECT_EQ(dtype_from_gguf(number), ir::DType::name); \
  EXPECT_EQ(gguf_type(ir::DType::name), number##u);
  QUERN_GGUF_TYPES(X)
#undef X
  EXPECT_EQ(dtype_from_gguf(4), std::nullopt);
  EXPECT_EQ(dtype_from_gguf(0xffffffffu), std::nullopt);
  EXPECT_EQ(gguf_type(ir::DType::u8), std::nullopt);
}

TEST(GgufTypes, knows_every_block_type_of_the_ir) {
#define X(name, elements, bytes) EXPECT_TRUE(elements == 1 || ir::DType::name == ir::DType::a8 || gguf_type(ir::DType::name)) << #name;
  QUERN_DTYPES(X)
#undef X
}

}  // namespace quern::gguf
