// Kernels of the ops `linear`, `linear_glu` and `quantize_activations`.
#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/function_kernel.h"
#include "backends/cpu/kernels/gate.h"
#include "backends/cpu/kernels/halves.h"
#include "backends/cpu/kernels/linear/linear.h"
#include "backends/cpu/weight_store.h"

namespace quern::cpu {

void shorten(const float* x, const ir::TensorView& y, std::int64_t element, std::int64_t count) {
  if (y.dtype == ir::DType::a8) {
    linear_loops().quantize_a8(x, reinterpret_cast<std::uint8_t*>(y.data) + element / kBlockColumns * kA8Bytes, count / kBlockColumns);
  } else {
    to_bf16(x, y.as<std::uint16_t>() + element, count);
  }
}

namespace {

/// For profiles, such as "linear q4_K+q6_K avx2".
std::string name_of(std::string what, std::span<const PackedWeights> weights, const LinearLoops& loops) {
  for (std::size_t i = 0; i < weights.size(); ++i)
    if (i == 0 || weights[i].type() != weights[i - 1].type()) what += (i == 0 ? " " : "+") + std::string(ir::name(weights[i].type()));
  return what + " " + loops.name + (weights[0].x_type() == ir::DType::a8 ? "" : " " + std::string(ir::name(weights[0].x_type())));
}

std::int64_t most_scratch(std::span<const PackedWeights> weights) {
  std::int64_t most = 0;
  for (const PackedWeights& w : weights) most = std::max(most, linear_scratch_bytes(w));
  return most;
}

/// x [m, k] times constant weights, packed when all nodes are lowered.
class LinearKernel final : public plan::Kernel {
 public:
  explicit LinearKernel(std::vector<PackedWeights> weights)
      : loops_(linear_loops()), weights_(std::move(weights)), name_(name_of("linear", weights_, loops_)) {}

  plan::Split split(const ir::Call& call) const override {
    const std::int64_t m = call.in(0).dims[0];
    const LinearUnits units = linear_units(weights_, m);
    double nanoseconds = 0;
    for (const PackedWeights& w : weights_)
      nanoseconds += double(w.tiles()) * linear_unit_nanoseconds(loops_, w, std::min(units.rows_per_block, m));
    return {units.count(), nanoseconds / double(units.tiles)};
  }
  std::int64_t scratch_bytes(const ir::Call&) const override { return most_scratch(weights_); }
  std::span<const std::byte> constants(const ir::Call& call, std::int64_t begin, std::int64_t end, std::size_t i) const noexcept override {
    if (i >= weights_.size() || linear_units(weights_, call.in(0).dims[0]).row_blocks != 1) return {};
    for (const PackedWeights& w : weights_) {
      const std::int64_t last = std::min(end, w.tiles());
      if (begin < last && i-- == 0) return w.tile_data(begin, last);
      begin = std::max<std::int64_t>(begin - w.tiles(), 0);
      end -= w.tiles();
      if (end <= 0) break;
    }
    return {};
  }
  void run(const ir::Call& call, std::int64_t begin, std::int64_t end, std::byte* scratch) const noexcept override {
    float* y[kMaxWeights];
    for (std::size_t i = 0; i < weights_.size(); ++i) y[i] = call.out(i).as<float>();
    linear_run(loops_, weights_, call.in(0).data, call.in(0).dims[0], y, begin, end, scratch);
  }
  const char* name() const override { return name_.c_str(); }

  static constexpr std::size_t kMaxWeights = 8;

 private:
  const LinearLoops& loops_;
  std::vector<PackedWeights> weights_;
  std::string name_;
};

/// Gate and up of some columns at a time, which stay in the second-level cache until they are one. A unit is two tiles of both: the columns
/// of a block of a8.
class LinearGluKernel final : public plan::Kernel {
 public:
  LinearGluKernel(std::vector<PackedWeights> weights, std::string_view activation)
      : loops_(linear_loops()),
        weights_(std::move(weights)),
        gate_(gate_loop(activation)),
        name_(name_of("linear_glu", weights_, loops_)) {}

  plan::Split split(const ir::Call& call) const override {
    const std::int64_t m = call.in(0).dims[0];
    const LinearUnits units = linear_units(weights_, m);
    const std::int64_t rows = std::min(units.rows_per_block, m);
    double nanoseconds = 0.7 * double(rows * kUnitColumns);
    for (const PackedWeights& w : weights_) nanoseconds += kUnitTiles * linear_unit_nanoseconds(loops_, w, rows);
    return {units.row_blocks * units_across(), nanoseconds};
  }
  std::int64_t scratch_bytes(const ir::Call& call) const override {
    return products_at() + 2 * kUnitColumns * most_units(rows_of(call)) * rows_of(call) * std::int64_t{sizeof(float)};
  }
  std::span<const std::byte> constants(const ir::Call& call, std::int64_t begin, std::int64_t end, std::size_t i) const noexcept override {
    if (i >= 2 || linear_units(weights_, call.in(0).dims[0]).row_blocks != 1) return {};
    return weights_[i].tile_data(begin * kUnitTiles, std::min(end * kUnitTiles, weights_[i].tiles()));
  }
  void run(const ir::Call& call, std::int64_t begin, std::int64_t end, std::byte* scratch) const noexcept override {
    const std::int64_t m = call.in(0).dims[0], n = weights_[0].n(), across = units_across(), most = most_units(rows_of(call));
    const std::int64_t x_row_bytes = m == 0 ? 0 : call.in(0).bytes() / m, rows_per_block = linear_units(weights_, m).rows_per_block;
    while (begin < end) {
      const std::int64_t first = begin % across, count = std::min({end - begin, across - first, most});
      const std::int64_t row = begin / across * rows_per_block, rows = std::min(m - row, rows_per_block);
      const std::int64_t column = first * kUnitColumns, columns = std::min(n - column, count * kUnitColumns);
      const std::int64_t tile = first * kUnitTiles, tile_end = std::min(tile + count * kUnitTiles, weights_[0].tiles());
      float* products[2];
      for (int i = 0; i < 2; ++i) {
        products[i] = reinterpret_cast<float*>(scratch + products_at()) + i * rows * columns;
        linear_tiles(loops_, weights_[static_cast<std::size_t>(i)], call.in(0).data + row * x_row_bytes, rows, tile, tile_end, products[i],
                     columns, scratch);
      }
      for (std::int64_t r = 0; r < rows; ++r) {
        float *gate = products[0] + r * columns, *up = products[1] + r * columns;
        const std::int64_t element = (row + r) * n + column;
        const bool plain = call.out(0).dtype == ir::DType::f32;
        gate_(gate, up, plain ? call.out(0).as<float>() + element : gate, columns);
        if (!plain) shorten(gate, call.out(0), element, columns);
      }
      begin += count;
    }
  }
  const char* name() const override { return name_.c_str(); }

 private:
  static constexpr std::int64_t kUnitTiles = kBlockColumns / kTileRows, kUnitColumns = kBlockColumns;
  static constexpr std::int64_t kProductBytes = 512 << 10;  // of gates and ups at a time: a quarter to half of the second-level cache
  static constexpr std::int64_t kMostUnits = 16;

  std::int64_t units_across() const { return (weights_[0].tiles() + kUnitTiles - 1) / kUnitTiles; }
  std::int64_t rows_of(const ir::Call& call) const {
    return std::min(call.in(0).dims[0], linear_units(weights_, call.in(0).dims[0]).rows_per_block);
  }
  static std::int64_t most_units(std::int64_t rows) {
    return std::clamp<std::int64_t>(kProductBytes / (2 * kUnitColumns * std::int64_t{sizeof(float)} * std::max<std::int64_t>(rows, 1)), 1,
                                    kMostUnits);
  }
  std::int64_t products_at() const { return (most_scratch(weights_) + 63) / 64 * 64; }

  const LinearLoops& loops_;
  std::vector<PackedWeights> weights_;
  GateLoop gate_;
  std::string name_;
};

std::span<ir::Value* const> weights_of(const ir::Node& node) { return std::span(node.inputs).subspan(1); }

bool can_pack(const ir::Node& node) {
  return std::ranges::all_of(weights_of(node), [&](const ir::Value* w) {
    if (w->constant == nullptr) return false;
    const auto n = w->type.shape[0].constant(), k = w->type.shape[1].constant();
    return n && k && *n >= 1 && *k >= 1 && PackedWeights::can_pack(node.inputs[0]->type.dtype, w->type.dtype, *k);
  });
}

constexpr KernelFunctions kQuantizeActivations{
    "quantize_activations", [](const ir::Call& call) { return plan::Split{call.in(0).rows(), 10 + 0.4 * double(call.in(0).columns())}; },
    [](const ir::Call& call, std::int64_t begin, std::int64_t end, std::byte*) noexcept {
      const std::int64_t columns = call.in(0).columns();
      shorten(call.in(0).as<float>() + begin * columns, call.out(0), begin * columns, (end - begin) * columns);
    }};

}  // namespace

std::unique_ptr<plan::Kernel> lower_linear(const ir::Node& node, WeightStore& store) {
  if (node.inputs.size() > 1 + LinearKernel::kMaxWeights || !can_pack(node)) return nullptr;
  return std::make_unique<LinearKernel>(store.packed(weights_of(node), node.inputs[0]->type.dtype));
}

std::unique_ptr<plan::Kernel> lower_linear_glu(const ir::Node& node, WeightStore& store) {
  if (!can_pack(node)) return nullptr;
  std::vector<PackedWeights> weights;
  for (ir::Value* const& w : weights_of(node)) weights.push_back(store.packed({&w, 1}, node.inputs[0]->type.dtype)[0]);
  return std::make_unique<LinearGluKernel>(std::move(weights), node.text("activation"));
}

std::unique_ptr<plan::Kernel> lower_quantize_activations(const ir::Node&) { return make_kernel(kQuantizeActivations); }

}  // namespace quern::cpu
