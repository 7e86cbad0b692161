// The kernel of paged_attention against the op's reference, and what promise 1 asks of it: a row's bits depend on its own keys alone. All
// of it twice, with products in f32 and in bf16 (which means f32 where there is no tile unit).
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "base/float16.h"
#include "kernel_case.h"
#include "ops/kv_layout.h"
#include "ops/registry.h"

namespace quern::cpu::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();

struct Row {
  std::int32_t sequence, position;
};

/// Sequences in a cache whose blocks lie in random order and are NaN wherever no key was written.
struct Cache {
  std::int64_t heads = 4, kv_heads = 2, dim = 32, block = 16;
  ir::DType dtype = ir::DType::f32;
  std::vector<std::int64_t> lengths = {40};
  std::int64_t window = 0;
  double softcap = 0;
  std::vector<float> sinks = {};
  ir::DType products = ir::DType::f32;
  std::int64_t gap = 0;  // bytes between the blocks of a cache, NaN in every type

  void fill(std::mt19937& random) {
    const auto sequences = static_cast<std::int64_t>(lengths.size());
    per_sequence = *std::max_element(lengths.begin(), lengths.end()) / block + 2;
    blocks = sequences * per_sequence + 1;
    table.resize(static_cast<std::size_t>(blocks));
    std::iota(table.begin(), table.end(), 0);
    std::shuffle(table.begin(), table.end(), random);
    table.resize(static_cast<std::size_t>(sequences * per_sequence));
    keys.assign(static_cast<std::size_t>(blocks * kv_heads * dim * block), kNan);
    values = keys;
    std::uniform_real_distribution<float> value(-1, 1);
    for (std::int32_t s = 0; s < sequences; ++s)
      for (std::int64_t p = 0; p < lengths[static_cast<std::size_t>(s)]; ++p)
        for (std::int64_t h = 0; h < kv_heads; ++h)
          for (std::int64_t i = 0; i < dim; ++i) {
            key_at(s, p, h, i) = rounded(value(random));
            value_at(s, p, h, i) = rounded(value(random));
          }
  }
  float& key_at(std::int32_t s, std::int64_t p, std::int64_t h, std::int64_t i) {
    return keys[((block_of(s, p) * kv_heads + h) * dim + i) * block + p % block];
  }
  float& value_at(std::int32_t s, std::int64_t p, std::int64_t h, std::int64_t i) {
    return values[((block_of(s, p) * kv_heads + h) * block + p % block) * dim + i];
  }

  /// The rows `rows` of queries `q` [all rows, heads, dim].
  KernelCase node(const std::vector<float>& q, const std::vector<Row>& all, std::size_t first, std::size_t count) const {
    const auto n = static_cast<std::int64_t>(count), width = heads * dim;
    std::vector<std::int32_t> sequence, position;
    for (std::size_t r = first; r < first + count; ++r) {
      sequence.push_back(all[r].sequence);
      position.push_back(all[r].position);
    }
    const auto from = q.begin() + static_cast<std::int64_t>(first) * width;
    std::vector<Operand> operands = {
        floats_of({n, heads, dim}, std::vector<float>(from, from + n * width)),       stored(keys, true),        stored(values, false),
        integers32({static_cast<std::int64_t>(lengths.size()), per_sequence}, table), integers32({n}, sequence), integers32({n}, position)};
    if (!sinks.empty()) operands.push_back(floats_of({heads}, sinks));
    return KernelCase(ops::paged_attention, std::move(operands),
                      {{"scale", scale()}, {"window", window}, {"softcap", softcap}, {"products", products}});
  }
  /// A number that products of bf16 take as it is.
  float rounded(float x) const { return products == ir::DType::bf16 ? bf16_to_f32(f32_to_bf16(x)) : x; }
  /// With products of bf16 such that queries stay numbers of bf16 when scaled (to units of log 2, or of the cap).
  double scale() const {
    const double usual = 1 / std::sqrt(double(dim));
    return products == ir::DType::f32 ? usual : std::exp2(std::floor(std::log2(usual))) * (softcap > 0 ? softcap : std::log(2.0));
  }
  /// For queries, keys and values of at most 1: a score is off by (dim + 2) roundings of a sum of magnitudes of at most dim * scale, a
  /// weight by as much twice (against the largest), and then come the sums over keys.
  /// In bf16 each weight is rounded once, 2^z is within 7e-6, and so are keys and values that are no numbers of bf16: those of block types,
  /// and the subnormal ones of f16. A cap's tanh is within 5e-6.
  double tolerance() const {
    const double longest = double(*std::max_element(lengths.begin(), lengths.end())), largest = double(dim) * scale();
    const double in_f32 = (2 * double(dim + 2) * largest + 2 * longest + 16) * 0x1p-24;
    if (products == ir::DType::f32) return in_f32;
    return in_f32 + 0x1p-9 + 4e-5 + 1e-5 * softcap + (ir::is_block(dtype) ? (2 * largest + 1) * 0x1p-9 : 0);
  }

  std::size_t block_of(std::int32_t s, std::int64_t p) const {
    return static_cast<std::size_t>(table[static_cast<std::size_t>(s * per_sequence + p / block)]);
  }
  static Operand integers32(std::vector<std::int64_t> dims, const std::vector<std::int32_t>& values) {
    return {std::move(dims), bytes_of(values), false, ir::DType::i32};
  }
  Operand stored(const std::vector<float>& values, bool transposed) const {
    const ops::KvLayout layout{dtype, block, dim, transposed};
    const std::int64_t stride = kv_heads * layout.bytes() + gap;
    std::vector<std::byte> bytes(static_cast<std::size_t>(blocks * stride), std::byte{0xff});
    std::vector<float> token(static_cast<std::size_t>(dim));
    for (std::int64_t piece = 0; piece < blocks * kv_heads; ++piece)
      for (std::int64_t t = 0; t < block; ++t) {
        for (std::int64_t i = 0; i < dim; ++i)
          token[static_cast<std::size_t>(i)] =
              values[static_cast<std::size_t>(piece * block * dim + (transposed ? i * block + t : t * dim + i))];
        layout.store(bytes.data() + piece / kv_heads * stride + piece % kv_heads * layout.bytes(), t, token.data());
      }
    std::vector<std::int64_t> dims = {blocks, kv_heads, block, dim};
    if (transposed && !ir::is_block(dtype)) std::swap(dims[2], dims[3]);
    return {std::move(dims), std::move(bytes), false, dtype, false, gap > 0 ? stride : 0};
  }

  std::int64_t per_sequence = 0, blocks = 0;
  std::vector<std::int32_t> table = {};
  std::vector<float> keys = {}, values = {};
};

std::vector<float> queries(const Cache& cache, std::size_t rows, std::mt19937& random) {
  std::vector<float> q = as_floats(floats({static_cast<std::int64_t>(rows), cache.heads, cache.dim}, random).bytes);
  for (float& x : q) x = cache.rounded(x);
  return q;
}

std::vector<Row> last_rows(std::int64_t length, std::int64_t count) {
  std::vector<Row> rows;
  for (std::int64_t p = std::max<std::int64_t>(0, length - count); p < length; ++p) rows.push_back({0, static_cast<std::int32_t>(p)});
  return rows;
}

/// Close to the reference; every row alone has the bits it has among the others.
void expect_good(const Cache& cache, const std::vector<Row>& rows, std::mt19937& random, const std::string& what) {
  const std::vector<float> q = queries(cache, rows.size(), random);
  const KernelCase together = cache.node(q, rows, 0, rows.size());
  const std::vector<float> all = as_floats(together.run());
  ASSERT_EQ(differs(together, std::vector<float>(all.size(), 1.0f), cache.tolerance()), "") << what;
  const auto width = cache.heads * cache.dim;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const std::vector<float> alone = as_floats(cache.node(q, rows, r, 1).run());
    const auto from = all.begin() + static_cast<std::int64_t>(r) * width;
    ASSERT_EQ(alone, std::vector<float>(from, from + width)) << what << ", row " << r << " at position " << rows[r].position;
  }
}

class Attention : public testing::TestWithParam<ir::DType> {
 protected:
  Cache with_products(Cache cache) const {
    cache.products = GetParam();
    return cache;
  }
};

INSTANTIATE_TEST_SUITE_P(Products, Attention, testing::Values(ir::DType::f32, ir::DType::bf16),
                         [](const auto& info) { return std::string(ir::name(info.param)); });

TEST_P(Attention, equals_the_reference_for_every_type_of_cache_head_size_and_sharing_of_heads) {
  std::mt19937 random(1);
  for (const ir::DType dtype : {ir::DType::f32, ir::DType::f16, ir::DType::bf16, ir::DType::q8_0, ir::DType::q4_1})
    for (const std::int64_t dim : {16, 32, 48, 64, 80, 96, 128, 256})
      for (const auto& [heads, kv_heads] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {4, 1}, {6, 2}, {3, 3}}) {
        if (dim % ir::block_elements(dtype) != 0) continue;
        Cache cache = with_products({.heads = heads, .kv_heads = kv_heads, .dim = dim, .dtype = dtype, .lengths = {70}});
        cache.fill(random);
        expect_good(
            cache, last_rows(70, 3), random,
            std::string(ir::name(dtype)) + " " + std::to_string(dim) + " " + std::to_string(heads) + "/" + std::to_string(kv_heads));
      }
}

TEST_P(Attention, equals_the_reference_at_the_borders_of_chunks_and_blocks) {
  std::mt19937 random(2);
  int turn = 0;
  for (const std::int64_t block : {16, 32, 64})
    for (const std::int64_t length : {1, 2, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 200}) {
      const ir::DType types[] = {ir::DType::f16, ir::DType::q8_0, ir::DType::q4_1};
      Cache cache = with_products({.block = block, .dtype = types[turn++ % 3], .lengths = {length}});
      cache.fill(random);
      for (const std::int64_t rows : {1, 3, 13})
        expect_good(cache, last_rows(length, rows), random, std::to_string(length) + " keys in blocks of " + std::to_string(block));
    }
}

TEST_P(Attention, rows_of_several_sequences_share_a_batch_in_any_order) {
  std::mt19937 random(3);
  for (int round = 0; round < 8; ++round) {
    Cache cache = with_products({.dtype = round % 2 == 0 ? ir::DType::f32 : ir::DType::f16, .lengths = {100, 1, 64, 65, 30, 140}});
    cache.fill(random);
    std::vector<Row> rows;
    for (int r = 0; r < 30; ++r) {
      const auto s = static_cast<std::int32_t>(random() % cache.lengths.size());
      auto position = static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(cache.lengths[static_cast<std::size_t>(s)]));
      const std::size_t run = 1 + random() % 5;  // mostly neighbours, as in a prompt
      for (std::size_t i = 0; i < run && position < cache.lengths[static_cast<std::size_t>(s)]; ++i) rows.push_back({s, position++});
    }
    expect_good(cache, rows, random, "round " + std::to_string(round));
  }
}

TEST_P(Attention, what_a_row_must_not_see_does_not_reach_it) {
  std::mt19937 random(4);
  for (const ir::DType dtype : {ir::DType::f32, ir::DType::f16, ir::DType::bf16, ir::DType::q8_0, ir::DType::q4_1})
    for (const float poison : {kNan, kInfinity, -kInfinity})
      for (const std::int32_t from : {1, 5, 62, 63, 64, 66}) {
        Cache cache = with_products({.dtype = dtype, .lengths = {72}});
        cache.fill(random);
        std::vector<Row> rows = last_rows(from, 5);
        const std::size_t clean = rows.size();
        const std::vector<float> q = queries(cache, clean + 4, random);
        const std::vector<std::byte> before = cache.node(q, rows, 0, clean).run();
        for (std::int32_t p = from; p < from + 4; ++p) {
          rows.push_back({0, p});
          for (std::int64_t h = 0; h < cache.kv_heads; ++h)
            for (std::int64_t i = 0; i < cache.dim; ++i) cache.value_at(0, p, h, i) = cache.key_at(0, p, h, i) = poison;
        }
        std::vector<std::byte> after = cache.node(q, rows, 0, rows.size()).run();
        after.resize(before.size());
        EXPECT_EQ(after, before) << ir::name(dtype) << " " << poison << " from " << from;
      }
}

TEST_P(Attention, a_NaN_among_the_keys_or_values_that_a_row_sees_shows) {
  std::mt19937 random(5);
  for (const bool in_keys : {false, true})
    for (const std::int32_t at : {0, 10, 40, 64, 69}) {
      const ir::DType dtype = GetParam() == ir::DType::f32 ? ir::DType::f32 : ir::DType::bf16;
      Cache cache = with_products({.heads = 2, .kv_heads = 1, .dtype = dtype, .lengths = {70}});
      cache.fill(random);
      (in_keys ? cache.key_at(0, at, 0, 3) : cache.value_at(0, at, 0, 3)) = kNan;
      const std::vector<Row> rows = last_rows(70, 1);
      const std::vector<float> y = as_floats(cache.node(queries(cache, 1, random), rows, 0, 1).run());
      for (std::int64_t i = 0; i < cache.dim; ++i)
        EXPECT_EQ(std::isnan(y[static_cast<std::size_t>(i)]), in_keys || i == 3) << (in_keys ? "key " : "value ") << at;
    }
}

TEST_P(Attention, a_window_hides_what_lies_before_it_and_its_blocks_are_not_read) {
  std::mt19937 random(7);
  for (const std::int64_t window : {1, 2, 15, 16, 17, 63, 64, 65, 100, 200, 1000})
    for (const std::int64_t length : {1, 17, 64, 65, 130, 200, 300}) {
      Cache cache = with_products({.dtype = ir::DType::f16, .lengths = {length}, .window = window});
      cache.fill(random);
      const std::vector<Row> rows = last_rows(length, 11);
      for (std::int64_t p = 0; p <= rows[0].position - window; ++p)
        for (std::int64_t h = 0; h < cache.kv_heads; ++h)
          for (std::int64_t i = 0; i < cache.dim; ++i) cache.value_at(0, p, h, i) = cache.key_at(0, p, h, i) = kNan;
      for (std::int64_t b = 0; (b + 1) * cache.block <= rows[0].position - window + 1; ++b) cache.table[static_cast<std::size_t>(b)] = -1;
      expect_good(cache, rows, random, std::to_string(length) + " keys, window " + std::to_string(window));
    }
}

TEST_P(Attention, long_sequences_are_cut_into_pieces_and_no_bit_shows_it) {
  std::mt19937 random(10);
  for (const std::int64_t window : {0, 300, 600})
    for (const std::int64_t length : {255, 256, 257, 511, 512, 513, 700, 1100}) {
      Cache cache = with_products({.dtype = ir::DType::f16, .lengths = {length, 40, length / 2}, .window = window, .sinks = {1, 0, 3, -2}});
      cache.fill(random);
      // A few rows that are cut and many that are not, in one batch; sequences whose rows are cut beside each other.
      std::vector<Row> rows = last_rows(length, 19);
      for (const std::int64_t s : {2, 1})
        for (std::int64_t p = cache.lengths[static_cast<std::size_t>(s)] - 2; p < cache.lengths[static_cast<std::size_t>(s)]; ++p)
          rows.push_back({static_cast<std::int32_t>(s), static_cast<std::int32_t>(p)});
      expect_good(cache, rows, random, std::to_string(length) + " keys, window " + std::to_string(window));
    }
}

TEST_P(Attention, many_rows_of_a_long_sequence_have_the_bits_that_each_has_alone) {
  std::mt19937 random(13);
  for (const ir::DType dtype : {ir::DType::f16, ir::DType::bf16, ir::DType::q8_0, ir::DType::q4_1})
    for (const std::int64_t window : {0, 150}) {
      // More rows than share keys and values, in groups of rows that are whole and one that is not; all numbers of pieces from 1 to 3.
      Cache cache = with_products({.heads = 3, .kv_heads = 1, .dim = 96, .dtype = dtype, .lengths = {560}, .window = window});
      cache.fill(random);
      std::vector<Row> rows;
      for (const std::int32_t from : {0, 235, 500})
        for (std::int32_t p = from; p < from + 43; ++p) rows.push_back({0, p});
      expect_good(cache, rows, random, std::string(ir::name(dtype)) + ", window " + std::to_string(window));
    }
}

TEST_P(Attention, blocks_may_lie_apart_in_memory) {
  std::mt19937 random(10);
  for (const ir::DType dtype : {ir::DType::f16, ir::DType::q8_0}) {
    Cache cache = with_products({.dtype = dtype, .lengths = {600, 33}, .gap = 192});
    cache.fill(random);
    std::vector<Row> rows = last_rows(600, 3);
    rows.push_back({1, 32});
    expect_good(cache, rows, random, std::string(ir::name(dtype)));
    cache.gap = 0;
    const std::vector<float> q = queries(cache, rows.size(), random);
    const std::vector<std::byte> dense = cache.node(q, rows, 0, rows.size()).run();
    cache.gap = 192;
    EXPECT_EQ(cache.node(q, rows, 0, rows.size()).run(), dense);
  }
}

TEST_P(Attention, more_pieces_than_the_workspace_has_room_for_are_no_error) {
  std::mt19937 random(11);
  Cache cache = with_products({.heads = 2, .kv_heads = 1, .dim = 16, .dtype = ir::DType::f16, .lengths = {1200}});
  cache.fill(random);
  std::vector<Row> rows;  // all at the end of one sequence, each a tile of its own
  for (int r = 0; r < 24; ++r) rows.push_back({0, 1199 - r});
  expect_good(cache, rows, random, "rows backwards");
}

TEST_P(Attention, places_outside_the_cache_are_told_and_nothing_is_read_there) {
  std::mt19937 random(12);
  for (const std::int64_t length : {40, 600})
    for (const std::int32_t bad : {-1, -1000000000, 1000000000, 1000}) {
      Cache cache = with_products({.dtype = ir::DType::f16, .lengths = {length}});
      cache.fill(random);
      const std::vector<float> q = queries(cache, 1, random);
      const auto last = static_cast<std::int32_t>(length - 1);
      const auto failure = [&](std::vector<Row> rows) { return cache.node(q, rows, 0, 1).failure(); };
      EXPECT_EQ(failure({{0, last}}), "");
      EXPECT_EQ(failure({{bad, last}}), "a sequence is outside the block table");
      if (bad != 1000) {
        EXPECT_EQ(failure({{0, bad}}), "a position is outside the block table");
      }
      for (const std::int64_t at : {std::int64_t{0}, (length - 1) / cache.block}) {
        Cache broken = cache;
        broken.table[static_cast<std::size_t>(at)] = bad;
        EXPECT_EQ(broken.node(q, {{0, last}}, 0, 1).failure(), "a block is outside the cache") << bad << " at " << at;
      }
    }
}

TEST_P(Attention, soft_caps_and_sinks_equal_the_reference_with_and_without_a_window) {
  std::mt19937 random(8);
  for (const std::int64_t window : {0, 40})
    for (const double softcap : {0.0, 0.3, 50.0})
      for (const std::vector<float>& sinks : {std::vector<float>{}, {0, 1, -1, 0.5f}, {30, -30, -kInfinity, 3}, {1000, -1000, 0, 0}})
        for (const std::int64_t length : {1, 20, 64, 150}) {
          Cache cache =
              with_products({.dtype = ir::DType::bf16, .lengths = {length}, .window = window, .softcap = softcap, .sinks = sinks});
          cache.fill(random);
          expect_good(cache, last_rows(length, 5), random,
                      std::to_string(length) + " keys, window " + std::to_string(window) + ", cap " + std::to_string(softcap));
        }
}

TEST_P(Attention, a_NaN_passes_a_soft_cap) {
  std::mt19937 random(9);
  Cache cache = with_products({.heads = 2, .kv_heads = 1, .lengths = {70}, .softcap = 20});
  cache.fill(random);
  cache.key_at(0, 30, 0, 3) = kNan;
  for (const float y : as_floats(cache.node(queries(cache, 1, random), last_rows(70, 1), 0, 1).run())) EXPECT_TRUE(std::isnan(y));
}

TEST_P(Attention, large_scores_do_not_overflow) {
  std::mt19937 random(6);
  Cache cache = with_products({.dtype = GetParam(), .lengths = {70}});
  cache.fill(random);
  const std::vector<Row> rows = last_rows(70, 2);
  std::vector<float> q = queries(cache, 2, random);
  for (float& f : q) f *= 1e4f;
  for (const float y : as_floats(cache.node(q, rows, 0, 2).run())) EXPECT_LE(std::abs(y), 1.0001f);
}

}  // namespace
}  // namespace quern::cpu::test
