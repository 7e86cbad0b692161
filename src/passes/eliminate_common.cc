#include <bit>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "ir/op.h"
#include "passes/passes.h"

namespace quern::passes {

namespace {

/// The numbers among the attributes, as bits: -0.0 is another number than 0.0, and NaN has a place in an order.
std::vector<std::int64_t> bits_of_numbers(const ir::Attributes& attributes) {
  std::vector<std::int64_t> bits;
  for (const auto& [name, value] : attributes) {
    if (const auto* number = std::get_if<double>(&value)) bits.push_back(std::bit_cast<std::int64_t>(*number));
    if (const auto* list = std::get_if<std::vector<double>>(&value)) {
      bits.push_back(static_cast<std::int64_t>(list->size()));
      for (const double number : *list) bits.push_back(std::bit_cast<std::int64_t>(number));
    }
  }
  return bits;
}

ir::Attributes without_numbers(ir::Attributes attributes) {
  for (auto& [name, value] : attributes)
    if (std::holds_alternative<double>(value) || std::holds_alternative<std::vector<double>>(value)) value = std::monostate{};
  return attributes;
}

}  // namespace

void eliminate_common(ir::Graph& graph) {
  using Key = std::tuple<const ir::Op*, std::vector<ir::Value*>, ir::Attributes, std::vector<std::int64_t>, std::size_t>;
  std::map<Key, const ir::Node*> first;
  for (const auto& node : graph.nodes()) {
    if (!has(node->op->traits, ir::Trait::pure) || has(node->op->traits, ir::Trait::writes_state) || !node->regions.empty()) continue;
    const Key key{node->op, node->inputs, without_numbers(node->attributes), bits_of_numbers(node->attributes), node->outputs.size()};
    const auto [found, is_new] = first.emplace(key, node.get());
    if (is_new) continue;
    for (std::size_t i = 0; i < node->outputs.size(); ++i) graph.replace_uses(node->outputs[i], found->second->outputs[i]);
  }
  graph.remove_unused();
}

}  // namespace quern::passes
