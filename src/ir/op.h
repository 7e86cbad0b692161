#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "ir/tensor_view.h"

namespace quern::ir {

/// What an op's shape inference sees and sets. Inference never looks at run-time data, only at types, attributes, and contents known at
/// compile time.
class InferContext {
 public:
  explicit InferContext(Node& node) : node_(node) {}

  const Node& node() const { return node_; }
  std::size_t inputs() const { return node_.inputs.size(); }
  bool has(std::size_t i) const { return node_.has_input(i); }
  const Type& type(std::size_t i) const;
  const Shape& shape(std::size_t i) const { return type(i).shape; }
  DType dtype(std::size_t i) const { return type(i).dtype; }
  std::int64_t rank(std::size_t i) const { return static_cast<std::int64_t>(shape(i).size()); }
  /// Elements of input i as expressions, when known at compile time; null otherwise.
  const std::vector<Dim>* contents(std::size_t i) const;
  /// As contents(), but an error that names the input when they are not known.
  const std::vector<Dim>& required_contents(std::size_t i) const;
  /// An axis attribute or value brought into [0, rank). Errors when outside [-rank, rank).
  std::int64_t axis(std::int64_t value, std::int64_t rank) const;

  void set_output(std::size_t i, Type type);
  void set_contents(std::size_t i, std::vector<Dim> contents);
  /// Throws invalid_argument "op name: message" with the node's name.
  [[noreturn]] void fail(std::string_view message) const;

 private:
  Node& node_;
};

/// What a pass or the plan may assume of an op.
enum class Trait : std::uint32_t {
  none = 0,
  pure = 1 << 0,          // outputs depend on inputs and attributes alone
  elementwise = 1 << 1,   // output element i depends on element i of each (broadcast) input
  view = 1 << 2,          // output 0 has the bytes of input 0 in the same order: no kernel runs
  in_place = 1 << 3,      // output 0 may take the buffer of input 0
  writes_state = 1 << 4,  // output 0 is input 0 changed in place; input 0 is a state
};
constexpr Trait operator|(Trait a, Trait b) { return Trait(std::uint32_t(a) | std::uint32_t(b)); }
constexpr bool has(Trait set, Trait t) { return (std::uint32_t(set) & std::uint32_t(t)) != 0; }

/// An attribute with its default; monostate as default means required.
struct AttributeSpec {
  std::string_view name;
  Attribute default_value;
};

/// The views of one call: absent optional inputs are null.
struct Call {
  const Node* node;
  const TensorView* const* inputs;
  const TensorView* const* outputs;

  const TensorView& in(std::size_t i) const { return *inputs[i]; }
  const TensorView& out(std::size_t i) const { return *outputs[i]; }
  bool has(std::size_t i) const { return i < node->inputs.size() && inputs[i] != nullptr; }
  /// For what only the data can tell (an index out of range): the run ends with an invalid_argument that says `what` (a literal) and names
  /// the node. The kernel goes on or returns, but touches no memory that is not its own.
  void fail(const char* what) const {
    if (failure != nullptr) failure->store(what, std::memory_order_relaxed);
  }

  std::atomic<const char*>* failure = nullptr;
};

/// All that the project knows of an operation's meaning.
struct Op {
  static constexpr int kVariadic = -1;

  std::string_view name;
  int min_inputs = 1;
  int max_inputs = 1;  // kVariadic: no limit
  int outputs = 1;     // kVariadic: as many as the attribute `outputs` says
  std::vector<AttributeSpec> attributes = {};
  void (*infer)(InferContext&) = nullptr;
  /// Scalar C++, sums in f64, obviously right: the oracle of every fast kernel, and what runs where there is none. May not throw.
  void (*reference)(const Call&) = nullptr;
  Trait traits = Trait::pure;

  // What a call costs whatever kernel runs it; for profiles, after the run. An operand may have been overwritten by then, so its values
  // only count: they lead to no memory.
  /// Arithmetic: a multiplication and an addition count as two. Null: one an element of output 0 when elementwise, else none.
  double (*operations)(const Call&) = nullptr;
  /// Bytes read or written of operand i (inputs, then outputs) of those that are there, where that is not always the whole. Null: the
  /// whole, and then the sizes alone decide what the call costs, not the data.
  double (*touched_bytes)(const Call&, std::size_t i) = nullptr;
};

/// The ops that a text may name; `ops/registry.h` has the project's own list.
using OpLookup = const Op* (*)(std::string_view name);

}  // namespace quern::ir
