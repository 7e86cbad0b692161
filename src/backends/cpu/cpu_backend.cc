#include "backends/cpu/cpu_backend.h"

#include <hwy/targets.h>

#include "backends/cpu/function_kernel.h"
#include "base/cpu.h"
#include "ir/op.h"

namespace quern::cpu {

#define QUERN_CPU_KERNEL(name, op) std::unique_ptr<plan::Kernel> lower_##name(const ir::Node& node);
#define QUERN_CPU_WEIGHT_KERNEL(name, op) std::unique_ptr<plan::Kernel> lower_##name(const ir::Node& node, WeightStore& weights);
#include "backends/cpu/kernels.inc"
#undef QUERN_CPU_KERNEL

namespace {

struct Row {
  std::string_view op;
  std::unique_ptr<plan::Kernel> (*lower)(const ir::Node&, WeightStore&);
};
constexpr Row kKernels[] = {
#define QUERN_CPU_KERNEL(name, op) {#op, [](const ir::Node& node, WeightStore&) { return lower_##name(node); }},
#define QUERN_CPU_WEIGHT_KERNEL(name, op) {#op, lower_##name},
#include "backends/cpu/kernels.inc"
#undef QUERN_CPU_KERNEL
};

class FunctionKernel final : public plan::Kernel {
 public:
  explicit FunctionKernel(const KernelFunctions& functions) : functions_(functions) {}
  plan::Split split(const ir::Call& call) const override { return functions_.split(call); }
  std::int64_t scratch_bytes(const ir::Call& call) const override { return functions_.scratch_bytes ? functions_.scratch_bytes(call) : 0; }
  void run(const ir::Call& call, std::int64_t begin, std::int64_t end, std::byte* scratch) const noexcept override {
    functions_.run(call, begin, end, scratch);
  }
  const char* name() const override { return functions_.name; }

 private:
  const KernelFunctions& functions_;
};

/// What runs where no fast kernel fits: the op's own scalar definition, on one worker.
class ReferenceKernel final : public plan::Kernel {
 public:
  explicit ReferenceKernel(const ir::Op& op) : op_(op) {}
  plan::Split split(const ir::Call&) const override { return {1, 1e6}; }
  void run(const ir::Call& call, std::int64_t, std::int64_t, std::byte*) const noexcept override { op_.reference(call); }
  const char* name() const override { return "reference"; }

 private:
  const ir::Op& op_;
};

/// Highway chooses among what the processor has; QUERN_ISA may ask for less.
void limit_highway() {
  // Better targets have lower bits; newer versions of Highway have more of them.
  std::int64_t disabled = 0;
  if (best_isa() < Isa::avx512) disabled |= HWY_AVX2 - 1;
  if (best_isa() < Isa::avx2) disabled |= HWY_SSE4 - 1;
  hwy::DisableTargets(disabled);
  // Chosen now: a kernel that takes its function before the first choice would choose again at every call, tens of microseconds each.
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace

std::unique_ptr<plan::Kernel> make_kernel(const KernelFunctions& functions) { return std::make_unique<FunctionKernel>(functions); }

CpuBackend::CpuBackend(const WeightOptions& options) : weights_(options) { limit_highway(); }

std::unique_ptr<plan::Kernel> CpuBackend::lower(const ir::Node& node) {
  for (const Row& row : kKernels)
    if (row.op == node.op->name)
      if (auto kernel = row.lower(node, weights_)) return kernel;
  if (node.op->reference == nullptr || !node.regions.empty()) return nullptr;  // a program keeps no bodies
  return std::make_unique<ReferenceKernel>(*node.op);
}

}  // namespace quern::cpu
