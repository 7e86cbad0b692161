#include "stub_checkpoint.h"

#include <cstring>

namespace quern::models::testing {

void StubCheckpoint::add(const std::string& tensor, std::vector<std::int64_t> shape, ir::DType dtype) {
  std::int64_t count = 1;
  for (const std::int64_t d : shape) count *= d;
  auto bytes =
      std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(count / ir::block_elements(dtype) * ir::block_bytes(dtype)));
  auto constant = std::make_shared<ir::Constant>();
  constant->name = tensor;
  constant->data = bytes->data();
  constant->bytes = bytes->size();
  constant->owner = std::move(bytes);
  tensors[tensor] = {dtype, std::move(shape), std::move(constant)};
}

void StubCheckpoint::add_floats(const std::string& tensor, const std::vector<float>& values) {
  add(tensor, {static_cast<std::int64_t>(values.size())});
  std::memcpy(const_cast<std::byte*>(tensors[tensor].bytes->data), values.data(), values.size() * sizeof(float));
}

StubCheckpoint StubCheckpoint::small() {
  StubCheckpoint c;
  c.keys = {{"block_count", 2},
            {"embedding_length", 64},
            {"feed_forward_length", 96},
            {"context_length", 256},
            {"attention.head_count", 4},
            {"attention.head_count_kv", 2},
            {"attention.layer_norm_rms_epsilon", 1e-5}};
  c.add("token_embd.weight", {40, 64});
  c.add("output_norm.weight", {64});
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    c.add(layer + "attn_norm.weight", {64});
    c.add(layer + "attn_q.weight", {64, 64});
    c.add(layer + "attn_k.weight", {32, 64});
    c.add(layer + "attn_v.weight", {32, 64});
    c.add(layer + "attn_output.weight", {64, 64});
    c.add(layer + "ffn_norm.weight", {64});
    c.add(layer + "ffn_gate.weight", {96, 64});
    c.add(layer + "ffn_up.weight", {96, 64});
    c.add(layer + "ffn_down.weight", {64, 96});
  }
  return c;
}

namespace {
template <class T>
std::optional<T> find(const std::map<std::string, StubCheckpoint::Number, std::less<>>& keys, std::string_view key) {
  const auto found = keys.find(key);
  if (found == keys.end()) return std::nullopt;
  return std::get<T>(found->second);
}
}  // namespace

std::optional<std::int64_t> StubCheckpoint::integer(std::string_view key) const { return find<std::int64_t>(keys, key); }
std::optional<double> StubCheckpoint::number(std::string_view key) const { return find<double>(keys, key); }
std::optional<std::string> StubCheckpoint::text(std::string_view key) const { return find<std::string>(keys, key); }
std::optional<Checkpoint::Tensor> StubCheckpoint::tensor(std::string_view name) const {
  const auto found = tensors.find(name);
  return found == tensors.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace quern::models::testing
