#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "ir/op.h"

namespace quern::plan {

/// How a step divides at given shapes: `units` pieces that may run in any order, on any workers, at the same time; and roughly what one
/// costs on one core, which decides how many workers the step is worth.
struct Split {
  std::int64_t units = 1;
  double unit_nanoseconds = 1e3;
};

/// One node, lowered for a device: immutable, shared by all sessions of a model. All checks are made when it is lowered or bound; run()
/// cannot fail.
class Kernel {
 public:
  virtual ~Kernel() = default;

  /// Called once a binding (shapes fixed, data pointers not yet set).
  virtual Split split(const ir::Call& call) const = 0;
  /// Bytes that one worker needs beside inputs and outputs while it runs; given to run() aligned to 64.
  virtual std::int64_t scratch_bytes(const ir::Call&) const { return 0; }
  /// Bytes, in the symbols of the graph, that all units of the step share beside inputs and outputs. They lie in the arena, begin with
  /// nothing of meaning, and are given to split() and run() as one more output: u8 [bytes]. 0: none, and no such output.
  virtual ir::Dim workspace_bytes() const { return 0; }
  /// What must run when all units have, on the same call and workspace, as a step of its own: for work that only pays where it is cut finer
  /// than the outputs are. Null: nothing. Asked once, when the kernel takes its place in a program.
  virtual std::unique_ptr<Kernel> second() const { return nullptr; }
  /// Memory that units [begin, end) read whatever the inputs say, such as weights: piece `i` of it, empty past the last. A worker that
  /// waits for earlier steps fetches it into its cache meanwhile.
  virtual std::span<const std::byte> constants(const ir::Call&, std::int64_t, std::int64_t, std::size_t) const noexcept { return {}; }
  /// Computes units [begin, end). What a unit writes depends on the inputs alone, never on which units run together (promise 1).
  virtual void run(const ir::Call& call, std::int64_t begin, std::int64_t end, std::byte* scratch) const noexcept = 0;
  /// For profiles and `quern inspect`: which kernel this is, e.g. "linear q4_1 avx512vnni".
  virtual const char* name() const = 0;
};

}  // namespace quern::plan
