// Weights of a program: one packed copy a constant, packed on all workers.
#include "backends/cpu/weight_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "kernel_case.h"
#include "ops/registry.h"

namespace quern::cpu::test {
namespace {

std::vector<std::byte> random_bytes(ir::DType type, std::int64_t n, std::int64_t k, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(static_cast<std::size_t>(n * k / ir::block_elements(type) * ir::block_bytes(type)));
  for (std::byte& b : bytes) b = static_cast<std::byte>(random() % 64);  // exponents stay small in every type
  return bytes;
}

struct Weights {
  ir::Graph graph;
  std::vector<ir::Value*> values;

  void add(ir::DType type, std::int64_t n, std::int64_t k) {
    values.push_back(graph.add_constant("w" + std::to_string(values.size()), {type, {n, k}},
                                        random_bytes(type, n, k, static_cast<unsigned>(values.size()))));
  }
};

std::vector<std::uint8_t> bytes_of(const PackedWeights& w) { return {w.data(), w.data() + w.bytes()}; }

TEST(WeightStore, products_of_one_constant_share_its_packed_form) {
  Weights weights;
  weights.add(ir::DType::q8_0, 40, 64);
  weights.add(ir::DType::q8_0, 40, 64);
  WeightStore store;
  const PackedWeights first = store.packed({&weights.values[0], 1}, ir::DType::a8)[0],
                      again = store.packed({&weights.values[0], 1}, ir::DType::a8)[0];
  const PackedWeights other = store.packed({&weights.values[1], 1}, ir::DType::a8)[0],
                      floats = store.packed({&weights.values[0], 1}, ir::DType::f32)[0];
  store.fill();
  EXPECT_EQ(first.data(), again.data());
  EXPECT_NE(first.data(), other.data());
  EXPECT_NE(first.data(), floats.data()) << "integers and floats have layouts of their own";
}

TEST(WeightStore, many_workers_pack_the_bytes_that_one_packs) {
  Weights weights;
  for (const ir::DType type : {ir::DType::q4_1, ir::DType::q6_K, ir::DType::q8_0, ir::DType::nvfp4})
    for (const std::int64_t n : {1, 37, 3000}) weights.add(type, n, 512);
  ThreadPool pool(4);
  WeightStore serial, parallel({.pool = &pool});
  std::vector<PackedWeights> one, many;
  for (ir::Value* const& w : weights.values) {
    one.push_back(serial.packed({&w, 1}, ir::DType::a8)[0]);
    many.push_back(parallel.packed({&w, 1}, ir::DType::a8)[0]);
  }
  serial.fill();
  parallel.fill();
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_EQ(bytes_of(one[i]), bytes_of(many[i])) << i;
}

TEST(WeightStore, on_a_machine_with_several_nodes_the_bytes_are_the_same) {
  Weights weights;
  for (const std::int64_t n : {1, 37, 3000, 500}) weights.add(ir::DType::q4_1, n, 512);
  Topology topology;
  for (int core = 0; core < 4; ++core) topology.cores.push_back({{core}, core / 2});
  topology.nodes = 2;
  ThreadPool pool(4, topology);
  WeightStore serial, spread({.pool = &pool});
  const std::vector<PackedWeights> one = serial.packed(weights.values, ir::DType::a8), many = spread.packed(weights.values, ir::DType::a8);
  serial.fill();
  spread.fill();
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_EQ(bytes_of(one[i]), bytes_of(many[i])) << i;
}

TEST(WeightStore, a_table_is_looked_up_in_its_packed_form_only_where_a_product_has_one) {
  Weights weights;
  weights.add(ir::DType::q8_0, 40, 64);
  weights.add(ir::DType::q8_0, 40, 64);
  WeightStore store;
  const WeightStore::Lookup tied = store.lookup(*weights.values[0]), alone = store.lookup(*weights.values[1]);
  const PackedWeights w = store.packed({&weights.values[0], 1}, ir::DType::a8)[0];
  store.fill();
  ASSERT_TRUE(tied->has_value());
  EXPECT_EQ((*tied)->data(), w.data());
  EXPECT_FALSE(alone->has_value());
}

TEST(WeightStore, an_embedding_gives_the_same_bits_from_a_table_that_a_product_has_packed) {
  std::mt19937 random(1);
  const std::vector<std::int32_t> ids = {0, 36, 17, 17, 1};
  for (const ir::DType type : {ir::DType::f32, ir::DType::f16, ir::DType::bf16, ir::DType::q4_0, ir::DType::q4_1, ir::DType::q5_0,
                               ir::DType::q8_0, ir::DType::q4_K, ir::DType::q6_K, ir::DType::mxfp4}) {
    const std::int64_t n = 37, k = 256;
    const std::vector<std::byte> bytes = random_bytes(type, n, k, 5);
    ir::Graph graph;
    ir::Value* table = graph.add_constant("table", {type, {n, k}}, bytes);
    ir::Value* id = graph.add_input("ids", {ir::DType::i32, {std::int64_t(ids.size())}});
    ir::Value* x = graph.add_input("x", {ir::DType::f32, {1, k}});
    const ir::Node* embedding = graph.append(ops::embedding, {table, id});
    const ir::Node* linear = graph.append(ops::linear, {x, table});
    CpuBackend backend;
    const auto kernel = backend.lower(*embedding), product = backend.lower(*linear);
    backend.finish();

    std::vector<float> out(ids.size() * k, -1), expected(out);
    ir::TensorView views[3];
    const auto set = [](ir::TensorView& view, const void* data, ir::DType dtype, std::int64_t rows, std::int64_t columns) {
      view.data = static_cast<std::byte*>(const_cast<void*>(data));
      view.dtype = dtype;
      view.rank = columns == 0 ? 1 : 2;
      view.dims[0] = rows;
      if (columns != 0) view.dims[1] = columns;
    };
    // The kernel has the packed form: it must not look at the constant's own bytes any more.
    const std::vector<std::byte> nothing(bytes.size());
    set(views[0], nothing.data(), type, n, k);
    set(views[1], ids.data(), ir::DType::i32, std::int64_t(ids.size()), 0);
    set(views[2], out.data(), ir::DType::f32, std::int64_t(ids.size()), k);
    const ir::TensorView* pointers[] = {&views[0], &views[1], &views[2]};
    std::atomic<const char*> failed{nullptr};
    const ir::Call call{embedding, pointers, pointers + 2, &failed};
    kernel->run(call, 0, std::int64_t(ids.size()), nullptr);
    views[0].data = const_cast<std::byte*>(bytes.data());
    views[2].data = reinterpret_cast<std::byte*>(expected.data());
    ops::embedding.reference(call);
    EXPECT_EQ(0, std::memcmp(out.data(), expected.data(), out.size() * sizeof(float))) << ir::name(type);
  }
}

/// The bytes that the units of a step read, asked for in `tasks` equal parts, each once.
std::int64_t constant_bytes(const plan::Kernel& kernel, const ir::Call& call, std::int64_t tasks) {
  const std::int64_t units = kernel.split(call).units;
  std::vector<std::span<const std::byte>> pieces;
  for (std::int64_t task = 0; task < tasks; ++task)
    for (std::size_t i = 0;; ++i) {
      const auto piece = kernel.constants(call, units * task / tasks, units * (task + 1) / tasks, i);
      if (piece.empty()) break;
      pieces.push_back(piece);
    }
  std::ranges::sort(pieces, {}, [](const auto& piece) { return piece.data(); });
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (i > 0 && pieces[i - 1].data() + pieces[i - 1].size() > pieces[i].data()) return -1;
    bytes += std::int64_t(pieces[i].size());
  }
  return bytes;
}

TEST(WeightStore, tasks_of_products_say_which_weights_they_will_read) {
  for (const bool gated : {false, true})
    for (const std::int64_t n : {16, 64, 1000}) {
      if (gated && n % 32 != 0) continue;
      Weights weights;
      weights.add(ir::DType::q8_0, n, 64);
      weights.add(ir::DType::q8_0, gated ? n : 48, 64);
      ir::Value* x = weights.graph.add_input("x", {ir::DType::a8, {ir::Dim::symbol("m"), 64}});
      const ir::Node* node =
          gated ? weights.graph.append(ops::linear_glu, {x, weights.values[0], weights.values[1]}, {{"activation", "silu"}})
                : weights.graph.append(ops::linear, {x, weights.values[0], weights.values[1]}, {{"outputs", std::int64_t{2}}});
      CpuBackend backend;
      const auto kernel = backend.lower(*node);
      backend.finish();
      std::int64_t bytes = 0;
      for (ir::Value* const& w : weights.values) {
        WeightStore store;
        const PackedWeights packed = store.packed({&w, 1}, ir::DType::a8)[0];
        store.fill();
        bytes += packed.bytes();
      }
      ir::TensorView view;
      view.dtype = ir::DType::a8;
      view.rank = 2;
      view.dims[0] = 1;
      view.dims[1] = 64;
      const std::vector<const ir::TensorView*> views(5, &view);
      const ir::Call call{node, views.data(), views.data() + 3, nullptr};
      for (const std::int64_t tasks : {1, 2, 5, 64}) EXPECT_EQ(constant_bytes(*kernel, call, tasks), bytes) << gated << ' ' << n;
    }
}

}  // namespace
}  // namespace quern::cpu::test
