#pragma once

#include <memory>
#include <string_view>

#include "ir/graph.h"
#include "plan/kernel.h"

namespace quern::plan {

/// A device that can run nodes. The plan asks each backend about each node and lets the cheapest one lower it.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  /// Lowers a node to a kernel, prepacking the constants it reads; null when this backend cannot run it.
  /// Errors: resource_exhausted when prepacked constants do not fit.
  virtual std::unique_ptr<Kernel> lower(const ir::Node& node) = 0;
  /// Called when all nodes of a program are lowered, before any kernel runs: does what lower() put off, such as prepacking everything at
  /// once. Errors: resource_exhausted.
  virtual void finish() {}
};

}  // namespace quern::plan
