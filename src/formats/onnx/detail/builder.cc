#include "formats/onnx/detail/builder.h"

#include <cstring>

#include "base/float16.h"
#include "ops/registry.h"

namespace quern::onnx {

std::int64_t Draft::integer(std::string_view attribute, std::int64_t fallback) const {
  const auto found = attributes.find(attribute);
  if (found == attributes.end()) return fallback;
  const auto* value = std::get_if<std::int64_t>(&found->second);
  if (value == nullptr) throw Error(Code::data_corrupt, "attribute '" + std::string(attribute) + "' is not an integer");
  return *value;
}

void Draft::set_input(std::size_t i, ir::Value* value) {
  if (inputs.size() <= i) inputs.resize(i + 1, nullptr);
  inputs[i] = value;
}

void Draft::unsupported(std::string what) { throw Error(Code::unsupported, std::move(what)); }

ir::Value* Builder::emit(std::string_view op, std::vector<ir::Value*> inputs, ir::Attributes attributes) {
  const ir::Op* found = ops::find(op);
  if (found == nullptr) throw Error(Code::unsupported, "needs the operation '" + std::string(op) + "', which this build does not have");
  ir::Value* out = graph_.append(*found, std::move(inputs), std::move(attributes))->outputs.at(0);
  graph_.rename(out, fresh_name(op));
  return out;
}

ir::Value* Builder::integers(const std::vector<std::int64_t>& values, bool scalar) {
  ir::Type type{ir::DType::i64, {}};
  if (!scalar) type.shape.emplace_back(static_cast<std::int64_t>(values.size()));
  return graph_.add_constant(fresh_name("integers"), std::move(type), std::as_bytes(std::span(values)));
}

ir::Value* Builder::floats(const std::vector<double>& values, bool scalar) {
  ir::Type type{ir::DType::f32, {}};
  if (!scalar) type.shape.emplace_back(static_cast<std::int64_t>(values.size()));
  const std::vector<float> narrow(values.begin(), values.end());
  return graph_.add_constant(fresh_name("floats"), std::move(type), std::as_bytes(std::span(narrow)));
}

ir::Value* Builder::scalar(ir::DType type, double value) {
  std::byte bytes[8] = {};
  const auto put = [&](auto v) { std::memcpy(bytes, &v, sizeof v); };
  switch (type) {
    case ir::DType::f32: put(static_cast<float>(value)); break;
    case ir::DType::f64: put(value); break;
    case ir::DType::f16: put(f32_to_f16(static_cast<float>(value))); break;
    case ir::DType::bf16: put(f32_to_bf16(static_cast<float>(value))); break;
    default: Draft::unsupported("a number of type " + std::string(ir::name(type)) + " in an attribute");
  }
  return graph_.add_constant(fresh_name("scalar"), ir::Type{type, {}}, std::span(bytes, static_cast<std::size_t>(ir::block_bytes(type))));
}

ir::Value* Builder::tensor(const TensorProto& tensor) {
  auto loaded = tensors_.load(tensor, fresh_name("value"));
  return graph_.add_constant(std::move(loaded.type), std::move(loaded.constant));
}

std::string Builder::fresh_name(std::string_view what) const {
  std::string name = prefix + "/" + std::string(what);
  for (int i = 0; i < 4 && reserved.contains(name); ++i) name += '_';  // a bound, because a file may have been made to have all of them
  return name;                                                         // the graph numbers those that it has given out already
}

}  // namespace quern::onnx
