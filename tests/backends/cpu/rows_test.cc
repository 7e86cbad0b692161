// Kernels over rows and elements of f32: rms_norm, glu, add.
#include <gtest/gtest.h>

#include <limits>

#include "dtypes/a8.h"
#include "kernel_case.h"
#include "ops/registry.h"

namespace quern::cpu::test {
namespace {

constexpr double kEpsilon = 0x1p-24;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
using Sizes = std::vector<std::int64_t>;

const Sizes kWidths = {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 127, 130, 576, 1000, 1025, 4099};

TEST(RmsNorm, equals_the_reference_at_every_width) {
  std::mt19937 random(1);
  for (const std::int64_t n : kWidths)
    for (const Sizes& rows : {Sizes{}, Sizes{1}, Sizes{5}, Sizes{2, 3}}) {
      Sizes dims = rows;
      dims.push_back(n);
      const KernelCase node(ops::rms_norm, {floats(dims, random), floats({n}, random, true, 0.5f, 1.5f)}, {{"epsilon", 1e-5}});
      // The sum of n squares is exact to n roundings, of which the square root halves the relative error; then four roundings.
      EXPECT_EQ(differs(node, as_floats(node.reference()), (double(n) / 2 + 4) * kEpsilon), "") << n;
    }
}

TEST(RmsNorm, a_row_of_zeros_stays_zero_and_NaN_fills_its_row_alone) {
  std::vector<float> x(3 * 20, 0.5f);
  std::fill_n(x.begin(), 20, 0.0f);
  x[25] = std::nanf("");
  const KernelCase node(ops::rms_norm, {floats_of({3, 20}, x), floats_of({20}, std::vector<float>(20, 2.0f))});
  const std::vector<float> y = as_floats(node.run());
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(y[static_cast<std::size_t>(i)], 0.0f);
    EXPECT_TRUE(std::isnan(y[static_cast<std::size_t>(20 + i)]));
    EXPECT_NEAR(y[static_cast<std::size_t>(40 + i)], 2.0f, 1e-4);
  }
}

/// The bytes of a8 that the floats of `node` become.
std::vector<std::byte> quantized(const KernelCase& node) {
  const std::vector<float> floats = as_floats(node.run());
  std::vector<std::byte> bytes(floats.size() / 32 * sizeof(dtypes::A8Block));
  dtypes::quantize_a8(floats.data(), bytes.data(), static_cast<std::int64_t>(floats.size() / 32));
  return bytes;
}

TEST(RmsNorm, with_a_residual_norms_the_sum_and_gives_it) {
  std::mt19937 random(3);
  for (const std::int64_t n : kWidths) {
    const Operand x = floats({4, n}, random), residual = floats({4, n}, random), weight = floats({n}, random, true, 0.5f, 1.5f);
    std::vector<float> sum = as_floats(x.bytes);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += as_floats(residual.bytes)[i];
    const KernelCase fused(ops::rms_norm, {x, weight, residual}, {{"outputs", std::int64_t{2}}});
    const KernelCase alone(ops::rms_norm, {floats_of({4, n}, sum), weight});
    std::vector<float> expected = as_floats(alone.run());
    expected.insert(expected.end(), sum.begin(), sum.end());
    EXPECT_EQ(as_floats(fused.run()), expected) << n;
    EXPECT_EQ(differs(fused, as_floats(fused.reference()), (double(n) / 2 + 4) * kEpsilon), "") << n;
  }
}

TEST(RmsNorm, gives_a8_with_the_bits_of_quantising_its_floats) {
  std::mt19937 random(4);
  for (const std::int64_t n : {32, 576, 1024}) {
    const Operand x = floats({5, n}, random), weight = floats({n}, random, true);
    const KernelCase fused(ops::rms_norm, {x, weight}, {{"dtype", ir::DType::a8}});
    EXPECT_EQ(fused.run(), quantized(KernelCase(ops::rms_norm, {x, weight}))) << n;
    EXPECT_EQ(differs_by_pieces(fused, fused.run()), "") << n;
  }
}

TEST(Glu, gives_a8_with_the_bits_of_quantising_its_floats) {
  std::mt19937 random(5);
  for (const char* activation : {"silu", "gelu_tanh"})
    for (const std::int64_t n : {32, 1024, 1056, 4096}) {
      const Operand gate = floats({3, n}, random, false, -4, 4), up = floats({3, n}, random);
      const KernelCase fused(ops::glu, {gate, up}, {{"activation", activation}, {"dtype", ir::DType::a8}});
      EXPECT_EQ(fused.run(), quantized(KernelCase(ops::glu, {gate, up}, {{"activation", activation}}))) << n;
      EXPECT_EQ(differs_by_pieces(fused, fused.run()), "") << n;
    }
}

TEST(Glu, with_silu_equals_the_reference_at_every_size) {
  std::mt19937 random(2);
  for (const std::int64_t n : {1, 5, 16, 17, 1023, 1024, 1025, 2500}) {
    const KernelCase node(ops::glu, {floats({n}, random, false, -20, 20), floats({n}, random)});
    EXPECT_EQ(differs(node, as_floats(node.reference()), 6 * kEpsilon), "") << n;  // exp: 1 ulp; sum, quotient and product
  }
}

TEST(Glu, silu_of_gates_of_any_size_has_the_right_limits) {
  // exp(-gate) overflows below -88.7, and 1 / (1 + inf) is the 0 that belongs there.
  const std::vector<float> gates = {-88, -100, -104, -105,  -150, -200,  -1000,  -1e10f,    -3e38f,       88,
                                    104, 200,  1000, 3e38f, 0.0f, -0.0f, 1e-40f, kInfinity, std::nanf("")};
  const KernelCase node(ops::glu, {floats_of({static_cast<std::int64_t>(gates.size())}, gates),
                                   floats_of({static_cast<std::int64_t>(gates.size())}, std::vector<float>(gates.size(), 2.0f))});
  const std::vector<float> y = as_floats(node.run());
  for (std::size_t i = 0; i < gates.size(); ++i) {
    const double gate = gates[i], expected = gate / (1 + std::exp(-gate)) * 2;
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(y[i]));
    } else if (std::isinf(expected) || float(expected) == kInfinity) {
      EXPECT_EQ(y[i], kInfinity);
    } else {
      EXPECT_NEAR(y[i], expected, 6 * kEpsilon * std::abs(expected) + 1e-36) << "gate " << gate;
    }
  }
}

TEST(Glu, with_gelu_equals_the_reference_at_every_size) {
  std::mt19937 random(2);
  for (const std::int64_t n : {1, 5, 16, 17, 1023, 1024, 1025, 2500}) {
    const KernelCase node(ops::glu, {floats({n}, random, false, -4, 4), floats({n}, random)}, {{"activation", "gelu_tanh"}});
    // The exponent, at most 11 here, is off by 4 roundings of its size, which the exponential makes a relative error.
    EXPECT_EQ(differs(node, as_floats(node.reference()), (6 + 4 * 11) * kEpsilon), "") << n;
  }
}

TEST(Glu, gelu_of_gates_of_any_size_has_the_right_limits) {
  for (const float gate : {-3e38f, -1e13f, -1e5f, -200.0f, -20.0f, -0.0f, 0.0f, 20.0f, 200.0f, 1e5f, 1e13f, 3e38f, kInfinity}) {
    const KernelCase node(ops::glu, {floats_of({1}, {gate}), floats_of({1}, {1.0f})}, {{"activation", "gelu_tanh"}});
    EXPECT_EQ(as_floats(node.run())[0], gate < 0 ? 0.0f : gate) << gate;
  }
}

TEST(Add, has_the_references_bits) {
  std::mt19937 random(3);
  for (const Sizes& dims : {Sizes{1}, Sizes{7}, Sizes{3, 17}, Sizes{1024}, Sizes{5, 1000}, Sizes{}})
    EXPECT_EQ(differs_at_all(KernelCase(ops::add, {floats(dims, random), floats(dims, random)})), "");
}

/// Runs a kernel with output 0 in the place of input 0, as the plan does where it may, and every plain input at an odd address, as in a
/// file.
std::vector<float> run_in_place(const ir::Op& op, const std::vector<std::vector<float>>& inputs, const std::vector<Sizes>& dims,
                                ir::Attributes attributes) {
  ir::Graph graph;
  std::vector<ir::Value*> values;
  std::vector<std::vector<std::byte>> memory;
  std::vector<ir::TensorView> views(inputs.size());
  std::vector<const ir::TensorView*> pointers;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    values.push_back(graph.add_input("x" + std::to_string(i), {ir::DType::f32, ir::Shape(dims[i].begin(), dims[i].end())}));
    const std::size_t shift = i == 0 ? 0 : 1;
    memory.emplace_back(inputs[i].size() * 4 + shift);
    std::memcpy(memory.back().data() + shift, inputs[i].data(), inputs[i].size() * 4);
    views[i].data = memory.back().data() + shift;
    views[i].rank = static_cast<std::int64_t>(dims[i].size());
    std::copy(dims[i].begin(), dims[i].end(), views[i].dims);
    pointers.push_back(&views[i]);
  }
  pointers.push_back(&views[0]);
  const ir::Node* node = graph.append(op, values, std::move(attributes));
  CpuBackend backend;
  const auto kernel = backend.lower(*node);
  EXPECT_STRNE(kernel->name(), "reference");
  const ir::Call call{node, pointers.data(), pointers.data() + inputs.size()};
  kernel->run(call, 0, kernel->split(call).units, nullptr);
  return as_floats(memory[0]);
}

TEST(InPlace, an_output_in_the_place_of_the_first_input_and_operands_at_odd_addresses_change_nothing) {
  std::mt19937 random(4);
  for (const std::int64_t n : {5, 64, 130}) {
    const auto values = [&](std::int64_t count) { return as_floats(floats({count}, random).bytes); };
    const std::vector<float> x = values(3 * n), y = values(3 * n), w = values(n);
    const auto apart = [](const KernelCase& node) { return as_floats(node.run()); };
    EXPECT_EQ(run_in_place(ops::add, {x, y}, {{3, n}, {3, n}}, {}),
              apart(KernelCase(ops::add, {floats_of({3, n}, x), floats_of({3, n}, y)})));
    EXPECT_EQ(run_in_place(ops::glu, {x, y}, {{3, n}, {3, n}}, {}),
              apart(KernelCase(ops::glu, {floats_of({3, n}, x), floats_of({3, n}, y)})));
    EXPECT_EQ(run_in_place(ops::rms_norm, {x, w}, {{3, n}, {n}}, {}),
              apart(KernelCase(ops::rms_norm, {floats_of({3, n}, x), floats_of({n}, w)})));
  }
}

TEST(InPlace, rope_may_turn_a_tensor_where_it_lies) {
  std::mt19937 random(5);
  for (const std::int64_t interleaved : {0, 1}) {
    const std::vector<float> x = as_floats(floats({5 * 3 * 20}, random).bytes), table = as_floats(floats({5 * 2 * 8}, random).bytes);
    EXPECT_EQ(
        run_in_place(ops::rope, {x, table}, {{5, 3, 20}, {5, 2, 8}}, {{"interleaved", interleaved}}),
        as_floats(KernelCase(ops::rope, {floats_of({5, 3, 20}, x), floats_of({5, 2, 8}, table)}, {{"interleaved", interleaved}}).run()));
  }
}

}  // namespace
}  // namespace quern::cpu::test
