// The op linear_glu: its bits are those of the products and the glu alone, which tests of their own compare with the reference.
#include <gtest/gtest.h>

#include "base/float16.h"
#include "dtypes/a8.h"
#include "kernel_case.h"
#include "ops/registry.h"

namespace quern::cpu::test {
namespace {

using ir::DType;

/// x [m, k] in the type that products take it.
Operand activations(DType dtype, std::int64_t m, std::int64_t k, std::mt19937& random) {
  Operand x = floats({m, k}, random);
  if (dtype == DType::f32) return x;
  const std::vector<float> values = as_floats(x.bytes);
  x.dtype = dtype;
  x.bytes.resize(values.size() / static_cast<std::size_t>(ir::block_elements(dtype)) * static_cast<std::size_t>(ir::block_bytes(dtype)));
  if (dtype == DType::a8)
    dtypes::quantize_a8(values.data(), x.bytes.data(), static_cast<std::int64_t>(values.size()) / 32);
  else
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::uint16_t shorter = f32_to_bf16(values[i]);
      std::memcpy(x.bytes.data() + 2 * i, &shorter, 2);
    }
  return x;
}

/// W [n, k] whose scales are finite: bytes below 64 make small halves.
Operand weights(DType dtype, std::int64_t n, std::int64_t k, std::mt19937& random) {
  if (dtype == DType::f32) return floats({n, k}, random, true);
  Operand w{{n, k}, {}, true, dtype};
  w.bytes.resize(static_cast<std::size_t>(n * k / ir::block_elements(dtype) * ir::block_bytes(dtype)));
  for (std::byte& b : w.bytes) b = static_cast<std::byte>(random() & 0x3f);
  return w;
}

void expect_bits_of_its_parts(DType x_type, DType w_type, std::int64_t m, std::int64_t n, std::int64_t k, DType y_type,
                              const char* activation) {
  std::mt19937 random(static_cast<unsigned>(m * 7 + n));
  const Operand x = activations(x_type, m, k, random), gate = weights(w_type, n, k, random), up = weights(w_type, n, k, random);
  const ir::Attributes attributes{{"activation", activation}, {"dtype", y_type}};
  const KernelCase fused(ops::linear_glu, {x, gate, up}, attributes);
  ASSERT_TRUE(fused.is_fast());
  const std::vector<float> products = as_floats(KernelCase(ops::linear, {x, gate, up}, {{"outputs", std::int64_t{2}}}).run());
  const auto half = products.begin() + m * n;
  const KernelCase glu(ops::glu, {floats_of({m, n}, {products.begin(), half}), floats_of({m, n}, {half, products.end()})}, attributes);
  const std::vector<std::byte> y = fused.run();
  EXPECT_TRUE(y == glu.run()) << ir::name(w_type) << " " << m << " x " << n << " x " << k;
  EXPECT_EQ(differs_by_pieces(fused, y), "") << ir::name(w_type) << " " << m << " x " << n << " x " << k;
}

TEST(LinearGlu, has_the_bits_of_its_products_and_their_glu) {
  for (const std::int64_t m : {1, 3, 40, 300})
    for (const std::int64_t n : {32, 96, 1056}) {
      expect_bits_of_its_parts(DType::a8, DType::q4_K, m, n, 256, DType::a8, "silu");
      expect_bits_of_its_parts(DType::a8, DType::q6_K, m, n, 256, DType::f32, "gelu_tanh");
    }
}

TEST(LinearGlu, takes_bf16_where_the_machine_multiplies_it) {
  std::mt19937 random(1);
  const KernelCase linear(ops::linear, {activations(DType::bf16, 1, 64, random), weights(DType::bf16, 32, 64, random)});
  if (!linear.is_fast()) GTEST_SKIP() << "no products of bf16 here";
  for (const std::int64_t m : {1, 17, 300}) expect_bits_of_its_parts(DType::bf16, DType::bf16, m, 96, 64, DType::bf16, "silu");
}

TEST(LinearGlu, ends_inside_a_unit_where_nothing_is_quantised) {
  for (const std::int64_t n : {1, 9, 16, 33, 1041}) expect_bits_of_its_parts(DType::f32, DType::f32, 5, n, 40, DType::f32, "silu");
}

TEST(LinearGlu, equals_the_reference) {
  std::mt19937 random(3);
  const Operand x = floats({4, 24}, random), gate = floats({10, 24}, random, true), up = floats({10, 24}, random, true);
  const KernelCase node(ops::linear_glu, {x, gate, up}, {{"activation", "silu"}});
  // Of positive operands both products are as large as their roundings can grow; the slope of silu is at most 1.1.
  const std::vector<float> sizes = as_floats(KernelCase(ops::linear_glu, magnitudes({x, gate, up}), {{"activation", "silu"}}).reference());
  EXPECT_EQ(differs(node, sizes, 3 * 26 * 0x1p-23), "");
}

}  // namespace
}  // namespace quern::cpu::test
