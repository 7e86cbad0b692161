// Kernels of the ops `linear` and `quantize_activations`.
#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/function_kernel.h"
#include "backends/cpu/kernels/linear/linear.h"
#include "backends/cpu/weight_store.h"
#include "base/float16.h"

namespace quern::cpu {

void shorten(const float* x, const ir::TensorView& y, std::int64_t element, std::int64_t count) {
  if (y.dtype == ir::DType::a8) {
    linear_loops().quantize_a8(x, reinterpret_cast<std::uint8_t*>(y.data) + element / kBlockColumns * kA8Bytes, count / kBlockColumns);
  } else {
    for (std::int64_t i = 0; i < count; ++i) y.as<std::uint16_t>()[element + i] = f32_to_bf16(x[i]);
  }
}

namespace {

/// x [m, k] times constant weights, packed when all nodes are lowered.
class LinearKernel final : public plan::Kernel {
 public:
  explicit LinearKernel(std::vector<PackedWeights> weights) : loops_(linear_loops()), weights_(std::move(weights)) {
    name_ = "linear";
    for (std::size_t i = 0; i < weights_.size(); ++i)
      if (i == 0 || weights_[i].type() != weights_[i - 1].type()) name_ += (i == 0 ? " " : "+") + std::string(ir::name(weights_[i].type()));
    name_ +=
        std::string(" ") + loops_.name + (weights_[0].x_type() == ir::DType::a8 ? "" : " " + std::string(ir::name(weights_[0].x_type())));
  }

  plan::Split split(const ir::Call& call) const override {
    const std::int64_t m = call.in(0).dims[0];
    const LinearUnits units = linear_units(weights_, m);
    double nanoseconds = 0;
    for (const PackedWeights& w : weights_)
      nanoseconds += double(w.tiles()) * linear_unit_nanoseconds(loops_, w, std::min(units.rows_per_block, m));
    return {units.count(), nanoseconds / double(units.tiles)};
  }
  std::int64_t scratch_bytes(const ir::Call&) const override {
    std::int64_t most = 0;
    for (const PackedWeights& w : weights_) most = std::max(most, linear_scratch_bytes(w));
    return most;
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

constexpr KernelFunctions kQuantizeActivations{
    "quantize_activations", [](const ir::Call& call) { return plan::Split{call.in(0).rows(), 10 + 0.4 * double(call.in(0).columns())}; },
    [](const ir::Call& call, std::int64_t begin, std::int64_t end, std::byte*) noexcept {
      const std::int64_t columns = call.in(0).columns();
      shorten(call.in(0).as<float>() + begin * columns, call.out(0), begin * columns, (end - begin) * columns);
    }};

}  // namespace

std::unique_ptr<plan::Kernel> lower_linear(const ir::Node& node, WeightStore& store) {
  const ir::DType x = node.inputs[0]->type.dtype;
  std::vector<PackedWeights> weights;
  if (node.inputs.size() > 1 + LinearKernel::kMaxWeights) return nullptr;
  for (const ir::Value* w : std::span(node.inputs).subspan(1)) {
    if (w->constant == nullptr) return nullptr;
    const auto n = w->type.shape[0].constant(), k = w->type.shape[1].constant();
    const ir::DType type = w->type.dtype;
    if (!n || !k || *n < 1 || *k < 1) return nullptr;
    if (!PackedWeights::can_pack(x, type, *k)) return nullptr;
  }
  for (const ir::Value* w : std::span(node.inputs).subspan(1)) weights.push_back(store.packed(*w, x));
  return std::make_unique<LinearKernel>(std::move(weights));
}

std::unique_ptr<plan::Kernel> lower_quantize_activations(const ir::Node&) { return make_kernel(kQuantizeActivations); }

}  // namespace quern::cpu
