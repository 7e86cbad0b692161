#include "runtime/graph_model.h"

#include <algorithm>
#include <utility>

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/kernels/elementwise/element_loop.h"
#include "base/error.h"
#include "formats/onnx/import.h"
#include "ir/check_sizes.h"
#include "passes/passes.h"

namespace quern::runtime {

std::shared_ptr<const GraphModel> GraphModel::load(const std::string& path) {
  std::unique_ptr<ir::Graph> graph = onnx::import_file(path);
  auto model = std::make_shared<GraphModel>();
  for (const ir::Value* value : graph->inputs()) model->inputs_.push_back({value->name, value->type});
  for (const ir::Value* value : graph->outputs()) model->outputs_.push_back({value->name, value->type});
  passes::fold_constants(*graph);
  passes::remove_identities(*graph);
  passes::sink_transposes(*graph);
  passes::fold_into_conv(*graph);
  passes::eliminate_common(*graph);
  passes::fuse_elementwise(*graph, cpu::has_element_loop);
  cpu::CpuBackend backend;
  plan::Backend* const backends[] = {&backend};
  model->program_ = plan::Program::compile(*graph, backends);
  model->graph_ = std::move(graph);
  return model;
}

GraphSession::GraphSession(std::shared_ptr<const GraphModel> model, ThreadPool& pool)
    : model_(std::move(model)), session_(model_->program(), pool) {}

ir::SymbolValues GraphSession::solve_symbols(std::span<const ir::TensorView> inputs) const {
  const std::span<const GraphModel::Port> ports = model_->inputs();
  if (inputs.size() != ports.size())
    throw Error(Code::invalid_argument,
                "the model takes " + std::to_string(ports.size()) + " inputs, not " + std::to_string(inputs.size()));
  const auto refuse = [&](const GraphModel::Port& port, const std::string& what) {
    return Error(Code::invalid_argument, "input '" + port.name + "' must be " + to_string(port.type) + ": " + what);
  };
  const std::span<const std::string> symbols = model_->program()->symbols();
  ir::SymbolValues values;
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const ir::Shape& shape = ports[i].type.shape;
    if (inputs[i].dtype != ports[i].type.dtype) throw refuse(ports[i], "it is " + std::string(ir::name(inputs[i].dtype)));
    if (inputs[i].rank != static_cast<std::int64_t>(shape.size())) throw refuse(ports[i], "it has rank " + std::to_string(inputs[i].rank));
    for (std::size_t d = 0; d < shape.size(); ++d)
      if (const std::string text = shape[d].to_string(); std::find(symbols.begin(), symbols.end(), text) != symbols.end())
        values.emplace(text, inputs[i].dims[d]);
  }
  // Now every dimension must agree, also where a symbol stands twice or inside an expression.
  for (std::size_t i = 0; i < ports.size(); ++i)
    for (std::size_t d = 0; d < ports[i].type.shape.size(); ++d)
      if (const std::int64_t wanted = ports[i].type.shape[d].evaluate(values); wanted != inputs[i].dims[d])
        throw refuse(ports[i], "dimension " + std::to_string(d) + " is " + std::to_string(inputs[i].dims[d]) + " where " +
                                   std::to_string(wanted) + " is needed");
  for (const std::string& symbol : symbols)
    if (!values.contains(symbol)) throw Error(Code::unsupported, "the size '" + symbol + "' cannot be told from the inputs' shapes");
  return values;
}

std::vector<ir::TensorView> GraphSession::run(std::span<const ir::TensorView> inputs) {
  const ir::SymbolValues sizes = solve_symbols(inputs);
  std::vector<std::int64_t> ordered;
  for (const auto& [symbol, value] : sizes) ordered.push_back(value);  // sorted by name, as the program's
  if (!session_.is_bound(ordered)) check_sizes(model_->graph(), sizes);
  plan::Binding& binding = session_.bind(ordered);
  std::vector<const std::byte*> data;
  for (const ir::TensorView& input : inputs) data.push_back(input.data);
  session_.run(binding, data);
  std::vector<ir::TensorView> outputs;
  for (std::size_t i = 0; i < model_->outputs().size(); ++i) outputs.push_back(binding.output(i));
  return outputs;
}

}  // namespace quern::runtime
