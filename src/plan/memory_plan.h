#pragma once

#include <span>
#include <vector>

#include "ir/dim.h"

namespace quern::plan {

/// The arena: buffers one after the other, each the size of the largest value that ever lies in it.
struct MemoryPlan {
  std::vector<ir::Dim> buffers;  // bytes, each a multiple of 64

  ir::Dim total() const;
};

/// When a storage is in use: from the step that first writes it to the last that reads it.
struct Lifetime {
  ir::Dim bytes;
  int first = 0, last = 0;
};

/// Gives each lifetime a buffer so that no two that overlap share one, growing a buffer where that is provably no larger than a new one.
/// Returns the buffer of each, and fills `plan`.
std::vector<int> assign_buffers(std::span<const Lifetime> lifetimes, MemoryPlan& plan);

}  // namespace quern::plan
