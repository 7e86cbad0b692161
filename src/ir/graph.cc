#include "ir/graph.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "ir/detail/signature.h"
#include "ir/op.h"

namespace quern::ir {
namespace {

template <class T>
const T& attribute(const Node& node, std::string_view name) {
  const auto found = node.attributes.find(name);
  const T* value = found == node.attributes.end() ? nullptr : std::get_if<T>(&found->second);
  if (value == nullptr)
    throw Error(found == node.attributes.end() ? Code::internal : Code::invalid_argument,
                std::string(node.op->name) + ": attribute '" + std::string(name) +
                    (found == node.attributes.end() ? "' is missing" : "' has the wrong type"))
        .in("node '" + node.name + "'");
  return *value;
}

constexpr std::int64_t kMaxContents = 64;

std::optional<std::vector<Dim>> contents_of(const Type& type, const std::byte* data) {
  if (type.shape.size() > 1 || (type.dtype != DType::i64 && type.dtype != DType::i32)) return std::nullopt;
  const auto count = element_count(type.shape).constant();
  if (!count || *count > kMaxContents) return std::nullopt;
  std::vector<Dim> out;
  for (std::int64_t i = 0; i < *count; ++i) {
    if (type.dtype == DType::i64) {
      std::int64_t v;
      std::memcpy(&v, data + i * 8, 8);
      out.emplace_back(v);
    } else {
      std::int32_t v;
      std::memcpy(&v, data + i * 4, 4);
      out.emplace_back(v);
    }
  }
  return out;
}

std::string describe(const Op& op, std::string_view name) {
  return name.empty() ? std::string(op.name) : std::string(op.name) + " '" + std::string(name) + "'";
}

}  // namespace

void detail::check_signature(const Op& op, const std::vector<Value*>& inputs, Attributes& attributes, std::string_view name) {
  const int n = static_cast<int>(inputs.size());
  if (n < op.min_inputs || (op.max_inputs != Op::kVariadic && n > op.max_inputs))
    throw Error(Code::invalid_argument, describe(op, name) + " takes " + std::to_string(op.min_inputs) +
                                            (op.max_inputs == op.min_inputs   ? ""
                                             : op.max_inputs == Op::kVariadic ? " or more"
                                                                              : " to " + std::to_string(op.max_inputs)) +
                                            " inputs, not " + std::to_string(n));
  for (int i = 0; i < op.min_inputs; ++i)
    if (inputs[i] == nullptr) throw Error(Code::invalid_argument, describe(op, name) + ": input " + std::to_string(i) + " is missing");
  for (const auto& [key, value] : attributes) {
    const auto spec = std::find_if(op.attributes.begin(), op.attributes.end(), [&](const AttributeSpec& s) { return s.name == key; });
    if (spec == op.attributes.end()) throw Error(Code::invalid_argument, describe(op, name) + " has no attribute '" + key + "'");
    // A required attribute has no default to tell its type: inference asks for the type it needs.
    const bool required = std::holds_alternative<std::monostate>(spec->default_value);
    if (std::holds_alternative<std::monostate>(value) || (!required && spec->default_value.index() != value.index()))
      throw Error(Code::invalid_argument, describe(op, name) + ": attribute '" + key + "' has the wrong type");
  }
  for (const AttributeSpec& spec : op.attributes) {
    if (attributes.contains(spec.name)) continue;
    if (std::holds_alternative<std::monostate>(spec.default_value))
      throw Error(Code::invalid_argument, describe(op, name) + ": attribute '" + std::string(spec.name) + "' is missing");
    attributes.emplace(spec.name, spec.default_value);
  }
}

std::int64_t Node::integer(std::string_view name) const { return attribute<std::int64_t>(*this, name); }
double Node::number(std::string_view name) const { return attribute<double>(*this, name); }
const std::string& Node::text(std::string_view name) const { return attribute<std::string>(*this, name); }
DType Node::dtype(std::string_view name) const { return attribute<DType>(*this, name); }
const std::vector<std::int64_t>& Node::integers(std::string_view name) const { return attribute<std::vector<std::int64_t>>(*this, name); }

Graph::Graph(std::string name, Graph* parent) : name_(std::move(name)), parent_(parent) {}
Graph::~Graph() = default;

Graph& Graph::root() {
  Graph* g = this;
  while (g->parent_ != nullptr) g = g->parent_;
  return *g;
}

Value* Graph::new_value(std::string_view name, Type type) {
  for (const Dim& d : type.shape)
    if (const auto high = d.upper_bound(); high && *high < 0)
      throw Error(Code::invalid_argument, "a dimension is negative: " + ir::to_string(type));
  if (type.shape.size() > kMaxRank)
    throw Error(Code::unsupported, "tensors of rank " + std::to_string(type.shape.size()) + " are not supported").hint("at most 8");
  auto value = std::make_unique<Value>();
  value->id = root().next_id_++;
  value->type = std::move(type);
  Value* raw = value.get();
  values_.push_back(std::move(value));
  rename(raw, name);
  return raw;
}

void Graph::rename(Value* value, std::string_view name) {
  auto& used = root().used_names_;
  if (!value->name.empty()) used.erase(value->name);
  std::string wanted = name.empty() ? "v" + std::to_string(value->id) : std::string(name);
  const auto found = used.find(wanted);
  if (found == used.end()) {
    used.emplace(wanted, 1);
  } else {
    std::string candidate;
    do candidate = wanted + "_" + std::to_string(found->second++);
    while (used.contains(candidate));
    used.emplace(candidate, 1);
    wanted = std::move(candidate);
  }
  value->name = std::move(wanted);
}

Value* Graph::add_input(std::string_view name, Type type) {
  Value* v = new_value(name, std::move(type));
  inputs_.push_back(v);
  return v;
}

Value* Graph::add_constant(Type type, std::shared_ptr<const Constant> constant) {
  const auto bytes = byte_size(type).constant();
  if (!bytes || *bytes < 0 || static_cast<std::size_t>(*bytes) != constant->bytes)
    throw Error(Code::invalid_argument,
                "constant '" + constant->name + "' of type " + ir::to_string(type) + " has " + std::to_string(constant->bytes) + " bytes");
  Value* v = new_value(constant->name, std::move(type));
  v->contents = contents_of(v->type, constant->data);
  v->constant = std::move(constant);
  constants_.push_back(v);
  return v;
}

Value* Graph::add_constant(std::string_view name, Type type, std::span<const std::byte> bytes) {
  auto storage = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
  auto constant = std::make_shared<Constant>();
  constant->name = name;
  constant->data = storage->data();
  constant->bytes = storage->size();
  constant->owner = std::move(storage);
  return add_constant(std::move(type), std::move(constant));
}

Value* Graph::add_scalar(float value) { return add_constant("", Type{DType::f32, {}}, std::as_bytes(std::span(&value, 1))); }

Value* Graph::add_integers(std::span<const std::int64_t> values, bool scalar) {
  Type type{DType::i64, {}};
  if (!scalar) type.shape.emplace_back(static_cast<std::int64_t>(values.size()));
  return add_constant("", std::move(type), std::as_bytes(values));
}

std::unique_ptr<Node> Graph::make_node(const Op& op, std::vector<Value*> inputs, Attributes attributes, std::string_view name,
                                       std::vector<std::unique_ptr<Graph>> regions) {
  while (!inputs.empty() && inputs.back() == nullptr) inputs.pop_back();
  detail::check_signature(op, inputs, attributes, name);
  auto node = std::make_unique<Node>();
  node->op = &op;
  node->name = name;
  node->inputs = std::move(inputs);
  node->attributes = std::move(attributes);
  node->regions = std::move(regions);
  std::int64_t count = op.outputs;
  if (op.outputs == Op::kVariadic) {
    count = node->attributes.contains("outputs") ? node->integer("outputs") : 1;
    if (count < 1 || count > 4096) InferContext(*node).fail("has an impossible number of outputs");
  }
  // Outputs exist before inference sets their types. A node that inference refuses leaves nothing behind.
  const std::size_t values_before = values_.size();
  try {
    for (std::int64_t i = 0; i < count; ++i) {
      Value* v = new_value(i == 0 || name.empty() ? std::string(name) : std::string(name) + "." + std::to_string(i), Type{});
      v->producer = node.get();
      v->producer_output = static_cast<int>(i);
      node->outputs.push_back(v);
    }
    InferContext context(*node);
    op.infer(context);
  } catch (...) {
    for (std::size_t i = values_before; i < values_.size(); ++i) root().used_names_.erase(values_[i]->name);
    values_.resize(values_before);
    throw;
  }
  return node;
}

Node* Graph::append(const Op& op, std::vector<Value*> inputs, Attributes attributes, std::string_view name,
                    std::vector<std::unique_ptr<Graph>> regions) {
  nodes_.push_back(make_node(op, std::move(inputs), std::move(attributes), name, std::move(regions)));
  return nodes_.back().get();
}

Node* Graph::insert_before(const Node* position, const Op& op, std::vector<Value*> inputs, Attributes attributes, std::string_view name,
                           std::vector<std::unique_ptr<Graph>> regions) {
  const auto at = std::find_if(nodes_.begin(), nodes_.end(), [&](const auto& n) { return n.get() == position; });
  QUERN_ASSERT(at != nodes_.end());
  const auto index = at - nodes_.begin();
  auto node = make_node(op, std::move(inputs), std::move(attributes), name, std::move(regions));
  return nodes_.insert(nodes_.begin() + index, std::move(node))->get();
}

void Graph::set_outputs(std::vector<Value*> outputs) { outputs_ = std::move(outputs); }

void Graph::replace_uses(const Value* from, Value* to) {
  for (auto& node : nodes_) {
    std::replace(node->inputs.begin(), node->inputs.end(), const_cast<Value*>(from), to);
    for (auto& region : node->regions) region->replace_uses(from, to);
  }
  std::replace(outputs_.begin(), outputs_.end(), const_cast<Value*>(from), to);
}

namespace {
void collect_uses(const Graph& graph, std::unordered_set<const Value*>& used) {
  for (const auto& node : graph.nodes()) {
    used.insert(node->inputs.begin(), node->inputs.end());
    for (const auto& region : node->regions) collect_uses(*region, used);
  }
  used.insert(graph.outputs().begin(), graph.outputs().end());
}

bool has_effect(const Node& node) {
  return !has(node.op->traits, Trait::pure) || std::any_of(node.regions.begin(), node.regions.end(), [](const auto& region) {
    return std::any_of(region->nodes().begin(), region->nodes().end(), [](const auto& inner) { return has_effect(*inner); });
  });
}
}  // namespace

int Graph::remove_unused() {
  std::unordered_set<const Value*> used(outputs_.begin(), outputs_.end());
  std::vector<std::unique_ptr<Node>> kept;
  int removed = 0;
  for (auto it = nodes_.rbegin(); it != nodes_.rend(); ++it) {
    Node& node = **it;
    const bool wanted =
        has_effect(node) || std::any_of(node.outputs.begin(), node.outputs.end(), [&](const Value* v) { return used.contains(v); });
    if (!wanted) {
      ++removed;
      continue;
    }
    used.insert(node.inputs.begin(), node.inputs.end());
    for (const auto& region : node.regions) {
      removed += region->remove_unused();
      collect_uses(*region, used);
    }
    kept.push_back(std::move(*it));
  }
  std::reverse(kept.begin(), kept.end());
  std::unordered_set<const Node*> alive;
  for (const auto& node : kept) alive.insert(node.get());
  nodes_ = std::move(kept);
  std::erase_if(constants_, [&](const Value* v) { return !used.contains(v); });
  std::erase_if(values_, [&](const auto& v) {
    const bool dead = v->producer ? !alive.contains(v->producer) : v->constant && !used.contains(v.get());
    if (dead) root().used_names_.erase(v->name);
    return dead;
  });
  return removed;
}

std::vector<std::string> input_symbols(const Graph& graph) {
  std::set<std::string> symbols;
  for (const Value* v : graph.inputs())
    for (const Dim& d : v->type.shape) d.collect_symbols(symbols);
  return {symbols.begin(), symbols.end()};
}

const Type& InferContext::type(std::size_t i) const {
  if (!node_.has_input(i)) fail("input " + std::to_string(i) + " is missing");
  return node_.inputs[i]->type;
}

const std::vector<Dim>* InferContext::contents(std::size_t i) const {
  return node_.has_input(i) && node_.inputs[i]->contents ? &*node_.inputs[i]->contents : nullptr;
}

const std::vector<Dim>& InferContext::required_contents(std::size_t i) const {
  const auto* known = contents(i);
  if (known == nullptr) fail("the values of input " + std::to_string(i) + " must be known when the graph is compiled");
  return *known;
}

std::int64_t InferContext::axis(std::int64_t value, std::int64_t rank) const {
  if (value < -rank || value >= rank) fail("axis " + std::to_string(value) + " is outside a tensor of rank " + std::to_string(rank));
  return value < 0 ? value + rank : value;
}

void InferContext::set_output(std::size_t i, Type type) {
  QUERN_ASSERT(i < node_.outputs.size());
  if (type.shape.size() > kMaxRank) fail("makes a tensor of rank " + std::to_string(type.shape.size()) + "; at most 8 are supported");
  for (const Dim& d : type.shape)
    if (const auto high = d.upper_bound(); high && *high < 0) fail("makes a negative dimension: " + ir::to_string(type));
  node_.outputs[i]->type = std::move(type);
}

void InferContext::set_contents(std::size_t i, std::vector<Dim> contents) {
  if (static_cast<std::int64_t>(contents.size()) <= kMaxContents) node_.outputs[i]->contents = std::move(contents);
}

void InferContext::fail(std::string_view message) const {
  Error error(Code::invalid_argument, std::string(node_.op->name) + ": " + std::string(message));
  if (!node_.name.empty()) error.in("node '" + node_.name + "'");
  throw error;
}

}  // namespace quern::ir
