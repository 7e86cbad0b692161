#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "ir/op.h"
#include "passes/passes.h"

namespace quern::passes {
namespace {

constexpr std::int64_t kMaxElements = std::int64_t{1} << 23;
constexpr auto kMaxTime = std::chrono::seconds(10);

ir::TensorView static_view(const ir::Value& value, const std::byte* data) {
  ir::TensorView view;
  view.data = const_cast<std::byte*>(data);
  view.dtype = value.type.dtype;
  view.rank = static_cast<std::int64_t>(value.type.shape.size());
  for (std::int64_t i = 0; i < view.rank; ++i) view.dims[i] = *value.type.shape[i].constant();
  return view;
}

std::optional<std::int64_t> static_bytes(const ir::Value& value) {
  for (const ir::Dim& d : value.type.shape)
    if (!d.is_constant()) return std::nullopt;
  return byte_size(value.type).constant();
}

/// The node's outputs, computed now; nothing when it is not made of constants, or too large, or fails on its data.
std::optional<std::vector<ir::Value*>> evaluate(ir::Graph& graph, const ir::Node& node, std::int64_t& bytes_left) {
  if (!has(node.op->traits, ir::Trait::pure) || node.op->reference == nullptr || !node.regions.empty() || node.inputs.empty())
    return std::nullopt;
  std::vector<ir::TensorView> views;
  views.reserve(node.inputs.size() + node.outputs.size());
  std::vector<const ir::TensorView*> pointers;
  for (const ir::Value* value : node.inputs) {
    if (value != nullptr && value->constant == nullptr) return std::nullopt;
    if (value != nullptr) views.push_back(static_view(*value, value->constant->data));
    pointers.push_back(value == nullptr ? nullptr : &views.back());
  }
  std::vector<std::shared_ptr<std::vector<std::byte>>> results;
  std::int64_t needed = 0;
  for (const ir::Value* value : node.outputs) {
    const auto bytes = static_bytes(*value);
    if (!bytes || *bytes < 0 || *bytes > bytes_left - needed) return std::nullopt;
    needed += *bytes;
    results.push_back(std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(*bytes)));
    views.push_back(static_view(*value, results.back()->data()));
    pointers.push_back(&views.back());
  }
  // The work of an op that is not element-wise may be the product of its sizes.
  if (!has(node.op->traits, ir::Trait::elementwise) &&
      std::any_of(views.begin(), views.end(), [](const ir::TensorView& v) { return v.elements() > kMaxElements; }))
    return std::nullopt;
  bytes_left -= needed;
  std::atomic<const char*> failure{nullptr};
  node.op->reference(ir::Call{&node, pointers.data(), pointers.data() + node.inputs.size(), &failure});
  if (failure.load() != nullptr) return std::nullopt;
  std::vector<ir::Value*> constants;
  for (std::size_t i = 0; i < results.size(); ++i) {
    auto constant = std::make_shared<ir::Constant>();
    constant->name = node.outputs[i]->name + ".folded";
    constant->data = results[i]->data();
    constant->bytes = results[i]->size();
    constant->owner = results[i];
    constants.push_back(graph.add_constant(node.outputs[i]->type, std::move(constant)));
  }
  return constants;
}

/// A constant of what inference already knows of a value.
std::optional<ir::Value*> from_contents(ir::Graph& graph, const ir::Value& value) {
  if (!value.contents || (value.type.dtype != ir::DType::i64 && value.type.dtype != ir::DType::i32)) return std::nullopt;
  std::vector<std::byte> bytes;
  for (const ir::Dim& d : *value.contents) {
    const auto known = d.constant();
    if (!known) return std::nullopt;
    const auto* p = reinterpret_cast<const std::byte*>(&*known);  // little-endian: the low half is the i32
    bytes.insert(bytes.end(), p, p + ir::block_bytes(value.type.dtype));
  }
  return graph.add_constant(value.name + ".known", value.type, bytes);
}

}  // namespace

void fold_constants(ir::Graph& graph, std::int64_t max_bytes) {
  const auto end = std::chrono::steady_clock::now() + kMaxTime;
  std::vector<ir::Node*> nodes;
  for (const auto& node : graph.nodes()) nodes.push_back(node.get());
  for (ir::Node* node : nodes) {
    if (node->outputs.size() == 1)
      if (const auto known = from_contents(graph, *node->outputs[0])) {
        graph.replace_uses(node->outputs[0], *known);
        continue;
      }
    if (std::chrono::steady_clock::now() > end) continue;
    if (const auto constants = evaluate(graph, *node, max_bytes))
      for (std::size_t i = 0; i < constants->size(); ++i) graph.replace_uses(node->outputs[i], (*constants)[i]);
  }
  graph.remove_unused();
}

void fold_constants(ir::Graph& graph) {
  std::int64_t bytes = 0;
  for (const ir::Value* value : graph.constants()) bytes += static_cast<std::int64_t>(value->constant->bytes);
  fold_constants(graph, (std::int64_t{64} << 20) + 8 * bytes);
}

}  // namespace quern::passes
