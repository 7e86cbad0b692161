// Kernels that move rows to or from places that indices name: embedding, take_rows, kv_write; and rope.
#include <gtest/gtest.h>

#include <numeric>

#include "kernel_case.h"
#include "ops/registry.h"

namespace quern::cpu::test {
namespace {

Operand integers32(const std::vector<std::int32_t>& values) {
  return {{static_cast<std::int64_t>(values.size())}, bytes_of(values), false, ir::DType::i32};
}

/// Bytes that make numbers of a type; scales of block formats are small numbers.
Operand table(ir::DType type, std::int64_t rows, std::int64_t width, std::mt19937& random) {
  Operand made{{rows, width}, {}, true, type};
  made.bytes.resize(static_cast<std::size_t>(rows * width / ir::block_elements(type) * ir::block_bytes(type)));
  for (std::byte& b : made.bytes) b = static_cast<std::byte>(random() % 64);  // exponents stay small in f16, bf16 and f32 alike
  return made;
}

TEST(Embedding, looks_up_rows_of_every_type_as_the_reference_does) {
  std::mt19937 random(1);
  for (const ir::DType type : {ir::DType::f32, ir::DType::f16, ir::DType::bf16, ir::DType::q4_0, ir::DType::q4_1, ir::DType::q8_0,
                               ir::DType::q4_K, ir::DType::q6_K})
    for (const std::int64_t width : {256, 512}) {
      const KernelCase node(ops::embedding, {table(type, 7, width, random), integers32({6, 0, 3, 3, 1})});
      EXPECT_EQ(differs_at_all(node), "") << ir::name(type);
    }
}

TEST(TakeRows, copies_rows_of_any_width_and_type) {
  std::mt19937 random(2);
  for (const ir::DType type : {ir::DType::f32, ir::DType::f16, ir::DType::u8, ir::DType::i64})
    for (const std::int64_t width : {1, 3, 64, 1000}) {
      Operand x = table(type, 9, width, random);
      x.constant = false;
      EXPECT_EQ(differs_at_all(KernelCase(ops::take_rows, {x, integers32({8, 8, 0, 4})})), "") << ir::name(type) << " " << width;
    }
}

TEST(Rope, equals_the_reference_whole_or_in_part_interleaved_or_not) {
  std::mt19937 random(3);
  for (const std::int64_t tokens : {1, 7})
    for (const std::int64_t heads : {1, 3})
      for (const std::int64_t dim : {2, 16, 20, 64, 80})
        for (const std::int64_t pairs : {dim / 2, dim / 4})
          for (const std::int64_t interleaved : {0, 1}) {
            const std::vector<Operand> operands = {floats({tokens, heads, dim}, random), floats({tokens, 2, pairs}, random)};
            const KernelCase node(ops::rope, operands, {{"interleaved", interleaved}});
            // Two products of magnitude ≤ 1 and a sum, three roundings; sizes of 1 bound the sum of magnitudes by 2.
            const std::vector<float> sizes(as_floats(node.run()).size(), 2.0f);
            EXPECT_EQ(differs(node, sizes, 3 * 0x1p-24), "") << dim << " " << pairs << " " << interleaved;
          }
}

/// A state is changed where it lies: kernel and reference on copies of one cache, in one call or token by token.
std::vector<std::byte> written(const ir::Op& op, bool reference, std::int64_t step, ir::DType type, bool transposed, std::int64_t heads,
                               std::int64_t dim, std::int64_t block, const std::vector<std::int32_t>& slots,
                               const char** failure = nullptr) {
  std::mt19937 random(4);
  const auto tokens = static_cast<std::int64_t>(slots.size());
  const std::int64_t blocks = 3;
  ir::Graph graph;
  const ir::Shape shape = transposed && !ir::is_block(type) ? ir::Shape{blocks, heads, dim, block} : ir::Shape{blocks, heads, block, dim};
  const ir::Node* node =
      graph.append(op,
                   {graph.add_input("cache", {type, shape, true}), graph.add_input("x", {ir::DType::f32, {tokens, heads, dim}}),
                    graph.add_input("slots", {ir::DType::i32, {tokens}})},
                   {{"transposed", std::int64_t{transposed}}});
  std::vector<std::byte> cache(static_cast<std::size_t>(blocks * heads * block * dim / ir::block_elements(type) * ir::block_bytes(type)));
  for (std::size_t i = 0; i < cache.size(); ++i) cache[i] = static_cast<std::byte>(i * 31);
  Operand x = floats({tokens, heads, dim}, random, false, -100, 100);
  if (!ir::is_block(type)) {  // what halves round in ways of their own: ties, subnormals, what is too large
    std::vector<float> values = as_floats(x.bytes);
    const float special[] = {0x1.001p0f, 0x1.003p0f, 0x1p-25f, 0x1.8p-24f, -0x1.ffep-15f, 65519,
                             65520,      -1e30f,     INFINITY, -INFINITY,  NAN,           -0.0f};
    for (std::size_t i = 0; i < values.size(); i += 3) values[i] = special[i / 3 % std::size(special)];
    x.bytes = bytes_of(values);
  }
  ir::TensorView views[3];
  for (std::size_t i = 0; i < 3; ++i) {
    views[i].dtype = node->inputs[i]->type.dtype;
    views[i].rank = static_cast<std::int64_t>(node->inputs[i]->type.shape.size());
    for (std::int64_t d = 0; d < views[i].rank; ++d)
      views[i].dims[d] = *node->inputs[i]->type.shape[static_cast<std::size_t>(d)].constant();
  }
  views[0].data = cache.data();
  views[1].data = const_cast<std::byte*>(x.bytes.data());
  views[2].data = reinterpret_cast<std::byte*>(const_cast<std::int32_t*>(slots.data()));
  const ir::TensorView* pointers[] = {&views[0], &views[1], &views[2], &views[0]};
  std::atomic<const char*> failed{nullptr};
  const ir::Call call{node, pointers, pointers + 3, &failed};
  if (reference) {
    op.reference(call);
  } else {
    CpuBackend backend;
    const auto kernel = backend.lower(*node);
    EXPECT_STRNE(kernel->name(), "reference");
    const std::int64_t units = kernel->split(call).units;
    for (std::int64_t u = 0; u < units; u += step) kernel->run(call, u, std::min(units, u + step), nullptr);
  }
  if (failure != nullptr) *failure = failed.load();
  return cache;
}

TEST(KvWrite, puts_every_token_where_the_reference_does_and_nothing_anywhere_else) {
  const std::vector<std::int32_t> slots = {47, 0, -1, 16, 15, 31, 2};  // -1: not kept
  for (const ir::DType type : {ir::DType::f32, ir::DType::f16, ir::DType::bf16})
    for (const bool transposed : {false, true})
      for (const std::int64_t heads : {1, 3})
        for (const std::int64_t dim : {4, 17, 64}) {
          const auto expected = written(ops::kv_write, true, 1, type, transposed, heads, dim, 16, slots);
          EXPECT_EQ(written(ops::kv_write, false, 1000, type, transposed, heads, dim, 16, slots), expected);
          EXPECT_EQ(written(ops::kv_write, false, 1, type, transposed, heads, dim, 16, slots), expected);
        }
  for (const ir::DType type : {ir::DType::q8_0, ir::DType::q4_1})
    for (const bool transposed : {false, true})
      for (const std::int64_t dim : {32, 96}) {
        const auto expected = written(ops::kv_write, true, 1, type, transposed, 3, dim, 16, slots);
        EXPECT_EQ(written(ops::kv_write, false, 1000, type, transposed, 3, dim, 16, slots), expected);
        EXPECT_EQ(written(ops::kv_write, false, 1, type, transposed, 3, dim, 16, slots), expected);
      }
}

TEST(KvWrite, a_slot_outside_the_cache_is_a_failure_that_writes_nothing) {
  const auto untouched = written(ops::kv_write, false, 1, ir::DType::f32, true, 2, 8, 16, {-1});
  for (const std::int32_t slot : {48, 1000000, INT32_MAX}) {
    const char* failure = nullptr;
    EXPECT_EQ(written(ops::kv_write, false, 1, ir::DType::f32, true, 2, 8, 16, {slot}, &failure), untouched);
    EXPECT_STREQ(failure, "a slot is outside the cache");
  }
}

}  // namespace
}  // namespace quern::cpu::test
