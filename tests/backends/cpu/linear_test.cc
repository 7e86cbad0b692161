#include "backends/cpu/kernels/linear/linear.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "backends/cpu/kernels/linear/block.h"
#include "base/float16.h"
#include "dtypes/a8.h"
#include "dtypes/dequantize.h"

namespace quern::cpu {
namespace {

using ir::DType;

constexpr DType kIntegerTypes[] = {DType::q4_0,  DType::q4_1,    DType::q5_0,  DType::q5_1,  DType::q8_0,    DType::q2_K,
                                   DType::q3_K,  DType::q4_K,    DType::q5_K,  DType::q6_K,  DType::iq4_nl,  DType::iq4_xs,
                                   DType::mxfp4, DType::nvfp4,   DType::iq1_s, DType::iq1_m, DType::iq2_xxs, DType::iq2_xs,
                                   DType::iq2_s, DType::iq3_xxs, DType::iq3_s, DType::tq1_0, DType::tq2_0};
constexpr DType kFloatTypes[] = {DType::f32, DType::f16, DType::bf16, DType::q4_1, DType::q8_0, DType::iq2_xs};

/// Where a block's f16 numbers lie; none in formats whose scales are other floats.
std::vector<std::size_t> halves_of(DType type) {
  switch (type) {
    case DType::q4_1:
    case DType::q5_1:
    case DType::q4_K:
    case DType::q5_K: return {0, 2};
    case DType::q2_K: return {80, 82};
    case DType::q3_K: return {108};
    case DType::q6_K: return {208};
    case DType::tq1_0: return {52};
    case DType::tq2_0: return {64};
    case DType::iq1_m:  // in pieces: see random_weights
    case DType::mxfp4:
    case DType::nvfp4: return {};
    default: return {0};
  }
}

std::vector<const LinearLoops*> loops_of_this_machine() {
  std::vector<const LinearLoops*> result;
  for (const LinearLoops& loops : all_linear_loops())
    if (has_isa(loops.isa)) result.push_back(&loops);
  return result;
}

std::int64_t row_bytes(DType type, std::int64_t k) { return k / ir::block_elements(type) * ir::block_bytes(type); }

/// Random rows of a type; scales (and minimums) of block formats are sane halves.
std::vector<std::byte> random_weights(DType type, std::int64_t n, std::int64_t k, std::mt19937& random) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(n * row_bytes(type, k)));
  std::uniform_real_distribution<float> value(-1, 1);
  const auto put_half = [&](std::size_t at) {
    const std::uint16_t half = f32_to_f16(0.05f * value(random));
    std::memcpy(&bytes[at], &half, 2);
  };
  const auto block = static_cast<std::size_t>(ir::block_bytes(type));
  for (std::size_t at = 0; at < bytes.size(); at += block) {
    if (type == DType::f32) {
      const float f = value(random);
      std::memcpy(&bytes[at], &f, 4);
    } else if (type == DType::f16 || type == DType::bf16) {
      const std::uint16_t h = type == DType::f16 ? f32_to_f16(value(random)) : f32_to_bf16(value(random));
      std::memcpy(&bytes[at], &h, 2);
    } else {
      for (std::size_t i = 0; i < block; ++i) bytes[at + i] = static_cast<std::byte>(random());
      for (const std::size_t offset : halves_of(type)) put_half(at + offset);
      if (type == DType::mxfp4) bytes[at] = static_cast<std::byte>(118 + random() % 8);
      if (type == DType::iq1_m)  // the sign and upper exponent of its half: 1/256 to 1
        bytes[at + 55] = (bytes[at + 55] & std::byte{15}) | std::byte{0x20};
      if (type == DType::nvfp4)
        for (std::size_t i = 0; i < 4; ++i) bytes[at + i] = static_cast<std::byte>(random() % 0x78);
    }
  }
  return bytes;
}

std::vector<float> random_floats(std::int64_t count, std::mt19937& random) {
  std::normal_distribution<float> value(0.1f, 1.0f);
  std::vector<float> x(static_cast<std::size_t>(count));
  for (float& f : x) f = value(random);
  return x;
}

std::vector<std::byte> quantized(const std::vector<float>& x) {
  std::vector<std::byte> y(x.size() / 32 * sizeof(dtypes::A8Block));
  dtypes::quantize_a8(x.data(), y.data(), static_cast<std::int64_t>(x.size() / 32));
  return y;
}

PackedWeights pack(DType type, const std::vector<std::byte>& bytes, std::int64_t n, std::int64_t k, bool integer) {
  PackedWeights w = PackedWeights::reserve(integer ? DType::a8 : DType::f32, type, n, k);
  const std::int64_t middle = w.tiles() / 2;
  w.pack_tiles(bytes.data(), middle, w.tiles());
  w.pack_tiles(bytes.data(), 0, middle);
  return w;
}

/// The whole product, units in pieces of `step`.
std::vector<float> product(const LinearLoops& loops, const PackedWeights& w, const std::byte* x, std::int64_t m,
                           std::int64_t step = 1 << 30) {
  std::vector<float> y(static_cast<std::size_t>(m * w.n()), -77.0f);
  std::vector<std::byte> memory(static_cast<std::size_t>(linear_scratch_bytes(w) + 64), std::byte{0xff});
  std::byte* scratch = memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64) % 64;
  const std::int64_t units = linear_units({&w, 1}, m).count();
  float* const outputs[] = {y.data()};
  for (std::int64_t u = 0; u < units; u += step) linear_run(loops, {&w, 1}, x, m, outputs, u, std::min(units, u + step), scratch);
  return y;
}

struct Difference {
  std::string worst;
  double share = 0;  // of the tolerance
};

/// Compares with sums in f64 over the dequantised operands. Tolerance: (terms + 2) roundings of the sum of absolute values.
Difference compare(const std::vector<float>& y, const std::vector<float>& x, const std::vector<float>& w, std::int64_t m, std::int64_t n,
                   std::int64_t k, std::int64_t terms) {
  Difference result;
  for (std::int64_t r = 0; r < m; ++r)
    for (std::int64_t c = 0; c < n; ++c) {
      double sum = 0, size = 0;
      for (std::int64_t i = 0; i < k; ++i) {
        const double product = double(x[static_cast<std::size_t>(r * k + i)]) * w[static_cast<std::size_t>(c * k + i)];
        sum += product;
        size += std::abs(product);
      }
      const double tolerance = double(terms + 2) * 0x1p-24 * size * 2 + 1e-30;
      const double share = std::abs(y[static_cast<std::size_t>(r * n + c)] - sum) / tolerance;
      if (!(share <= result.share)) result = {"row " + std::to_string(r) + " column " + std::to_string(c), share};
    }
  return result;
}

TEST(Linear, packing_keeps_the_value_of_every_weight) {
  std::mt19937 random(1);
  for (const bool integer : {true, false})
    for (const DType type : integer ? std::vector<DType>(std::begin(kIntegerTypes), std::end(kIntegerTypes))
                                    : std::vector<DType>(std::begin(kFloatTypes), std::end(kFloatTypes)))
      for (const std::int64_t n : {1, 16, 37}) {
        const std::int64_t k = 512;
        const auto bytes = random_weights(type, n, k, random);
        const PackedWeights w = pack(type, bytes, n, k, integer);
        std::vector<float> expected(k), actual(k);
        for (std::int64_t row = 0; row < n; ++row) {
          dtypes::dequantize(type, bytes.data() + row * row_bytes(type, k), expected.data(), k);
          w.unpack_row(row, actual.data());
          ASSERT_EQ(std::memcmp(expected.data(), actual.data(), k * sizeof(float)), 0) << ir::name(type) << " row " << row;
        }
      }
}

TEST(Linear, packing_is_no_larger_than_the_file_but_for_formats_whose_small_scales_are_widened) {
  for (const DType type : kIntegerTypes) {
    const std::int64_t k = 1024, n = 32, packed = PackedWeights::reserve(DType::a8, type, n, k).bytes(), file = n * row_bytes(type, k);
    const bool looked_up = (type >= DType::iq2_xxs && type <= DType::iq1_m) || type == DType::tq1_0 || type == DType::tq2_0;
    EXPECT_LE(packed, looked_up               ? n * k * 35 / 64  // 4.375 bits: levels instead of places in grids
                      : type == DType::nvfp4  ? file * 10 / 9
                      : type == DType::iq4_xs ? file * 103 / 100
                                              : file)
        << ir::name(type);
  }
}

TEST(Linear, integer_products_equal_the_f64_reference_on_every_instruction_set) {
  std::mt19937 random(2);
  for (const DType type : kIntegerTypes)
    for (const auto& [n, k] :
         {std::pair<std::int64_t, std::int64_t>{1, 32}, {15, 64}, {16, 576}, {17, 96}, {192, 576}, {65, 1536}, {33, 256}}) {
      if (!PackedWeights::can_pack(DType::a8, type, k)) continue;
      const auto bytes = random_weights(type, n, k, random);
      const PackedWeights w = pack(type, bytes, n, k, true);
      std::vector<float> weights(static_cast<std::size_t>(n * k));
      dtypes::dequantize(type, bytes.data(), weights.data(), n * k);
      const std::int64_t most = 64;
      const auto x = quantized(random_floats(most * k, random));
      std::vector<float> values(static_cast<std::size_t>(most * k));
      dtypes::dequantize_a8(x.data(), values.data(), most * k / 32);
      for (const std::int64_t m : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 20, 33, 64})
        for (const LinearLoops* loops : loops_of_this_machine()) {
          if (m != 64 && m * n * k > 2000000) continue;
          // A block adds four terms at most; its own dot product is exact, but its parts may cancel: 32 more.
          const Difference d = compare(product(*loops, w, x.data(), m), values, weights, m, n, k, 4 * k / 32 + 32);
          ASSERT_LE(d.share, 1) << ir::name(type) << " " << loops->name << " m " << m << " n " << n << " k " << k << " " << d.worst;
        }
    }
}

TEST(Linear, float_products_equal_the_f64_reference_on_every_instruction_set) {
  std::mt19937 random(3);
  for (const DType type : kFloatTypes)
    for (const auto& [n, k] : {std::pair<std::int64_t, std::int64_t>{1, 256}, {17, 256}, {100, 768}}) {
      const auto bytes = random_weights(type, n, k, random);
      const PackedWeights w = pack(type, bytes, n, k, false);
      std::vector<float> weights(static_cast<std::size_t>(n * k));
      dtypes::dequantize(type, bytes.data(), weights.data(), n * k);
      const auto x = random_floats(33 * k, random);
      for (const std::int64_t m : {1, 2, 5, 6, 8, 16, 33})
        for (const LinearLoops* loops : loops_of_this_machine()) {
          const Difference d = compare(product(*loops, w, reinterpret_cast<const std::byte*>(x.data()), m), x, weights, m, n, k, k);
          ASSERT_LE(d.share, 1) << ir::name(type) << " " << loops->name << " m " << m << " n " << n << " " << d.worst;
        }
    }
}

TEST(Linear, a_row_has_the_same_bits_whatever_rows_and_units_share_the_work) {
  std::mt19937 random(4);
  for (const bool integer : {true, false})
    for (const DType type : kIntegerTypes)
      for (const LinearLoops* loops : loops_of_this_machine()) {
        const std::int64_t n = 83, k = 256, most = 67;
        const auto bytes = random_weights(type, n, k, random);
        const PackedWeights w = pack(type, bytes, n, k, integer);
        const auto floats = random_floats(most * k, random);
        const auto x = integer ? quantized(floats)
                               : std::vector<std::byte>(reinterpret_cast<const std::byte*>(floats.data()),
                                                        reinterpret_cast<const std::byte*>(floats.data() + floats.size()));
        const std::int64_t stride = static_cast<std::int64_t>(x.size()) / most;
        const auto all = product(*loops, w, x.data(), most);
        for (std::int64_t first = 0; first < most; first += 5)
          for (const std::int64_t m : {1, 2, 3, 4, 7, 8, 13, 16, 17, 31, 48}) {
            if (first + m > most) continue;
            for (const std::int64_t step : {1, 4, 1000}) {
              const auto part = product(*loops, w, x.data() + first * stride, m, step);
              ASSERT_EQ(std::memcmp(part.data(), &all[static_cast<std::size_t>(first * n)], part.size() * sizeof(float)), 0)
                  << ir::name(type) << " " << loops->name << " rows " << first << " + " << m << " units in " << step;
            }
          }
      }
}

TEST(Linear, many_rows_in_several_blocks_have_the_bits_of_one_row) {
  std::mt19937 random(5);
  const std::int64_t n = 20, k = 1536, m = 601;
  const auto bytes = random_weights(DType::q4_1, n, k, random);
  const PackedWeights w = pack(DType::q4_1, bytes, n, k, true);
  ASSERT_GT(linear_units({&w, 1}, m).row_blocks, 1);
  const auto x = quantized(random_floats(m * k, random));
  for (const LinearLoops* loops : loops_of_this_machine()) {
    const auto all = product(*loops, w, x.data(), m, 3);
    for (std::int64_t r = 0; r < m; r += 7) {
      const auto one = product(*loops, w, x.data() + r * (k / 32) * kA8Bytes, 1);
      ASSERT_EQ(std::memcmp(one.data(), &all[static_cast<std::size_t>(r * n)], one.size() * sizeof(float)), 0)
          << loops->name << " row " << r;
    }
  }
}

TEST(Linear, bf16_products_equal_the_f64_reference_and_have_the_same_bits_whatever_rows_share_the_work) {
  std::mt19937 random(12);
  for (const auto& [n, k] : {std::pair<std::int64_t, std::int64_t>{1, 32}, {17, 96}, {100, 1056}, {48, 512}}) {
    if (!PackedWeights::can_pack(DType::bf16, DType::bf16, k)) GTEST_SKIP() << "this machine multiplies no bf16";
    const std::int64_t most = 70;
    const auto bytes = random_weights(DType::bf16, n, k, random);
    PackedWeights w = PackedWeights::reserve(DType::bf16, DType::bf16, n, k);
    w.pack_tiles(bytes.data(), 0, w.tiles());
    std::vector<float> weights(static_cast<std::size_t>(n * k)), unpacked(static_cast<std::size_t>(k)), x = random_floats(most * k, random);
    dtypes::dequantize(DType::bf16, bytes.data(), weights.data(), n * k);
    w.unpack_row(n - 1, unpacked.data());
    ASSERT_EQ(std::memcmp(unpacked.data(), &weights[static_cast<std::size_t>((n - 1) * k)], unpacked.size() * sizeof(float)), 0);
    std::vector<std::uint16_t> halves(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) halves[i] = f32_to_bf16(x[i]), x[i] = bf16_to_f32(halves[i]);
    const auto at = [&](std::int64_t row) { return reinterpret_cast<const std::byte*>(halves.data() + row * k); };
    for (const LinearLoops* loops : loops_of_this_machine()) {
      if (loops->bf16 == nullptr) continue;
      const auto all = product(*loops, w, at(0), most);
      const Difference d = compare(all, x, weights, most, n, k, k);
      ASSERT_LE(d.share, 1) << loops->name << " n " << n << " k " << k << " " << d.worst;
      for (const std::int64_t m : {1, 2, 3, 4, 5, 8, 15, 16, 17, 31, 32, 33, 48, 63})
        for (const std::int64_t first : {0, 3, 7}) {
          const auto part = product(*loops, w, at(first), m, 2);
          ASSERT_EQ(std::memcmp(part.data(), &all[static_cast<std::size_t>(first * n)], part.size() * sizeof(float)), 0)
              << loops->name << " n " << n << " k " << k << " rows " << first << " + " << m;
        }
    }
  }
}

TEST(Linear, several_weights_at_once_give_the_bits_of_each_alone) {
  std::mt19937 random(11);
  const std::int64_t k = 256, m = 37;
  const auto x = quantized(random_floats(m * k, random));
  std::vector<PackedWeights> weights;
  for (const auto& [type, n] : {std::pair<DType, std::int64_t>{DType::q4_K, 50}, {DType::q6_K, 7}, {DType::q8_0, 33}})
    weights.push_back(pack(type, random_weights(type, n, k, random), n, k, true));
  std::vector<std::byte> memory(static_cast<std::size_t>(linear_scratch_bytes(weights[0]) + 64));
  std::byte* scratch = memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64) % 64;
  for (const LinearLoops* loops : loops_of_this_machine())
    for (const std::int64_t step : {1, 3, 1000}) {
      std::vector<std::vector<float>> y;
      std::vector<float*> outputs;
      for (const PackedWeights& w : weights) y.emplace_back(static_cast<std::size_t>(m * w.n()), -1.0f);
      for (std::vector<float>& values : y) outputs.push_back(values.data());
      const std::int64_t units = linear_units(weights, m).count();
      for (std::int64_t u = 0; u < units; u += step)
        linear_run(*loops, weights, x.data(), m, outputs.data(), u, std::min(units, u + step), scratch);
      for (std::size_t i = 0; i < weights.size(); ++i)
        EXPECT_EQ(y[i], product(*loops, weights[i], x.data(), m)) << loops->name << " " << i << " units in " << step;
    }
}

/// What job.h says that loops with fused multiply-adds compute.
std::vector<float> by_definition(const PackedWeights& w, const std::byte* x, std::int64_t m) {
  const Format& format = kFormats[int(w.packing())];
  const std::int64_t group_bytes = format.header + format.blocks * kQuantBytes[int(format.bits)], blocks = w.k() / kBlockColumns;
  const int columns = kBlockColumns / format.parts;
  std::vector<float> y(static_cast<std::size_t>(m * w.n()));
  for (std::int64_t b = 0; b < blocks; ++b)
    for (std::int64_t tile = 0; tile < w.tiles(); ++tile) {
      UnpackedBlock block;
      unpack_block(format, w.data() + tile * w.tile_bytes() + b / format.blocks * group_bytes, static_cast<int>(b % format.blocks), block);
      for (std::int64_t r = 0; r < m; ++r) {
        dtypes::A8Block a;
        std::memcpy(&a, x + (r * blocks + b) * kA8Bytes, sizeof a);
        for (std::int64_t n = 0; n < std::min<std::int64_t>(kTileRows, w.n() - tile * kTileRows); ++n)
          for (int part = 0; part < format.parts; ++part) {
            int dot = 0;
            for (int i = part * columns; i < (part + 1) * columns; ++i) dot += (int{a.q[i]} - a.z[0]) * block.q[i][n];
            float& s = y[static_cast<std::size_t>(r * w.n() + tile * kTileRows + n)];
            if (format.minimum)
              s = std::fma(block.minimum[part][n], format.parts == 1 ? a.sum : part == 0 ? a.low_sum : a.sum - a.low_sum, s);
            s = std::fma(a.scale * static_cast<float>(dot), block.scale[part][n], s);
          }
      }
    }
  return y;
}

TEST(Linear, instruction_sets_with_fma_agree_to_the_bit) {
  std::mt19937 random(6);
  const std::int64_t n = 40, k = 768, most = 19;
  for (const DType type : kIntegerTypes) {
    const auto bytes = random_weights(type, n, k, random);
    const PackedWeights w = pack(type, bytes, n, k, true);
    const auto x = quantized(random_floats(most * k, random));
    const auto expected = by_definition(w, x.data(), most);
    for (const LinearLoops* loops : loops_of_this_machine()) {
      if (loops->isa == Isa::baseline) continue;
      for (const std::int64_t m : {std::int64_t{1}, most}) {
        const auto y = product(*loops, w, x.data(), m);
        ASSERT_EQ(std::memcmp(y.data(), expected.data(), y.size() * sizeof(float)), 0)
            << ir::name(type) << " " << loops->name << " m " << m;
      }
    }
  }
}

TEST(Linear, largest_quants_do_not_saturate) {
  const std::int64_t k = 256;
  for (const DType type : kIntegerTypes)
    for (const int fill : {0x00, 0x80, 0x7f, 0xff}) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(16 * row_bytes(type, k)), static_cast<std::byte>(fill));
      const std::uint16_t one = f32_to_f16(1.0f);
      for (std::size_t at = 0; at < bytes.size(); at += static_cast<std::size_t>(ir::block_bytes(type))) {
        for (const std::size_t offset : halves_of(type)) std::memcpy(&bytes[at + offset], &one, 2);
        if (type == DType::iq1_m) bytes[at + 55] = std::byte{0x30};
        if (type == DType::mxfp4) bytes[at] = std::byte{127};
        if (type == DType::nvfp4) std::memset(&bytes[at], 0x40, 4);
      }
      const PackedWeights w = pack(type, bytes, 16, k, true);
      std::vector<float> weights(static_cast<std::size_t>(16 * k));
      dtypes::dequantize(type, bytes.data(), weights.data(), 16 * k);
      for (const float value : {254.0f, -254.0f, 0.0f}) {
        const std::int64_t m = 33;
        std::vector<float> x(static_cast<std::size_t>(m * k), value);
        x[0] = -value;
        const auto a8 = quantized(x);
        std::vector<float> values(x.size());
        dtypes::dequantize_a8(a8.data(), values.data(), m * k / 32);
        for (const LinearLoops* loops : loops_of_this_machine()) {
          const Difference d = compare(product(*loops, w, a8.data(), m), values, weights, m, 16, k, 4 * k / 32 + 32);
          ASSERT_LE(d.share, 1) << ir::name(type) << " " << loops->name << " fill " << fill << " x " << value << " " << d.worst;
        }
      }
    }
}

TEST(Linear, infinite_and_nan_scales_spread_to_their_own_column_only) {
  std::mt19937 random(7);
  const std::int64_t n = 18, k = 256, m = 17;
  for (const DType type : kIntegerTypes) {
    if (halves_of(type).empty()) continue;  // their scales have no infinities
    auto bytes = random_weights(type, n, k, random);
    const std::uint16_t infinity = 0x7c00, nan = 0x7e00;
    std::memcpy(&bytes[static_cast<std::size_t>(3 * row_bytes(type, k)) + halves_of(type)[0]], &infinity, 2);
    std::memcpy(&bytes[static_cast<std::size_t>(17 * row_bytes(type, k)) + halves_of(type)[0]], &nan, 2);
    const PackedWeights w = pack(type, bytes, n, k, true);
    const auto x = quantized(random_floats(m * k, random));
    for (const LinearLoops* loops : loops_of_this_machine()) {
      const auto y = product(*loops, w, x.data(), m);
      for (std::int64_t r = 0; r < m; ++r)
        for (std::int64_t c = 0; c < n; ++c)
          ASSERT_EQ(std::isfinite(y[static_cast<std::size_t>(r * n + c)]), c != 3 && c != 17)
              << ir::name(type) << " " << loops->name << " column " << c;
    }
  }
}

TEST(Linear, a_fault_in_a_row_of_activations_stays_in_that_row) {
  std::mt19937 random(8);
  const std::int64_t n = 16, k = 64, m = 20;
  const auto bytes = random_weights(DType::q4_1, n, k, random);
  const PackedWeights w = pack(DType::q4_1, bytes, n, k, true);
  auto floats = random_floats(m * k, random);
  floats[static_cast<std::size_t>(5 * k + 40)] = std::numeric_limits<float>::infinity();
  floats[static_cast<std::size_t>(7 * k + 3)] = std::numeric_limits<float>::quiet_NaN();
  const auto x = quantized(floats);
  for (const LinearLoops* loops : loops_of_this_machine()) {
    const auto y = product(*loops, w, x.data(), m);
    for (std::int64_t r = 0; r < m; ++r)
      ASSERT_EQ(std::isnan(y[static_cast<std::size_t>(r * n)]), r == 5 || r == 7) << loops->name << " row " << r;
  }
}

TEST(Linear, weights_packed_tile_by_tile_when_used_give_the_same_bits) {
  std::mt19937 random(12);
  for (const bool integer : {true, false})
    for (const DType type : {DType::q4_1, DType::q6_K, DType::q8_0, DType::nvfp4, DType::f16, DType::f32}) {
      const std::int64_t n = 61, k = 512;
      const DType x_type = integer ? DType::a8 : DType::f32;
      if (!PackedWeights::can_pack(x_type, type, k)) continue;
      const auto bytes = random_weights(type, n, k, random);
      const PackedWeights packed = pack(type, bytes, n, k, integer), unpacked = PackedWeights::unpacked(x_type, type, n, k, bytes.data());
      for (const std::int64_t m : {1, 3, 20}) {
        const auto x = random_floats(m * k, random);
        const auto a8 = quantized(x);
        const std::byte* in = integer ? a8.data() : reinterpret_cast<const std::byte*>(x.data());
        for (const LinearLoops* loops : loops_of_this_machine())
          for (const std::int64_t step : {1, 3, 1 << 30})
            EXPECT_EQ(product(*loops, packed, in, m), product(*loops, unpacked, in, m, step)) << loops->name << " " << ir::name(type);
      }
    }
}

void expect_same_quants(const std::vector<float>& x) {
  const auto expected = quantized(x);
  for (const LinearLoops* loops : loops_of_this_machine()) {
    std::vector<std::byte> y(expected.size());
    loops->quantize_a8(x.data(), reinterpret_cast<std::uint8_t*>(y.data()), static_cast<std::int64_t>(x.size() / 32));
    for (std::size_t b = 0; b < x.size() / 32; ++b)
      ASSERT_EQ(std::memcmp(&expected[b * 48], &y[b * 48], 48), 0) << loops->name << " block " << b;
  }
}

TEST(QuantizeActivations, every_instruction_set_gives_the_same_bits) {
  std::mt19937 random(9);
  std::vector<float> x = random_floats(32 * 4003, random);
  for (std::size_t i = 0; i < x.size(); ++i) {  // loops take several ordinary blocks at a time
    if (i / 32 % 5 == 1) x[i] = static_cast<float>(static_cast<int>(random() % 509) - 254) / 2;  // ties
    if (i / 32 % 5 == 2) x[i] = std::abs(x[i]);
    if (i / 32 % 5 == 3) x[i] = -std::abs(x[i]) * 1e30f;
  }
  expect_same_quants(x);
  const float special[] = {0.0f, -0.0f, 1e-38f, -1e-40f, 3e38f, -3e38f, INFINITY, -INFINITY, NAN, 1.0f, 1e-30f};
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (i / 32 % 10 == 3) x[i] = special[random() % 11];
    if (i / 32 % 10 == 4) x[i] = special[random() % 6];
    if (i / 32 % 10 == 5) x[i] = std::abs(x[i]) * 1e-35f;
    if (i / 32 % 10 == 8) x[i] = 0;
  }
  expect_same_quants(x);
}

TEST(QuantizeActivations, no_value_is_off_by_more_than_half_a_step) {
  std::mt19937 random(10);
  auto x = random_floats(32 * 3000, random);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (i / 32 % 3 == 1) x[i] = std::abs(x[i]);
    if (i / 32 % 3 == 2) x[i] *= 1e20f;
  }
  const auto y = quantized(x);
  std::vector<float> back(x.size());
  dtypes::dequantize_a8(y.data(), back.data(), static_cast<std::int64_t>(x.size() / 32));
  for (std::size_t b = 0; b < x.size(); b += 32) {
    float low = 0, high = 0;
    for (std::size_t i = b; i < b + 32; ++i) low = std::min(low, x[i]), high = std::max(high, x[i]);
    for (std::size_t i = b; i < b + 32; ++i) ASSERT_LE(std::abs(x[i] - back[i]), (high - low) / 508 * 1.0001f) << "element " << i;
  }
}

}  // namespace
}  // namespace quern::cpu
