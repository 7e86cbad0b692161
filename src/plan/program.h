#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "plan/backend.h"
#include "plan/memory_plan.h"

namespace quern::plan {

/// What a slot's bytes are. Every value of a graph has a slot; values that share bytes (views, states, in-place results) share a storage.
struct Storage {
  enum class Kind { constant, input, state, arena } kind = Kind::arena;
  const std::byte* constant = nullptr;  // of a constant
  int index = 0;                        // which input or state of the program, or which buffer of the arena
};

struct Slot {
  ir::Type type;
  std::string name;
  int storage = 0;
};

/// One kernel over numbered slots (-1: an absent optional input).
struct ProgramStep {
  std::unique_ptr<Kernel> kernel;
  std::unique_ptr<ir::Node> node;  // attributes for the kernel; its values are gone
  std::vector<int> inputs, outputs;
  /// The steps that made what it reads, or used what it overwrites, ascending.
  std::vector<int> needs;
  /// All steps up to this one must be done before this one starts: the last that it needs. -1: none.
  int wait_for = -1;
};

/// A graph made ready to run: a flat list of steps over numbered slots in one arena, with sizes as formulas of the graph's symbols.
/// Immutable; sessions share it and its prepacked constants. Keeps alive the files that its constants lie in.
class Program {
 public:
  /// Gives each node to the first backend that can lower it, decides which values share buffers, and finds the hazards.
  /// `graph` is read only; constants that kernels prepacked are not needed again, others are referred to.
  /// Errors: unsupported (no backend has the node), resource_exhausted.
  static std::shared_ptr<const Program> compile(const ir::Graph& graph, std::span<Backend* const> backends);

  std::span<const Slot> slots() const { return slots_; }
  std::span<const Storage> storages() const { return storages_; }
  std::span<const ProgramStep> steps() const { return steps_; }
  const MemoryPlan& memory() const { return memory_; }
  /// Slots of the graph's inputs that are no states, of its states, and of its outputs that are no states, each in the graph's order.
  std::span<const int> inputs() const { return inputs_; }
  std::span<const int> states() const { return states_; }
  std::span<const int> outputs() const { return outputs_; }
  /// The symbols whose values a binding gives, sorted by name.
  std::span<const std::string> symbols() const { return symbols_; }

 private:
  friend class Compiler;
  std::vector<Slot> slots_;
  std::vector<Storage> storages_;
  std::vector<ProgramStep> steps_;
  MemoryPlan memory_;
  std::vector<int> inputs_, states_, outputs_;
  std::vector<std::string> symbols_;
  std::vector<std::shared_ptr<const ir::Constant>> constants_;
};

}  // namespace quern::plan
