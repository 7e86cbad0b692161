#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "ir/op.h"
#include "ops/registry.h"
#include "passes/detail/users.h"
#include "passes/passes.h"

namespace quern::passes {
namespace {

using Numbers = std::vector<double>;

std::vector<float> floats_of(const ir::Constant& constant) {
  std::vector<float> values(constant.bytes / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), constant.data, values.size() * sizeof(float));
  return values;
}

/// One number a channel (axis 1 of a tensor of `rank`) from a constant that broadcasts to it that way.
std::optional<Numbers> per_channel(const ir::Value& value, std::size_t rank, std::size_t channels) {
  const ir::Shape& shape = value.type.shape;
  if (value.constant == nullptr || value.type.dtype != ir::DType::f32 || shape.size() > rank) return std::nullopt;
  std::size_t count = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == ir::Dim(1)) continue;
    if (i + rank - shape.size() != 1 || !(shape[i] == ir::Dim(static_cast<std::int64_t>(channels)))) return std::nullopt;
    count = channels;
  }
  const std::vector<float> values = floats_of(*value.constant);
  if (values.size() != count) return std::nullopt;
  Numbers numbers(channels);
  for (std::size_t c = 0; c < channels; ++c) numbers[c] = values[count == 1 ? 0 : c];
  return numbers;
}

/// scale[c] * x + shift[c]
struct Affine {
  Numbers scale, shift;
  bool scales = false;  // whether any scale is not 1

  explicit Affine(std::size_t channels) : scale(channels, 1.0), shift(channels, 0.0) {}

  void then(const Numbers& factor, const Numbers& term) {
    for (std::size_t c = 0; c < scale.size(); ++c) {
      scales = scales || factor[c] != 1.0;
      scale[c] *= factor[c];
      shift[c] = shift[c] * factor[c] + term[c];
    }
  }
  bool is_finite() const {
    const auto finite = [](const Numbers& numbers) {
      return std::all_of(numbers.begin(), numbers.end(), [](double v) { return std::isfinite(static_cast<float>(v)); });
    };
    return finite(scale) && finite(shift);
  }
};

/// Adds what `node` does to its operand `x` to the map, if it does one thing to each channel.
bool append(Affine& affine, const ir::Node& node, const ir::Value& x) {
  const std::size_t rank = x.type.shape.size(), channels = affine.scale.size();
  const Numbers ones(channels, 1.0), zeros(channels, 0.0);
  if (node.op == &ops::batch_normalization) {
    if (node.inputs[0] != &x) return false;
    std::optional<Numbers> given[4];
    for (std::size_t i = 0; i < 4; ++i) {
      const ir::Value& value = *node.inputs[i + 1];
      if (value.constant == nullptr || value.type.dtype != ir::DType::f32 || value.constant->bytes != channels * sizeof(float))
        return false;
      const std::vector<float> values = floats_of(*value.constant);
      given[i] = Numbers(values.begin(), values.end());
    }
    Numbers factor(channels), term(channels);
    for (std::size_t c = 0; c < channels; ++c) {
      factor[c] = (*given[0])[c] / std::sqrt((*given[3])[c] + node.number("epsilon"));
      term[c] = (*given[1])[c] - (*given[2])[c] * factor[c];
    }
    affine.then(factor, term);
    return true;
  }
  const bool adds = node.op == &ops::add, subtracts = node.op == &ops::sub, multiplies = node.op == &ops::mul,
             divides = node.op == &ops::div;
  if ((!adds && !subtracts && !multiplies && !divides) || node.outputs[0]->type != x.type) return false;
  const bool first = node.inputs[0] == &x;
  if (first == (node.inputs[1] == &x) || (divides && !first)) return false;
  const auto other = per_channel(*node.inputs[first ? 1 : 0], rank, channels);
  if (!other) return false;
  Numbers numbers = *other;
  if (subtracts && first)
    for (double& v : numbers) v = -v;
  if (divides)
    for (double& v : numbers) v = 1.0 / v;
  if (multiplies || divides)
    affine.then(numbers, zeros);
  else
    affine.then(subtracts && !first ? Numbers(channels, -1.0) : ones, numbers);
  return true;
}

ir::Value* constant_of(ir::Graph& graph, const std::string& name, ir::Type type, std::vector<float> values) {
  auto owner = std::make_shared<std::vector<float>>(std::move(values));
  auto constant = std::make_shared<ir::Constant>();
  constant->name = name;
  constant->data = reinterpret_cast<const std::byte*>(owner->data());
  constant->bytes = owner->size() * sizeof(float);
  constant->owner = std::move(owner);
  return graph.add_constant(std::move(type), std::move(constant));
}

class Folder {
 public:
  explicit Folder(ir::Graph& graph) : graph_(graph), users_(graph) {}

  void run() {
    std::vector<ir::Node*> nodes;
    for (const auto& node : graph_.nodes())
      if (node->op == &ops::conv) nodes.push_back(node.get());
    for (ir::Node* node : nodes) fold(*node);
    graph_.remove_unused();
  }

 private:
  void fold(ir::Node& conv) {
    const ir::Value& w = *conv.inputs[1];
    const bool has_bias = conv.has_input(2);
    const auto channels = w.type.shape[0].constant();
    if (w.constant == nullptr || w.type.dtype != ir::DType::f32 || !channels || *channels < 1) return;
    if (has_bias && conv.inputs[2]->constant == nullptr) return;
    const auto count = static_cast<std::size_t>(*channels);
    Affine affine(count);
    ir::Value* last = conv.outputs[0];
    while (ir::Node* user = users_.only_user(*last)) {
      Affine longer = affine;
      if (!append(longer, *user, *last) || !longer.is_finite()) break;
      affine = std::move(longer);
      last = user->outputs[0];
    }
    if (last == conv.outputs[0]) return;

    std::vector<ir::Value*> inputs{conv.inputs[0], conv.inputs[1]};
    if (affine.scales) {
      std::vector<float> weights = floats_of(*w.constant);
      const std::size_t row = weights.size() / count;
      for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(weights[i] * affine.scale[i / row]);
      inputs[1] = constant_of(graph_, w.name + ".scaled", w.type, std::move(weights));
    }
    const std::vector<float> before = has_bias ? floats_of(*conv.inputs[2]->constant) : std::vector<float>(count, 0.0f);
    std::vector<float> bias(count);
    for (std::size_t c = 0; c < count; ++c) bias[c] = static_cast<float>(before[c] * affine.scale[c] + affine.shift[c]);
    inputs.push_back(constant_of(graph_, conv.outputs[0]->name + ".bias", ir::Type{ir::DType::f32, {*channels}}, std::move(bias)));
    ir::Value* folded = graph_.insert_before(&conv, ops::conv, inputs, conv.attributes, last->name)->outputs[0];
    graph_.replace_uses(last, folded);
  }

  ir::Graph& graph_;
  Users users_;
};

}  // namespace

void fold_into_conv(ir::Graph& graph) { Folder(graph).run(); }

}  // namespace quern::passes
