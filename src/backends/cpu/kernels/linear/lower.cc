// Kernels of the ops `linear` and `quantize_activations`.
#include <algorithm>
#include <string>

#include "backends/cpu/function_kernel.h"
#include "backends/cpu/kernels/linear/linear.h"

namespace quern::cpu {
namespace {

/// x [m, k] times constant weights, packed when the node is lowered.
class LinearKernel final : public plan::Kernel {
 public:
  LinearKernel(PackedWeights weights, const std::byte* source)
      : loops_(linear_loops()),
        weights_(std::move(weights)),
        name_("linear " + std::string(ir::name(weights_.type())) + " " + loops_.name) {
    weights_.pack_tiles(source, 0, weights_.tiles());
    if (weights_.is_float()) name_ += " f32";
  }

  plan::Split split(const ir::Call& call) const override {
    const LinearUnits units = linear_units(weights_, call.in(0).dims[0]);
    return {units.count(), linear_unit_nanoseconds(loops_, weights_, std::min(units.rows_per_block, call.in(0).dims[0]))};
  }
  std::int64_t scratch_bytes(const ir::Call&) const override { return linear_scratch_bytes(weights_); }
  void run(const ir::Call& call, std::int64_t begin, std::int64_t end, std::byte* scratch) const noexcept override {
    linear_run(loops_, weights_, call.in(0).data, call.in(0).dims[0], call.out(0).as<float>(), begin, end, scratch);
  }
  const char* name() const override { return name_.c_str(); }

 private:
  const LinearLoops& loops_;
  PackedWeights weights_;
  std::string name_;
};

constexpr KernelFunctions kQuantizeActivations{
    "quantize_activations", [](const ir::Call& call) { return plan::Split{call.in(0).rows(), 10 + 0.4 * double(call.in(0).columns())}; },
    [](const ir::Call& call, std::int64_t begin, std::int64_t end, std::byte*) noexcept {
      const std::int64_t blocks = call.in(0).columns() / kBlockColumns;
      linear_loops().quantize_a8(call.in(0).as<float>() + begin * blocks * kBlockColumns,
                                 reinterpret_cast<std::uint8_t*>(call.out(0).data) + begin * blocks * kA8Bytes, (end - begin) * blocks);
    }};

}  // namespace

std::unique_ptr<plan::Kernel> lower_linear(const ir::Node& node) {
  const ir::Value &x = *node.inputs[0], &w = *node.inputs[1];
  if (w.constant == nullptr || node.inputs.size() != 2) return nullptr;
  const auto n = w.type.shape[0].constant(), k = w.type.shape[1].constant();
  if (!n || !k || *n < 1 || *k < 1) return nullptr;
  const bool integer = x.type.dtype == ir::DType::a8;
  if (!(integer ? PackedWeights::can_pack_integer(w.type.dtype, *k) : PackedWeights::can_pack_float(w.type.dtype, *k))) return nullptr;
  return std::make_unique<LinearKernel>(
      integer ? PackedWeights::integer(w.type.dtype, *n, *k) : PackedWeights::floating(w.type.dtype, *n, *k), w.constant->data);
}

std::unique_ptr<plan::Kernel> lower_quantize_activations(const ir::Node&) { return make_kernel(kQuantizeActivations); }

}  // namespace quern::cpu
