#include "models/blocks/blocks.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "ops/registry.h"

namespace quern::models {
namespace {
using ir::Dim;
using ir::DType;

ir::Shape to_shape(const std::vector<std::int64_t>& dims) { return {dims.begin(), dims.end()}; }
}  // namespace

Blocks::Blocks(const Checkpoint& checkpoint, const Config& config, const GraphOptions& options)
    : checkpoint_(checkpoint), config_(config), graph_(std::make_unique<ir::Graph>(checkpoint.architecture())) {
  const Dim tokens = Dim::symbol("tokens");
  ids_ = graph_->add_input("ids", {DType::i32, {tokens}});
  positions_ = graph_->add_input("positions", {DType::i32, {tokens}});
  sequence_ = graph_->add_input("sequence", {DType::i32, {tokens}});
  const auto add_places = [&](const std::string& prefix) -> Places {
    const Value slots = graph_->add_input(prefix + "slots", {DType::i32, {tokens}});
    return {slots, graph_->add_input(prefix + "block_table", {DType::i32, {Dim::symbol("sequences"), Dim::symbol("blocks_per_sequence")}})};
  };
  places_ = add_places("");
  rows_ = graph_->add_input("rows", {DType::i32, {Dim::symbol("rows")}});
  hidden_rows_ = graph_->add_input("hidden_rows", {DType::i32, {Dim::symbol("hidden_rows")}});
  for (std::int64_t i = 0; i < config.layers; ++i) window_ = std::max(window_, window_of(i));
  for (std::int64_t i = 0; i < config.layers && window_ > 0 && window_places_.slots == nullptr; ++i)
    if (window_of(i) == 0) window_places_ = add_places("window_");
  if (window_places_.slots == nullptr) window_ = 0;
  if (config.head_dim % ir::block_elements(options.kv_dtype) != 0)
    throw Error(Code::invalid_argument, "a cache of " + std::string(ir::name(options.kv_dtype)) + " takes heads of a multiple of " +
                                            std::to_string(ir::block_elements(options.kv_dtype)) + " elements; this model's have " +
                                            std::to_string(config.head_dim))
        .at(checkpoint.path())
        .hint("choose f16");
  ir::Type values{options.kv_dtype, {Dim::symbol("blocks"), config.kv_heads, options.kv_block_tokens, config.head_dim}, true};
  ir::Type keys = values;
  if (!ir::is_block(options.kv_dtype)) std::swap(keys.shape[2], keys.shape[3]);
  for (std::int64_t i = 0; i < config.layers; ++i) {
    values.shape[0] = keys.shape[0] = Dim::symbol(window_ > 0 && window_of(i) > 0 ? kWindowBlocks : "blocks");
    states_.push_back(graph_->add_input("keys." + std::to_string(i), keys));
    states_.push_back(graph_->add_input("values." + std::to_string(i), values));
  }
}

Value Blocks::optional_weight(const std::string& name, std::vector<std::int64_t> shape) {
  if (const auto found = weights_.find(name); found != weights_.end()) return found->second;
  auto tensor = checkpoint_.tensor(name);
  if (!tensor) return nullptr;
  if (tensor->shape != shape)
    throw Error(Code::data_corrupt, "tensor '" + name + "' is " + ir::to_string(to_shape(tensor->shape)) +
                                        " where the file's own hyper-parameters ask for " + ir::to_string(to_shape(shape)))
        .at(checkpoint_.path());
  if (!ir::is_float(tensor->dtype) && !ir::is_block(tensor->dtype))
    throw Error(Code::data_corrupt, "tensor '" + name + "' holds " + std::string(ir::name(tensor->dtype)) + ", which is no weight")
        .at(checkpoint_.path());
  const Value value = graph_->add_constant({tensor->dtype, to_shape(tensor->shape)}, std::move(tensor->bytes));
  weights_.emplace(name, value);
  return value;
}

Value Blocks::weight(const std::string& name, std::vector<std::int64_t> shape) {
  const Value value = optional_weight(name, std::move(shape));
  if (value == nullptr) throw Error(Code::data_corrupt, "tensor '" + name + "' is missing").at(checkpoint_.path());
  return value;
}

Value Blocks::embed() {
  return graph_->append(ops::embedding, {weight("token_embd.weight", {config_.vocabulary, config_.width}), ids_}, {}, "embedding")
      ->outputs[0];
}

Value Blocks::rms_norm(Value x, const std::string& name) {
  const Value w = weight(name + ".weight", {*x->type.shape.back().constant()});
  if (w->type.dtype != DType::f32) throw Error(Code::unsupported, "tensor '" + name + ".weight' is no f32").at(checkpoint_.path());
  return graph_->append(ops::rms_norm, {x, w}, {{"epsilon", config_.norm_epsilon}}, name)->outputs[0];
}

Value Blocks::linear(Value x, const std::string& name, std::int64_t out) {
  const Value y = graph_->append(ops::linear, {x, weight(name + ".weight", {out, *x->type.shape.back().constant()})}, {}, name)->outputs[0];
  const Value bias = optional_weight(name + ".bias", {out});
  return bias == nullptr ? y : add(y, bias);
}

Value Blocks::add(Value a, Value b) { return graph_->append(ops::add, {a, b})->outputs[0]; }

Value Blocks::scale(Value x, double factor) {
  return graph_->append(ops::mul, {x, graph_->add_scalar(static_cast<float>(factor))})->outputs[0];
}

Value Blocks::softcap(Value x, double cap) { return cap == 0 ? x : scale(graph_->append(ops::tanh, {scale(x, 1 / cap)})->outputs[0], cap); }

Value Blocks::split_heads(Value x, std::int64_t heads) {
  const std::array<std::int64_t, 3> shape = {0, heads, config_.head_dim};  // 0: as it is
  return graph_->append(ops::reshape, {x, graph_->add_integers(shape)})->outputs[0];
}

Value Blocks::merge_heads(Value x) {
  const std::array<std::int64_t, 2> shape = {0, *x->type.shape[1].constant() * *x->type.shape[2].constant()};
  return graph_->append(ops::reshape, {x, graph_->add_integers(shape)})->outputs[0];
}

Blocks::Heads Blocks::qkv(Value x, const std::string& name) {
  const auto heads = [&](const char* which, std::int64_t count) {
    return split_heads(linear(x, name + which, count * config_.head_dim), count);
  };
  const Value q = heads(".attn_q", config_.heads), k = heads(".attn_k", config_.kv_heads), v = heads(".attn_v", config_.kv_heads);
  return {q, k, v};
}

Value Blocks::rotations(const RopeFrequencies& frequencies, const std::string& name) {
  const Value radians =
      graph_->add_constant(name + "_frequencies", {DType::f32, {config_.rope_dim / 2}}, std::as_bytes(std::span(frequencies.radians)));
  return graph_->append(ops::rope_table, {positions_, radians}, {{"magnitude", frequencies.magnitude}}, name + "_table")->outputs[0];
}

Value Blocks::rope(Value x, Value rotations, RopePairs pairs) {
  return graph_->append(ops::rope, {x, rotations}, {{"interleaved", std::int64_t{pairs == RopePairs::neighbours}}})->outputs[0];
}

std::int64_t Blocks::window_of(std::int64_t layer) const {
  return config_.windows.empty() ? 0 : config_.windows[static_cast<std::size_t>(layer)];
}

Value Blocks::attention(std::int64_t layer, const Heads& heads, const AttentionOptions& options) {
  Value& keys = states_[static_cast<std::size_t>(2 * layer)];
  Value& values = states_[static_cast<std::size_t>(2 * layer + 1)];
  const std::int64_t window = window_of(layer);
  const Places& places = window_ > 0 && window > 0 ? window_places_ : places_;
  keys = graph_->append(ops::kv_write, {keys, heads.k, places.slots}, {{"transposed", std::int64_t{1}}})->outputs[0];
  values = graph_->append(ops::kv_write, {values, heads.v, places.slots})->outputs[0];
  return merge_heads(graph_
                         ->append(ops::paged_attention, {heads.q, keys, values, places.block_table, sequence_, positions_},
                                  {{"scale", config_.attention_scale}, {"window", window}, {"softcap", options.softcap}},
                                  "blk." + std::to_string(layer) + ".attention")
                         ->outputs[0]);
}

Value Blocks::swiglu(Value x, const std::string& name) { return glu(x, name, "silu"); }
Value Blocks::geglu(Value x, const std::string& name) { return glu(x, name, "gelu_tanh"); }

Value Blocks::glu(Value x, const std::string& name, const char* activation) {
  const Value gate = linear(x, name + ".ffn_gate", config_.ffn_width), up = linear(x, name + ".ffn_up", config_.ffn_width);
  return linear(graph_->append(ops::glu, {gate, up}, {{"activation", activation}})->outputs[0], name + ".ffn_down", config_.width);
}

Value Blocks::head(Value x) {
  hidden_ = rms_norm(graph_->append(ops::take_rows, {x, hidden_rows_})->outputs[0], "output_norm");
  x = graph_->append(ops::take_rows, {x, rows_})->outputs[0];
  x = rms_norm(x, "output_norm");
  return linear(x, checkpoint_.tensor("output.weight") ? "output" : "token_embd", config_.vocabulary);
}

LanguageModel Blocks::finish(Value logits) {
  graph_->rename(logits, "logits");
  graph_->rename(hidden_, "hidden");
  std::vector<Value> outputs = {logits, hidden_};
  outputs.insert(outputs.end(), states_.begin(), states_.end());
  graph_->set_outputs(std::move(outputs));
  LanguageModel model;
  model.graph = std::move(graph_);
  model.architecture = checkpoint_.architecture();
  model.vocabulary = config_.vocabulary;
  model.context_length = config_.context_length;
  model.layers = config_.layers;
  model.width = config_.width;
  model.kv_heads = config_.kv_heads;
  model.head_dim = config_.head_dim;
  model.window = window_;
  return model;
}

}  // namespace quern::models
