#include "formats/onnx/summary.h"

#include <set>

#include "base/mapped_file.h"
#include "formats/onnx/detail/mapping.h"

namespace quern::onnx {
namespace {

Summary::Port port(const ValueProto& value) {
  Summary::Port out{
      std::string(value.name), value.is_tensor ? std::string(data_type_name(value.data_type)) : "not a tensor", value.has_shape, {}};
  if (const auto dtype = dtype_of(value.data_type); value.is_tensor && dtype) out.dtype = ir::name(*dtype);
  for (const DimProto& d : value.dims)
    out.dims.push_back(d.value ? std::to_string(*d.value) : d.param.empty() ? "?" : std::string(d.param));
  return out;
}

}  // namespace

Summary summarize_bytes(std::span<const std::byte> bytes, const std::string& name) {
  const wire::Source source{{reinterpret_cast<const char*>(bytes.data()), bytes.size()}, name};
  const ModelProto model = parse_model(source);
  Summary out;
  out.ir_version = model.ir_version;
  out.producer = model.producer_name;
  if (!model.producer_version.empty()) out.producer += (out.producer.empty() ? "" : " ") + std::string(model.producer_version);
  for (const auto& [domain, version] : model.opsets) out.opsets.emplace_back(domain, version);
  std::set<std::string_view> initialized;
  for (const std::string_view body : model.graph.initializers) {
    const TensorProto tensor = parse_tensor(source, body);
    initialized.insert(tensor.name);
    std::int64_t elements = 1;
    for (const std::int64_t d : tensor.dims) elements *= d;  // the parser bounds it
    const auto dtype = dtype_of(tensor.data_type);
    const std::int64_t size = dtype ? elements * ir::block_bytes(*dtype) : 0;
    // The data is not looked at here, so many tensors may claim more than there is.
    if (__builtin_add_overflow(out.parameters, elements, &out.parameters) ||
        __builtin_add_overflow(out.parameter_bytes, static_cast<std::uint64_t>(size), &out.parameter_bytes))
      source.corrupt("the sizes of all tensors overflow", body.data());
  }
  for (const ValueProto& v : model.graph.inputs)
    if (!initialized.contains(v.name)) out.inputs.push_back(port(v));
  for (const ValueProto& v : model.graph.outputs) out.outputs.push_back(port(v));
  for (const NodeProto& n : model.graph.nodes) ++out.ops[full_name(n)];
  out.unsupported = unsupported(source, model.graph);
  out.nodes = model.graph.nodes.size();
  out.initializers = model.graph.initializers.size();
  out.functions = model.functions;
  return out;
}

Summary summarize_file(const std::string& path) {
  const MappedFile file(path);
  return summarize_bytes(file.bytes(), path);
}

}  // namespace quern::onnx
