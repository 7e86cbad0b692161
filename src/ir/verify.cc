#include "ir/verify.h"

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "ir/detail/signature.h"
#include "ir/op.h"

namespace quern::ir {
namespace {

[[noreturn]] void fail(const std::string& message) { throw Error(Code::invalid_argument, message); }

std::string text(const Value* value) { return value == nullptr ? "nothing" : "%" + value->name; }

/// "linear %y"; nodes without outputs go by their own name.
std::string text(const Node& node) {
  std::string out(node.op->name);
  if (!node.outputs.empty() && node.outputs[0] != nullptr) return out + " " + text(node.outputs[0]);
  return node.name.empty() ? out : out + " '" + node.name + "'";
}

std::string text(const Graph& graph) { return "graph '" + graph.name() + "'"; }

/// A node for inference to write on, so that the real one stays as it is. It borrows the regions.
struct Scratch {
  explicit Scratch(const Node& real) {
    node.op = real.op;
    node.name = real.name;
    node.inputs = real.inputs;
    node.attributes = real.attributes;
    for (const auto& region : real.regions) node.regions.emplace_back(region.get());
    values.resize(real.outputs.size());
    for (Value& v : values) {
      v.producer = &node;
      v.producer_output = static_cast<int>(node.outputs.size());
      node.outputs.push_back(&v);
    }
  }
  ~Scratch() {
    for (auto& region : node.regions) region.release();
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  Node node;
  std::vector<Value> values;
};

class Verifier {
 public:
  explicit Verifier(const Graph& graph) {
    collect(graph);
    for (const Graph* g = graph.parent(); g != nullptr; g = g->parent()) {
      for (const Value* v : g->inputs()) visible_.insert(v);
      for (const Value* v : g->constants()) visible_.insert(v);
      for (const auto& node : g->nodes()) visible_.insert(node->outputs.begin(), node->outputs.end());
    }
  }

  void check(const Graph& graph) {
    open_.insert(&graph);
    std::vector<const Value*> made_here;
    const auto make = [&](const Value* v) {
      visible_.insert(v);
      made_here.push_back(v);
    };
    for (const Value* v : graph.inputs()) {
      if (v->producer != nullptr || v->constant != nullptr) fail("input " + text(v) + " of " + text(graph) + " is made by something else");
      check_type(*v);
      make(v);
    }
    for (const Value* v : graph.constants()) {
      check_constant(*v);
      make(v);
    }
    for (const auto& node : graph.nodes()) {
      check_node(*node);
      for (const Value* v : node->outputs) make(v);
    }
    for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
      const Value* v = graph.outputs()[i];
      if (v == nullptr) fail("output " + std::to_string(i) + " of " + text(graph) + " is missing");
      check_use("output " + std::to_string(i) + " of " + text(graph), v);
    }
    for (const Value* v : made_here) visible_.erase(v);
    open_.erase(&graph);
  }

 private:
  /// Every value of the graph and its regions, with the graph that makes it; finds doubles on the way.
  void collect(const Graph& graph) {
    const auto add = [&](const Value* v, const std::string& maker) {
      if (v == nullptr) fail(maker + " makes a missing value");
      if (!home_.emplace(v, &graph).second) fail(text(v) + " is made twice");
      if (v->name.empty()) fail(maker + " makes a value without a name");
      if (!names_.insert(v->name).second) fail("two values are named " + text(v));
    };
    for (const Value* v : graph.inputs()) add(v, text(graph));
    for (const Value* v : graph.constants()) add(v, text(graph));
    for (const auto& node : graph.nodes()) {
      if (node->op == nullptr) fail("node '" + node->name + "' has no op");
      for (const Value* v : node->outputs) add(v, text(*node));
      for (const auto& region : node->regions) {
        if (region == nullptr) fail(text(*node) + ": a region is missing");
        if (region->parent() != &graph) fail(text(*node) + ": region '" + region->name() + "' does not lie in " + text(graph));
        collect(*region);
      }
    }
  }

  static void check_type(const Value& v) {
    if (v.type.shape.size() > kMaxRank) fail(text(&v) + " has rank " + std::to_string(v.type.shape.size()));
    for (const Dim& d : v.type.shape)
      if (const auto high = d.upper_bound(); high && *high < 0) fail(text(&v) + " has a negative dimension: " + to_string(v.type));
    if (v.contents && !(Dim(static_cast<std::int64_t>(v.contents->size())) == element_count(v.type.shape)))
      fail(text(&v) + " is " + to_string(v.type) + ", but " + std::to_string(v.contents->size()) + " elements are known");
  }

  static void check_constant(const Value& v) {
    if (v.constant == nullptr || v.producer != nullptr) fail("constant " + text(&v) + " has no bytes");
    check_type(v);
    const auto bytes = byte_size(v.type).constant();
    if (!bytes) fail("constant " + text(&v) + " has no constant size: " + to_string(v.type));
    if (static_cast<std::size_t>(*bytes) != v.constant->bytes)
      fail("constant " + text(&v) + " is " + to_string(v.type) + ", which takes " + std::to_string(*bytes) + " bytes, not " +
           std::to_string(v.constant->bytes));
  }

  void check_use(const std::string& user, const Value* v) const {
    if (!visible_.contains(v)) {
      // A stranger may be gone already: it is not looked at.
      const auto home = home_.find(v);
      if (home == home_.end()) fail(user + " uses a value of another graph");
      if (open_.contains(home->second)) fail(user + " uses " + text(v) + " before it is made");
      fail(user + " uses " + text(v) + " outside " + text(*home->second) + ", which makes it");
    }
    if (const auto writer = overwritten_.find(v); writer != overwritten_.end())
      fail(user + " uses the state " + text(v) + " after " + text(*writer->second) + " overwrote it");
  }

  void check_node(const Node& node) {
    const std::string user = text(node);
    for (const Value* v : node.inputs)
      if (v != nullptr) check_use(user, v);
    check_signature(node);
    check_regions(node);
    check_inference(node);
    if (!has(node.op->traits, Trait::writes_state)) return;
    if (!node.has_input(0) || !node.inputs[0]->type.state) fail(user + " overwrites its input 0, which is no state");
    if (node.outputs.empty() || !node.outputs[0]->type.state) fail(user + " overwrites a state, but its output 0 is none");
    for (std::size_t i = 1; i < node.inputs.size(); ++i)
      if (node.inputs[i] == node.inputs[0]) fail(user + " overwrites the state " + text(node.inputs[0]) + " and reads it too");
    overwritten_.emplace(node.inputs[0], &node);
  }

  static void check_signature(const Node& node) {
    Attributes attributes = node.attributes;
    std::string name = node.name;
    if (name.empty() && !node.outputs.empty()) name = node.outputs[0]->name;
    detail::check_signature(*node.op, node.inputs, attributes, name);
    for (const auto& [key, value] : attributes)
      if (!node.attributes.contains(key)) fail(text(node) + ": attribute '" + key + "' is missing");
    std::int64_t count = node.op->outputs;
    if (count == Op::kVariadic) count = node.attributes.contains("outputs") ? node.integer("outputs") : 1;
    if (count != static_cast<std::int64_t>(node.outputs.size()))
      fail(text(node) + " has " + std::to_string(node.outputs.size()) + " outputs, not " + std::to_string(count));
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      if (node.outputs[i]->producer != &node || node.outputs[i]->producer_output != static_cast<int>(i))
        fail("output " + std::to_string(i) + " of " + text(node) + " does not know its maker");
  }

  /// One of the regions runs at a time, so each may overwrite the same state; after the node it is gone.
  void check_regions(const Node& node) {
    if (node.regions.empty()) return;
    const auto before = overwritten_;
    auto after = before;
    for (const auto& region : node.regions) {
      overwritten_ = before;
      check(*region);
      after.insert(overwritten_.begin(), overwritten_.end());
    }
    overwritten_ = std::move(after);
  }

  static void check_inference(const Node& node) {
    Scratch scratch(node);
    InferContext context(scratch.node);
    node.op->infer(context);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const Value &is = *node.outputs[i], &should = scratch.values[i];
      if (!(is.type == should.type))
        fail(text(&is) + " is " + to_string(is.type) + ", but " + std::string(node.op->name) + " makes " + to_string(should.type));
      if (is.contents && should.contents && *is.contents != *should.contents)
        fail("the known elements of " + text(&is) + " are not what " + std::string(node.op->name) + " makes");
      check_type(is);
    }
  }

  std::unordered_map<const Value*, const Graph*> home_;
  std::unordered_set<std::string_view> names_;
  std::unordered_set<const Value*> visible_;
  std::unordered_set<const Graph*> open_;  // graphs being walked
  std::unordered_map<const Value*, const Node*> overwritten_;
};

}  // namespace

void verify(const Graph& graph) { Verifier(graph).check(graph); }

}  // namespace quern::ir
