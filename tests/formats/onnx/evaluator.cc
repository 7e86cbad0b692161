#include "evaluator.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <unordered_map>

#include "base/error.h"
#include "base/float16.h"
#include "ir/op.h"

namespace quern::onnx::test {
namespace {

struct Tensor {
  ir::TensorView view;
  std::vector<std::byte> storage;
};

ir::TensorView view_of(const ir::Type& type, const ir::SymbolValues& symbols) {
  ir::TensorView v;
  v.dtype = type.dtype;
  v.rank = static_cast<std::int64_t>(type.shape.size());
  for (std::size_t i = 0; i < type.shape.size(); ++i) {
    v.dims[i] = type.shape[i].evaluate(symbols);
    if (v.dims[i] < 0) throw Error(Code::invalid_argument, "a dimension is negative: " + ir::to_string(type));
  }
  return v;
}

template <class T>
T load(const npy::Array& a, std::size_t i) {
  T v;
  std::memcpy(&v, a.bytes.data() + i * sizeof(T), sizeof(T));
  return v;
}

double number(const npy::Array& a, std::size_t i) {
  switch (a.dtype) {
    case ir::DType::f32: return load<float>(a, i);
    case ir::DType::f64: return load<double>(a, i);
    case ir::DType::f16: return f16_to_f32(load<std::uint16_t>(a, i));
    case ir::DType::i64: return static_cast<double>(load<std::int64_t>(a, i));
    case ir::DType::i32: return load<std::int32_t>(a, i);
    case ir::DType::i8: return load<std::int8_t>(a, i);
    case ir::DType::u8:
    case ir::DType::boolean: return load<std::uint8_t>(a, i);
    default: throw Error(Code::unsupported, "the test does not compare this type");
  }
}

std::size_t count(const npy::Array& a) { return a.bytes.size() / static_cast<std::size_t>(ir::block_bytes(a.dtype)); }

}  // namespace

Arrays evaluate(const ir::Graph& graph, const Arrays& inputs) {
  ir::SymbolValues symbols;
  std::unordered_map<const ir::Value*, Tensor> tensors;
  std::unordered_map<const ir::Value*, int> uses;
  for (const auto& node : graph.nodes())
    for (const ir::Value* v : node->inputs) ++uses[v];
  for (const ir::Value* v : graph.outputs()) ++uses[v];

  for (const ir::Value* v : graph.inputs()) {
    const auto found = inputs.find(v->name);
    if (found == inputs.end() || found->second.dtype != v->type.dtype || found->second.shape.size() != v->type.shape.size())
      throw Error(Code::invalid_argument, "input '" + v->name + "' is missing or not a " + ir::to_string(v->type));
    for (std::size_t i = 0; i < v->type.shape.size(); ++i) {
      std::set<std::string> names;
      v->type.shape[i].collect_symbols(names);
      if (names.size() == 1) symbols.try_emplace(*names.begin(), found->second.shape[i]);
      if (v->type.shape[i].evaluate(symbols) != found->second.shape[i])
        throw Error(Code::invalid_argument, "input '" + v->name + "' has the wrong shape");
    }
    Tensor& t = tensors[v];
    t.view = view_of(v->type, symbols);
    t.view.data = const_cast<std::byte*>(found->second.bytes.data());
  }
  for (const ir::Value* v : graph.constants()) {
    Tensor& t = tensors[v];
    t.view = view_of(v->type, symbols);
    t.view.data = const_cast<std::byte*>(v->constant->data);
  }
  for (const auto& node : graph.nodes()) {
    std::vector<const ir::TensorView*> in, out;
    for (const ir::Value* v : node->inputs) in.push_back(v ? &tensors.at(v).view : nullptr);
    for (const ir::Value* v : node->outputs) {
      Tensor& t = tensors[v];
      t.view = view_of(v->type, symbols);
      t.storage.resize(static_cast<std::size_t>(t.view.bytes()));
      t.view.data = t.storage.data();
      out.push_back(&t.view);
    }
    if (has(node->op->traits, ir::Trait::view)) {
      if (in[0]->bytes() != out[0]->bytes()) throw Error(Code::internal, "a view changes the number of bytes").in(node->outputs[0]->name);
      if (out[0]->bytes() > 0) std::memcpy(out[0]->data, in[0]->data, static_cast<std::size_t>(out[0]->bytes()));
    } else {
      const ir::Call call{node.get(), in.data(), out.data()};
      node->op->reference(call);
    }
    for (const ir::Value* v : node->inputs)
      if (v != nullptr && --uses[v] == 0 && v->producer != nullptr) tensors.erase(v);
  }
  Arrays results;
  for (const ir::Value* v : graph.outputs()) {
    const Tensor& t = tensors.at(v);
    const auto bytes = static_cast<std::size_t>(t.view.bytes());
    auto copy = std::make_shared<std::vector<std::byte>>(t.view.data, t.view.data + bytes);
    results[v->name] = npy::Array{t.view.dtype, {t.view.dims, t.view.dims + t.view.rank}, *copy, copy};
  }
  return results;
}

double relative_difference(const npy::Array& got, const npy::Array& expected) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  if (got.dtype != expected.dtype || got.shape != expected.shape) return kNever;
  double low = kNever, high = -kNever, difference = 0;
  for (std::size_t i = 0; i < count(expected); ++i) {
    const double g = number(got, i), e = number(expected, i);
    if (g != e && !(std::abs(g - e) < kNever)) return kNever;
    if (g == e && !std::isfinite(e)) continue;
    difference = std::max(difference, std::abs(g - e));
    low = std::min(low, e);
    high = std::max(high, e);
  }
  return difference == 0 ? 0 : difference / std::max(high - low, std::abs(high) * 1e-3 + 1e-30);
}

double cosine(const npy::Array& got, const npy::Array& expected) {
  double dot = 0, g2 = 0, e2 = 0;
  if (got.shape != expected.shape) return -1;
  for (std::size_t i = 0; i < count(expected); ++i) {
    const double g = number(got, i), e = number(expected, i);
    dot += g * e;
    g2 += g * g;
    e2 += e * e;
  }
  return dot / std::sqrt(g2 * e2);
}

}  // namespace quern::onnx::test
