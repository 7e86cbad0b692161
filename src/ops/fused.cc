#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <vector>

#include "ops/registry.h"

namespace quern::ops {
namespace {

using namespace ir;  // NOLINT(google-build-using-namespace): this file speaks of nothing else

const Graph& body_of(const InferContext& c) {
  if (c.node().regions.size() != 1) c.fail("has " + std::to_string(c.node().regions.size()) + " bodies where one is wanted");
  return *c.node().regions[0];
}

/// The view of what an element-wise op makes of these; absent ones are null.
TensorView broadcast(const std::vector<const TensorView*>& operands) {
  TensorView y;
  for (const TensorView* x : operands)
    if (x != nullptr) y.rank = std::max(y.rank, x->rank);
  std::fill(y.dims, y.dims + y.rank, 1);
  for (const TensorView* x : operands)
    for (std::int64_t i = 0; x != nullptr && i < x->rank; ++i)
      if (x->dims[i] != 1) y.dims[y.rank - x->rank + i] = x->dims[i];
  return y;
}

}  // namespace

/// y = what its body makes of the inputs: a graph of element-wise ops on f32, one after the other, whose own results nobody else sees. The
/// inputs of the body stand for those of the node, in order; it may also read scalar constants around it. Shapes: the inputs' broadcast
/// together; y as the body's one output; all f32.
const Op fused{
    .name = "fused",
    .min_inputs = 1,
    .max_inputs = Op::kVariadic,
    .infer =
        [](InferContext& c) {
          const Graph& body = body_of(c);
          if (body.inputs().size() != c.inputs() || body.outputs().size() != 1)
            c.fail("its body takes " + std::to_string(body.inputs().size()) + " values and gives " + std::to_string(body.outputs().size()));
          for (std::size_t i = 0; i < c.inputs(); ++i)
            if (c.type(i) != body.inputs()[i]->type)
              c.fail("input " + std::to_string(i) + " is " + to_string(c.type(i)) + ", and in its body " +
                     to_string(body.inputs()[i]->type));
          for (const auto& node : body.nodes())
            if (!has(node->op->traits, Trait::pure) || has(node->op->traits, Trait::view) || !node->regions.empty() ||
                node->outputs.size() != 1 || node->outputs[0]->type.dtype != DType::f32)
              c.fail(std::string(node->op->name) + " in its body makes no floats of its own");
          if (body.outputs()[0]->producer == nullptr) c.fail("its body does nothing");
          c.set_output(0, body.outputs()[0]->type);
        },
    .reference =
        [](const Call& c) {
          const Graph& body = *c.node->regions[0];
          std::unordered_map<const Value*, TensorView> views;
          std::vector<std::vector<float>> memory;
          memory.reserve(body.nodes().size());
          for (std::size_t i = 0; i < body.inputs().size(); ++i) views[body.inputs()[i]] = c.in(i);
          for (const auto& node : body.nodes()) {
            std::vector<const TensorView*> inputs;
            for (const Value* value : node->inputs) {
              if (value == nullptr) {
                inputs.push_back(nullptr);
                continue;
              }
              TensorView& view = views[value];
              if (value->constant != nullptr) view.data = const_cast<std::byte*>(value->constant->data);
              inputs.push_back(&view);
            }
            TensorView y = broadcast(inputs);
            memory.emplace_back(static_cast<std::size_t>(y.elements()));
            y.data = reinterpret_cast<std::byte*>(memory.back().data());
            const TensorView* output = &(views[node->outputs[0]] = y);
            node->op->reference(Call{node.get(), inputs.data(), &output});
          }
          std::memcpy(c.out(0).data, views[body.outputs()[0]].data, static_cast<std::size_t>(c.out(0).bytes()));
        },
    .traits = Trait::pure | Trait::elementwise | Trait::in_place,
};

}  // namespace quern::ops
