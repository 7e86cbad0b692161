#include "formats/onnx/detail/fold.h"

#include <cstring>
#include <optional>
#include <utility>

#include "ir/op.h"

namespace quern::onnx {
namespace {

constexpr std::size_t kMaxBytes = 4096;  // of one tensor: sizes and axes are some dozens of numbers

struct Known {
  ir::TensorView view;
  std::vector<std::byte> storage;
};

/// The shape in numbers and room for the elements; nothing when the type has symbols or is large.
std::optional<Known> room_for(const ir::Type& type) {
  Known out;
  out.view.dtype = type.dtype;
  if (type.state || ir::is_block(type.dtype)) return std::nullopt;
  const auto bytes = ir::byte_size(type).constant();
  if (!bytes || *bytes < 0 || static_cast<std::size_t>(*bytes) > kMaxBytes) return std::nullopt;
  out.view.rank = static_cast<std::int64_t>(type.shape.size());
  for (std::size_t i = 0; i < type.shape.size(); ++i) {
    const auto size = type.shape[i].constant();
    if (!size || *size < 0) return std::nullopt;
    out.view.dims[i] = *size;
  }
  out.storage.resize(static_cast<std::size_t>(*bytes));
  out.view.data = out.storage.data();
  return out;
}

/// Numbers of any integer type, little-endian: the low bytes of a wider one.
bool fill(const std::vector<ir::Dim>& contents, Known& out) {
  const auto size = static_cast<std::size_t>(ir::block_bytes(out.view.dtype));
  if (ir::is_float(out.view.dtype) || contents.size() * size != out.storage.size()) return false;
  for (std::size_t i = 0; i < contents.size(); ++i) {
    const auto value = contents[i].constant();
    if (!value) return false;
    std::memcpy(out.storage.data() + i * size, &*value, size);
  }
  return true;
}

std::optional<Known> known(const ir::Value& value) {
  if (value.constant == nullptr && !value.contents) return std::nullopt;
  auto out = room_for(value.type);
  if (!out) return std::nullopt;
  if (value.constant != nullptr)
    out->view.data = const_cast<std::byte*>(value.constant->data);  // kernels only read their inputs
  else if (!fill(*value.contents, *out))
    return std::nullopt;
  return out;
}

}  // namespace

std::vector<ir::Value*> fold(ir::Graph& graph, const ir::Node& node) {
  if (!has(node.op->traits, ir::Trait::pure) || !node.regions.empty() || node.op->reference == nullptr) return {};
  std::vector<Known> in, out;
  in.reserve(node.inputs.size());
  out.reserve(node.outputs.size());
  std::vector<const ir::TensorView*> in_views, out_views;
  for (const ir::Value* v : node.inputs) {
    if (v == nullptr) {
      in_views.push_back(nullptr);
      continue;
    }
    auto k = known(*v);
    if (!k) return {};
    in.push_back(std::move(*k));
    in_views.push_back(&in.back().view);
  }
  for (const ir::Value* v : node.outputs) {
    auto k = room_for(v->type);
    if (!k) return {};
    out.push_back(std::move(*k));
    out_views.push_back(&out.back().view);
  }
  node.op->reference({&node, in_views.data(), out_views.data()});
  std::vector<ir::Value*> results;
  for (std::size_t i = 0; i < out.size(); ++i) results.push_back(graph.add_constant("", node.outputs[i]->type, out[i].storage));
  return results;
}

}  // namespace quern::onnx
