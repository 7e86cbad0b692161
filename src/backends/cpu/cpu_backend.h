#pragma once

#include <memory>
#include <string_view>

#include "backends/cpu/weight_store.h"
#include "plan/backend.h"

namespace quern::cpu {

/// The processor itself. It lowers every node: to a fast kernel of kernels.inc where one fits, else to the op's reference kernel, so any
/// graph runs. The instruction set is chosen at run time (base/cpu.h).
class CpuBackend final : public plan::Backend {
 public:
  explicit CpuBackend(const WeightOptions& options = {});
  std::string_view name() const override { return "cpu"; }
  std::unique_ptr<plan::Kernel> lower(const ir::Node& node) override;
  void finish() override { weights_.fill(); }

 private:
  WeightStore weights_;
};

}  // namespace quern::cpu
