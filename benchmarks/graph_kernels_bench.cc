// Kernels of graph models, each on one node: Gop/s where there is a product (a multiplication and an addition are two), else GB/s of what
// is read and written. Every kernel also runs by its reference with --benchmark_filter=reference.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "ir/op.h"
#include "ops/registry.h"

namespace quern::cpu {
namespace {

using Sizes = std::vector<std::int64_t>;

/// One node over f32 inputs of random numbers; those from `constants` on are constants, which kernels may pack.
struct Case {
  std::string name;
  const ir::Op* op;
  std::vector<Sizes> inputs;
  std::size_t constants;
  ir::Attributes attributes = {};
  double operations = 0;  // of one run; 0: counted in bytes
};

ir::TensorView view_of(const ir::Type& type, std::vector<std::vector<float>>& memory) {
  ir::TensorView view;
  view.dtype = type.dtype;
  for (const ir::Dim& d : type.shape) view.dims[view.rank++] = d.constant().value();
  memory.emplace_back(static_cast<std::size_t>(view.elements()));
  view.data = reinterpret_cast<std::byte*>(memory.back().data());
  return view;
}

void run(benchmark::State& state, const Case& c, bool reference) {
  std::mt19937 random(1);
  std::vector<std::vector<float>> memory;
  std::vector<ir::TensorView> views;
  memory.reserve(8);
  views.reserve(8);
  ir::Graph graph;
  std::vector<ir::Value*> values;
  double bytes = 0;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    const ir::Type type{ir::DType::f32, ir::Shape(c.inputs[i].begin(), c.inputs[i].end())};
    views.push_back(view_of(type, memory));
    for (float& f : memory.back()) f = std::normal_distribution<float>()(random);
    const std::string name = "x" + std::to_string(i);
    const std::span content(views.back().data, static_cast<std::size_t>(views.back().bytes()));
    values.push_back(i < c.constants ? graph.add_input(name, type) : graph.add_constant(name, type, content));
    bytes += double(content.size());
  }
  const ir::Node* node = graph.append(*c.op, values, c.attributes);
  views.push_back(view_of(node->outputs[0]->type, memory));
  bytes += double(views.back().bytes());
  std::vector<const ir::TensorView*> pointers;
  for (const ir::TensorView& view : views) pointers.push_back(&view);
  const ir::Call call{node, pointers.data(), pointers.data() + values.size()};
  CpuBackend backend;
  const auto kernel = backend.lower(*node);
  const std::int64_t units = kernel->split(call).units;
  const std::unique_ptr<std::byte, void (*)(void*)> scratch(
      static_cast<std::byte*>(std::aligned_alloc(64, static_cast<std::size_t>((kernel->scratch_bytes(call) + 127) / 64 * 64))), std::free);
  for (auto _ : state) {
    if (reference)
      c.op->reference(call);
    else
      kernel->run(call, 0, units, scratch.get());
    benchmark::ClobberMemory();
  }
  const double amount = (c.operations > 0 ? c.operations : bytes) * 1e-9 * double(state.iterations());
  state.counters[c.operations > 0 ? "Gop/s" : "GB/s"] = benchmark::Counter(amount, benchmark::Counter::kIsRate);
  state.SetLabel(reference ? "reference" : kernel->name());
}

Case matmul(const Sizes& a, const Sizes& b, bool constant) {
  double operations = 2.0 * double(b.back());
  for (const std::int64_t size : a) operations *= double(size);
  std::string name = constant ? "matmul/constant" : "matmul";
  for (const Sizes& sizes : {a, b}) {
    name += "/";
    for (const std::int64_t& size : sizes) name += std::to_string(size) + (&size == &sizes.back() ? "" : "x");
  }
  return {name, &ops::matmul, {a, b}, constant ? 1u : 2u, {}, operations};
}

/// A square image and kernel, padded so that a stride of 1 keeps the size.
Case conv(std::int64_t channels, std::int64_t outputs, std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t group) {
  const std::int64_t pad = kernel / 2, out = (size + 2 * pad - kernel) / stride + 1;
  const std::string name = "conv/" + std::to_string(channels) + "to" + std::to_string(outputs) + "/image" + std::to_string(size) +
                           "/kernel" + std::to_string(kernel) + "/stride" + std::to_string(stride) + "/group" + std::to_string(group);
  return {name,
          &ops::conv,
          {{1, channels, size, size}, {outputs, channels / group, kernel, kernel}},
          1,
          {{"pads", Sizes{pad, pad, pad, pad}}, {"strides", Sizes{stride, stride}}, {"group", group}},
          2.0 * double(outputs * out * out) * double(channels / group * kernel * kernel)};
}

std::vector<Case> cases() {
  return {matmul({1, 384}, {384, 1536}, true),
          matmul({16, 384}, {384, 1536}, true),
          matmul({1024, 384}, {384, 1536}, true),
          matmul({1024, 1536}, {1536, 384}, true),
          matmul({96, 128, 32}, {96, 32, 128}, false),
          matmul({96, 128, 128}, {96, 128, 32}, false),
          conv(3, 64, 224, 7, 2, 1),
          conv(64, 64, 56, 1, 1, 1),
          conv(64, 64, 56, 3, 1, 1),
          conv(256, 256, 14, 3, 1, 1),
          conv(512, 512, 7, 3, 1, 1),
          conv(256, 512, 56, 1, 2, 1),
          conv(192, 192, 28, 3, 1, 192),
          {"add/same", &ops::add, {{1024, 1536}, {1024, 1536}}, 2},
          {"add/row", &ops::add, {{1024, 1536}, {1536}}, 1},
          {"add/channel", &ops::add, {{64, 56, 56}, {64, 1, 1}}, 1},
          {"erf", &ops::erf, {{1024, 1536}}, 1},
          {"tanh", &ops::tanh, {{1024, 1536}}, 1},
          {"softmax", &ops::softmax, {{12288, 128}}, 1},
          {"layer_normalization", &ops::layer_normalization, {{1024, 384}, {384}, {384}}, 1},
          {"transpose/heads", &ops::transpose, {{8, 128, 12, 32}}, 1, {{"perm", Sizes{0, 2, 1, 3}}}},
          {"transpose/last", &ops::transpose, {{64, 56, 56}}, 1, {{"perm", Sizes{1, 2, 0}}}},
          {"max_pool", &ops::max_pool, {{1, 64, 112, 112}}, 1, {{"kernel_shape", Sizes{3, 3}}, {"strides", Sizes{2, 2}}}}};
}

const int kRegistered = [] {
  for (const Case& c : cases())
    for (const bool reference : {false, true})
      benchmark::RegisterBenchmark((c.name + (reference ? "/reference" : "")).c_str(),
                                   [c, reference](benchmark::State& s) { run(s, c, reference); });
  return 0;
}();

}  // namespace
}  // namespace quern::cpu
