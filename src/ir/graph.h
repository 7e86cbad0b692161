#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/type.h"

namespace quern::ir {

struct Op;
class Graph;
class Node;

/// The bytes behind a constant: they lie in a mapped file (or in memory that `owner` keeps alive); a graph owns none of them.
struct Constant {
  std::string name;                 // the tensor's name in its file; may be empty for small made-up constants
  const std::byte* data = nullptr;  // byte_size(type) bytes, natural alignment not guaranteed
  std::size_t bytes = 0;
  std::shared_ptr<const void> owner;  // what must outlive the graph
};

/// An SSA value: a graph input, a constant, or an output of a node. Its type is always set.
struct Value {
  int id = 0;        // unique in its graph (with its regions)
  std::string name;  // for messages and the text form; unique in its graph
  Type type;
  Node* producer = nullptr;  // null for graph inputs and constants
  int producer_output = 0;
  std::shared_ptr<const Constant> constant;
  /// For small integer tensors (rank ≤ 1, at most 64 elements) whose elements are known as expressions of the symbols: what makes
  /// Shape → Gather → Concat → Reshape chains vanish at compile time.
  std::optional<std::vector<Dim>> contents;
};

using Attribute = std::variant<std::monostate, std::int64_t, double, std::string, DType, std::vector<std::int64_t>, std::vector<double>,
                               std::vector<std::string>>;
using Attributes = std::map<std::string, Attribute, std::less<>>;

/// One operation. Absent optional inputs are null.
class Node {
 public:
  const Op* op = nullptr;
  std::string name;
  std::vector<Value*> inputs;
  std::vector<Value*> outputs;
  Attributes attributes;                        // defaults filled in
  std::vector<std::unique_ptr<Graph>> regions;  // bodies (of If, Loop, Scan, fused); they may use values of the graphs around them

  std::int64_t integer(std::string_view attribute) const;
  double number(std::string_view attribute) const;
  const std::string& text(std::string_view attribute) const;
  DType dtype(std::string_view attribute) const;
  const std::vector<std::int64_t>& integers(std::string_view attribute) const;
  bool has_input(std::size_t i) const { return i < inputs.size() && inputs[i] != nullptr; }
};

/// A graph in SSA form: nodes in an order in which every value is made before it is used.
class Graph {
 public:
  explicit Graph(std::string name = "main", Graph* parent = nullptr);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  const std::string& name() const { return name_; }
  Graph* parent() const { return parent_; }
  std::span<Value* const> inputs() const { return inputs_; }
  std::span<Value* const> outputs() const { return outputs_; }
  std::span<Value* const> constants() const { return constants_; }
  std::span<const std::unique_ptr<Node>> nodes() const { return nodes_; }

  Value* add_input(std::string_view name, Type type);
  /// A constant over bytes that `constant->owner` keeps; small integer constants get `contents`.
  Value* add_constant(Type type, std::shared_ptr<const Constant> constant);
  /// A small constant with bytes of its own.
  Value* add_constant(std::string_view name, Type type, std::span<const std::byte> bytes);
  Value* add_scalar(float value);
  Value* add_integers(std::span<const std::int64_t> values, bool scalar = false);

  /// Appends a node: checks inputs and attributes against the op, infers the outputs' types, fills in defaults.
  /// Errors: invalid_argument naming op, node, input or attribute.
  Node* append(const Op& op, std::vector<Value*> inputs, Attributes attributes = {}, std::string_view name = {},
               std::vector<std::unique_ptr<Graph>> regions = {});
  /// The same, placed before another node of this graph (for passes).
  Node* insert_before(const Node* position, const Op& op, std::vector<Value*> inputs, Attributes attributes = {},
                      std::string_view name = {}, std::vector<std::unique_ptr<Graph>> regions = {});

  void set_outputs(std::vector<Value*> outputs);
  /// Every use of `from`, in nodes, regions and outputs, becomes `to`.
  void replace_uses(const Value* from, Value* to);
  /// Removes nodes without side effect and constants that nothing uses, in regions too. Returns how many nodes went.
  int remove_unused();
  /// Names are made unique by a suffix; an empty name becomes "v<id>".
  void rename(Value* value, std::string_view name);

 private:
  friend struct GraphAccess;
  Value* new_value(std::string_view name, Type type);
  std::unique_ptr<Node> make_node(const Op& op, std::vector<Value*> inputs, Attributes attributes, std::string_view name,
                                  std::vector<std::unique_ptr<Graph>> regions);
  Graph& root();

  std::string name_;
  Graph* parent_;
  std::vector<std::unique_ptr<Value>> values_;
  std::vector<Value*> inputs_, outputs_, constants_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::map<std::string, int, std::less<>> used_names_;  // of the root graph only
  int next_id_ = 0;                                     // of the root graph only
};

/// All symbols that the types of a graph's inputs name.
std::vector<std::string> input_symbols(const Graph& graph);

}  // namespace quern::ir
