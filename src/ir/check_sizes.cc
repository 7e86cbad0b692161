#include "ir/check_sizes.h"

#include <memory>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "ir/op.h"

namespace quern::ir {
namespace {

/// The values of a graph with numbers for sizes; made as they are met.
class NumericValues {
 public:
  explicit NumericValues(const SymbolValues& symbols) : symbols_(symbols) {}

  Value* of(const Value* value) {
    if (value == nullptr) return nullptr;
    auto& made = values_[value];
    if (made == nullptr) {
      made = std::make_unique<Value>();
      made->name = value->name;
      made->type = numeric(value->type);
      made->constant = value->constant;
      if (value->contents) {
        made->contents.emplace();
        for (const Dim& d : *value->contents) made->contents->emplace_back(d.evaluate(symbols_));
      }
    }
    return made.get();
  }

  Type numeric(const Type& type) const {
    Type out{type.dtype, {}, type.state};
    for (const Dim& d : type.shape) out.shape.emplace_back(d.evaluate(symbols_));
    return out;
  }

 private:
  const SymbolValues& symbols_;
  std::unordered_map<const Value*, std::unique_ptr<Value>> values_;
};

}  // namespace

void check_sizes(const Graph& graph, const SymbolValues& symbols) {
  NumericValues values(symbols);
  for (const auto& node : graph.nodes()) {
    if (!node->regions.empty()) continue;  // their sizes are checked where they run
    Node copy;
    copy.op = node->op;
    copy.name = node->name;
    copy.attributes = node->attributes;
    for (const Value* input : node->inputs) copy.inputs.push_back(values.of(input));
    std::vector<Value> outputs(node->outputs.size());
    for (Value& output : outputs) copy.outputs.push_back(&output);
    InferContext context(copy);
    node->op->infer(context);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Type expected = values.numeric(node->outputs[i]->type);
      for (const Dim& d : outputs[i].type.shape)
        if (*d.constant() < 0) context.fail("the inputs' sizes make a negative one: " + to_string(outputs[i].type));
      if (!(outputs[i].type == expected))
        context.fail("the inputs' sizes do not fit the model: " + to_string(outputs[i].type) + " where " + to_string(expected) +
                     " was planned");
    }
  }
}

}  // namespace quern::ir
