// Products with packed weights: Gop/s (a multiplication and an addition are two) and GB/s of weights, for every instruction set of the
// machine. The weights of one run are cycled through copies of more than the caches hold when `cold` is 1, as one token after the other
// does.
#include "backends/cpu/kernels/linear/linear.h"

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "dtypes/a8.h"

namespace quern::cpu {
namespace {

using ir::DType;

struct Shape {
  DType type;
  std::int64_t n, k;
};

std::vector<std::byte> random_bytes(std::size_t size) {
  std::mt19937 random(1);
  std::vector<std::byte> bytes(size);
  for (auto& b : bytes) b = static_cast<std::byte>(random() & 0x3f);
  return bytes;
}

void product(benchmark::State& state, const LinearLoops& loops, Shape shape, std::int64_t m, bool cold, DType x_type) {
  auto source = random_bytes(static_cast<std::size_t>(shape.n * shape.k / ir::block_elements(shape.type) * ir::block_bytes(shape.type)));
  // Exponents of real weights: sums of tiny ones are denormal, which takes a processor many times as long.
  if (shape.type == DType::mxfp4)
    for (std::size_t i = 0; i < source.size(); i += 17) source[i] = std::byte{120};
  std::vector<PackedWeights> copies;
  std::int64_t total = 0;
  do {
    copies.push_back(PackedWeights::reserve(x_type, shape.type, shape.n, shape.k));
    copies.back().pack_tiles(source.data(), 0, copies.back().tiles());
    total += copies.back().bytes();
  } while (cold && total < (64 << 20));
  std::vector<float> x(static_cast<std::size_t>(m * shape.k)), y(static_cast<std::size_t>(m * shape.n));
  std::mt19937 random(state.thread_index());
  for (float& f : x) f = std::normal_distribution<float>()(random);
  std::vector<std::byte> shorter(x.size() * sizeof(float));
  ir::TensorView view;
  view.data = shorter.data();
  view.dtype = x_type;
  if (x_type != DType::f32) shorten(x.data(), view, 0, static_cast<std::int64_t>(x.size()));
  void* scratch = std::aligned_alloc(64, static_cast<std::size_t>(linear_scratch_bytes(copies[0]) + 63) / 64 * 64 + 64);
  const std::byte* input = x_type == DType::f32 ? reinterpret_cast<const std::byte*>(x.data()) : shorter.data();
  const std::int64_t units = linear_units({&copies[0], 1}, m).count();
  float* const outputs[] = {y.data()};
  std::size_t turn = 0;
  for (auto _ : state) {
    linear_run(loops, {&copies[turn], 1}, input, m, outputs, 0, units, static_cast<std::byte*>(scratch));
    benchmark::ClobberMemory();
    turn = turn + 1 < copies.size() ? turn + 1 : 0;
  }
  std::free(scratch);
  const double runs = double(state.iterations());
  state.counters["Gop/s"] = benchmark::Counter(2e-9 * double(m * shape.n * shape.k) * runs, benchmark::Counter::kIsRate);
  state.counters["GB/s"] = benchmark::Counter(1e-9 * double(copies[0].bytes()) * runs, benchmark::Counter::kIsRate);
}

void quantize(benchmark::State& state, const LinearLoops& loops) {
  std::vector<float> x(576 * 64, 0.5f);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 97) - 40.0f;
  std::vector<std::uint8_t> y(x.size() / 32 * kA8Bytes);
  for (auto _ : state) loops.quantize_a8(x.data(), y.data(), static_cast<std::int64_t>(x.size() / 32));
  state.counters["Gvalues/s"] = benchmark::Counter(1e-9 * double(x.size()) * double(state.iterations()), benchmark::Counter::kIsRate);
}

const int registered = [] {
  for (const LinearLoops& loops : all_linear_loops()) {
    if (!has_isa(loops.isa)) continue;
    const auto add = [&](Shape shape, DType x_type) {
      for (const std::int64_t m : {1, 2, 4, 8, 16, 64, 512})
        for (const int threads : {1, 2}) {
          if (m == 512 && shape.n > 4096) continue;
          for (const bool cold : {false, true}) {
            if (cold != (m <= 8) && !(m == 1 || m == 8)) continue;  // hot: what the arithmetic allows; cold: what the memory does
            const std::string name = std::string("linear/") + loops.name + "/" + std::string(ir::name(shape.type)) +
                                     (x_type == DType::a8 ? "" : "_" + std::string(ir::name(x_type))) + "/" + std::to_string(shape.n) +
                                     "x" + std::to_string(shape.k) + "/m" + std::to_string(m) + (cold ? "/cold" : "/hot");
            benchmark::RegisterBenchmark(name.c_str(), product, loops, shape, m, cold, x_type)
                ->Threads(threads)
                ->UseRealTime()
                ->MinTime(0.1);
          }
        }
    };
    for (const DType type : {DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1, DType::q8_0, DType::iq4_nl, DType::mxfp4, DType::nvfp4})
      add({type, 1536, 576}, DType::a8);
    for (const DType type : {DType::q2_K, DType::q3_K, DType::q4_K, DType::q5_K, DType::q6_K, DType::iq4_xs, DType::iq1_s, DType::iq2_xs,
                             DType::iq3_xxs, DType::tq2_0})
      add({type, 1536, 768}, DType::a8);
    add({DType::q4_1, 576, 1536}, DType::a8);
    add({DType::q8_0, 49152, 576}, DType::a8);
    add({DType::f16, 1536, 576}, DType::f32);
    add({DType::bf16, 1536, 576}, DType::f32);
    if (loops.bf16 != nullptr)
      for (const std::int64_t k : {576, 4864}) add({DType::bf16, 1536, k}, DType::bf16);
    add({DType::f32, 1536, 576}, DType::f32);
    benchmark::RegisterBenchmark((std::string("quantize_a8/") + loops.name).c_str(), quantize, loops)->MinTime(0.1);
  }
  return 0;
}();

}  // namespace
}  // namespace quern::cpu
