// Attention over a paged cache, on one thread: G FMA/s (two for each row, key and element of a head: one of the score, one of the value),
// and GB/s of keys and values read. `fma_peak` is what the machine does with nothing but FMAs in registers, for comparison.
//   prefill/TYPE/PRODUCTS/HEADSxKV_HEADSxDIM/N    the last 512 of N tokens of a prompt
//   decode/TYPE/PRODUCTS/HEADSxKV_HEADSxDIM/N     one token after N, each turn in another copy of the cache, as layers follow each other
// PRODUCTS bf16 means f32 where there is no tile unit.
#include <benchmark/benchmark.h>
#include <immintrin.h>

#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "base/cpu.h"
#include "base/page_memory.h"
#include "ir/graph.h"
#include "ops/registry.h"

namespace quern::cpu {
namespace {

using ir::DType;

struct Shape {
  std::int64_t heads, kv_heads, dim;
};

constexpr std::int64_t kBlock = 16;

void attention(benchmark::State& state, DType dtype, DType products, Shape shape, std::int64_t keys, std::int64_t rows) {
  const std::int64_t blocks = (keys + kBlock - 1) / kBlock;
  const bool quantised = ir::is_block(dtype);
  ir::Graph graph;
  const auto input = [&](const char* name, DType type, std::vector<std::int64_t> dims) {
    return graph.add_input(name, {type, ir::Shape(dims.begin(), dims.end())});
  };
  const std::vector<std::int64_t> plain = {blocks, shape.kv_heads, kBlock, shape.dim}, turned = {blocks, shape.kv_heads, shape.dim, kBlock};
  const std::vector<ir::Value*> inputs = {input("q", DType::f32, {rows, shape.heads, shape.dim}),
                                          input("keys", dtype, quantised ? plain : turned),
                                          input("values", dtype, plain),
                                          input("table", DType::i32, {1, blocks}),
                                          input("sequence", DType::i32, {rows}),
                                          input("positions", DType::i32, {rows})};
  const ir::Node* node = graph.append(ops::paged_attention, inputs, {{"scale", 0.125}, {"products", products}});
  CpuBackend backend;
  const auto kernel = backend.lower(*node);
  const auto second = kernel->second();

  std::vector<std::vector<std::byte>> memory;
  std::vector<ir::TensorView> views(8);
  std::vector<const ir::TensorView*> pointers;
  const auto view = [&](DType type, std::vector<std::int64_t> dims) -> ir::TensorView& {
    ir::TensorView& v = views[pointers.size()];
    v.dtype = type;
    v.rank = static_cast<std::int64_t>(dims.size());
    std::int64_t bytes = ir::block_bytes(type);
    for (std::size_t d = 0; d < dims.size(); ++d) bytes *= v.dims[d] = dims[d];
    memory.emplace_back(static_cast<std::size_t>(bytes / ir::block_elements(type)) + 64);
    v.data = memory.back().data() + (64 - reinterpret_cast<std::uintptr_t>(memory.back().data()) % 64) % 64;
    pointers.push_back(&v);
    return v;
  };
  for (const ir::Value* value : inputs) {
    std::vector<std::int64_t> dims;
    for (const ir::Dim& d : value->type.shape) dims.push_back(*d.constant());
    view(value->type.dtype, dims);
  }
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (std::int64_t i = 0; i < rows * shape.heads * shape.dim; ++i) views[0].as<float>()[i] = normal(random);
  const auto bytes = static_cast<std::size_t>(views[1].bytes());
  // As a model has it: a block's keys and values of all layers lie together.
  const std::size_t layers = rows == 1 ? (std::size_t{64} << 20) / (2 * bytes) + 1 : 1, piece = bytes / static_cast<std::size_t>(blocks);
  const PageMemory cache(2 * layers * bytes, "the cache", "choose a smaller one");
  // Plain numbers between 2^-15 and 1; as scales of blocks the same bytes are small.
  const std::size_t size = ir::is_block(dtype) ? 2 : static_cast<std::size_t>(ir::block_bytes(dtype));
  for (std::size_t i = 0; i < 2 * layers * bytes; ++i)
    cache.data()[i] = static_cast<std::byte>(i % size + 1 == size ? 0x38 + random() % 4 : random() % 256);
  for (ir::TensorView* view : {&views[1], &views[2]}) view->gap_stride = static_cast<std::int64_t>(2 * layers * piece);
  for (std::int64_t b = 0; b < blocks; ++b) views[3].as<std::int32_t>()[b] = static_cast<std::int32_t>(b);
  for (std::int64_t r = 0; r < rows; ++r) views[5].as<std::int32_t>()[r] = static_cast<std::int32_t>(keys - rows + r);
  view(DType::f32, {rows, shape.heads, shape.dim});
  if (const std::int64_t bytes = *kernel->workspace_bytes().constant(); bytes > 0) view(DType::u8, {bytes});
  const ir::Call call{node, pointers.data(), pointers.data() + 6};
  const auto scratch_bytes = static_cast<std::size_t>((kernel->scratch_bytes(call) + 63) / 64 * 64);
  const std::unique_ptr<std::byte, void (*)(void*)> scratch(static_cast<std::byte*>(std::aligned_alloc(64, scratch_bytes)), std::free);
  const std::int64_t units = kernel->split(call).units;
  std::size_t layer = 0;
  for (auto _ : state) {
    views[1].data = cache.data() + 2 * layer * piece;
    views[2].data = views[1].data + piece;
    layer = (layer + 1) % layers;
    kernel->run(call, 0, units, scratch.get());
    if (second != nullptr) second->run(call, 0, second->split(call).units, scratch.get());
    benchmark::ClobberMemory();
  }
  const double pairs = double(rows) * double(keys - rows) + 0.5 * double(rows) * double(rows + 1);
  state.counters["GFMA/s"] =
      benchmark::Counter(2e-9 * pairs * double(shape.heads * shape.dim) * double(state.iterations()), benchmark::Counter::kIsRate);
  state.counters["GB/s"] = benchmark::Counter(2e-9 * double(bytes) * double(state.iterations()), benchmark::Counter::kIsRate);
}

__attribute__((target("avx512f"))) void fma_peak(benchmark::State& state) {
  __m512 sums[24] = {};
  __m512 a = _mm512_set1_ps(0.5f), b = _mm512_set1_ps(0.25f);
  for (auto _ : state) {
    asm volatile("" : "+v"(a), "+v"(b));
    for (int i = 0; i < 1000; ++i)
      for (auto& s : sums) s = _mm512_fmadd_ps(a, b, s);
    for (auto& s : sums) asm volatile("" : "+v"(s));
  }
  state.counters["GFMA/s"] = benchmark::Counter(1e-9 * 24000 * 16 * double(state.iterations()), benchmark::Counter::kIsRate);
}

const int registered = [] {
  if (has_isa(Isa::avx512)) benchmark::RegisterBenchmark("fma_peak", fma_peak)->MinTime(0.1);
  const auto add = [](const char* what, DType dtype, DType products, Shape s, std::int64_t keys, std::int64_t rows) {
    const std::string name = std::string(what) + "/" + std::string(ir::name(dtype)) + "/" + std::string(ir::name(products)) + "/" +
                             std::to_string(s.heads) + "x" + std::to_string(s.kv_heads) + "x" + std::to_string(s.dim) + "/" +
                             std::to_string(keys);
    benchmark::RegisterBenchmark(name.c_str(), attention, dtype, products, s, keys, rows)->MinTime(0.1);
  };
  for (const DType dtype : {DType::f16, DType::f32, DType::bf16, DType::q8_0, DType::q4_1})
    for (const DType products : {DType::f32, DType::bf16})
      for (const Shape s : {Shape{9, 3, 64}, Shape{14, 2, 64}, Shape{12, 2, 128}, Shape{4, 1, 256}, Shape{32, 32, 128}}) {
        if ((dtype != DType::f16 && dtype != DType::bf16 && s.heads != 9) || (dtype == DType::f32 && products != DType::f32)) continue;
        for (const std::int64_t keys : {512, 2048}) add("prefill", dtype, products, s, keys, 512);
        for (const std::int64_t keys : {512, 8192}) add("decode", dtype, products, s, keys, 1);
      }
  return 0;
}();

}  // namespace
}  // namespace quern::cpu
