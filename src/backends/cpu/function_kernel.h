#pragma once

#include <memory>

#include "plan/kernel.h"

namespace quern::cpu {

/// A kernel that needs nothing but its call: no prepacked weights. One constant table of these per kernel file.
struct KernelFunctions {
  const char* name;
  plan::Split (*split)(const ir::Call&);
  void (*run)(const ir::Call&, std::int64_t begin, std::int64_t end, std::byte* scratch) noexcept;
  std::int64_t (*scratch_bytes)(const ir::Call&) = nullptr;
};

/// `functions` must outlive the kernel.
std::unique_ptr<plan::Kernel> make_kernel(const KernelFunctions& functions);

}  // namespace quern::cpu
