#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ir/op.h"
#include "ir/verify.h"
#include "models/family.h"
#include "stub_checkpoint.h"

namespace quern::models {
namespace {

using testing::StubCheckpoint;

std::vector<std::string> ops_of(const ir::Graph& graph) {
  std::vector<std::string> ops;
  for (const auto& node : graph.nodes()) ops.emplace_back(node->op->name);
  return ops;
}

TEST(Llama, the_graph_is_what_the_papers_draw) {
  StubCheckpoint checkpoint = StubCheckpoint::small();
  checkpoint.keys["block_count"] = 1;
  const LanguageModel model = build(checkpoint, {});
  ir::verify(*model.graph);
  EXPECT_THAT(ops_of(*model.graph),
              ::testing::ElementsAre("rope_table", "embedding",                                                  // positions and tokens
                                     "rms_norm", "linear", "reshape", "linear", "reshape", "linear", "reshape",  // queries, keys, values
                                     "rope", "rope", "kv_write", "kv_write", "paged_attention", "reshape", "linear", "add", "rms_norm",
                                     "linear", "linear", "glu", "linear", "add",  // SwiGLU
                                     "take_rows", "rms_norm",                     // final states that are wanted
                                     "take_rows", "rms_norm", "linear"));
  std::vector<std::string> inputs, outputs;
  for (const ir::Value* v : model.graph->inputs()) inputs.push_back(v->name + ": " + ir::to_string(v->type));
  EXPECT_THAT(inputs,
              ::testing::ElementsAre("ids: i32[tokens]", "positions: i32[tokens]", "sequence: i32[tokens]", "slots: i32[tokens]",
                                     "block_table: i32[sequences, blocks_per_sequence]", "rows: i32[rows]", "hidden_rows: i32[hidden_rows]",
                                     "keys.0: state f16[blocks, 2, 16, 16]", "values.0: state f16[blocks, 2, 16, 16]"));
  for (const ir::Value* v : model.graph->outputs()) outputs.push_back(ir::to_string(v->type));
  EXPECT_THAT(outputs, ::testing::ElementsAre("f32[rows, 40]", "f32[hidden_rows, 64]", "state f16[blocks, 2, 16, 16]",
                                              "state f16[blocks, 2, 16, 16]"));
  EXPECT_EQ(model.graph->outputs()[0]->name, "logits");
  EXPECT_EQ(model.architecture, "llama");
  EXPECT_EQ(model.vocabulary, 40);
  EXPECT_EQ(model.context_length, 256);
  EXPECT_EQ(model.layers, 1);
  EXPECT_EQ(model.kv_heads, 2);
  EXPECT_EQ(model.head_dim, 16);
}

TEST(Llama, a_head_of_its_own_and_biases_are_used_where_the_file_has_them) {
  StubCheckpoint checkpoint = StubCheckpoint::small();
  const std::size_t plain = build(checkpoint, {}).graph->nodes().size();
  checkpoint.add("output.weight", {40, 64});
  checkpoint.add("blk.0.attn_q.bias", {64});
  checkpoint.add("blk.1.ffn_down.bias", {64});
  const LanguageModel model = build(checkpoint, {});
  ir::verify(*model.graph);
  EXPECT_EQ(model.graph->nodes().size(), plain + 2);  // two additions
  EXPECT_EQ(model.graph->nodes().back()->inputs[1]->name, "output.weight");
}

TEST(Llama, the_caches_type_and_blocks_are_the_callers_choice) {
  const LanguageModel model = build(StubCheckpoint::small(), {.kv_dtype = ir::DType::f32, .kv_block_tokens = 32});
  EXPECT_EQ(ir::to_string(model.graph->inputs()[7]->type), "state f32[blocks, 2, 16, 32]");
  EXPECT_EQ(ir::to_string(model.graph->inputs()[8]->type), "state f32[blocks, 2, 32, 16]");
}

TEST(SmolLm3, every_fourth_layer_goes_without_positions) {
  StubCheckpoint checkpoint = StubCheckpoint::small();
  checkpoint.name = "smollm3";
  checkpoint.keys["block_count"] = 8;
  for (int layer = 2; layer < 8; ++layer)
    for (const auto& [name, tensor] : StubCheckpoint::small().tensors)
      if (name.starts_with("blk.0.")) checkpoint.tensors["blk." + std::to_string(layer) + name.substr(5)] = tensor;
  const LanguageModel model = build(checkpoint, {});
  ir::verify(*model.graph);
  std::vector<bool> rotated;
  bool rope = false;
  for (const std::string& op : ops_of(*model.graph)) {
    rope |= op == "rope";
    if (op == "paged_attention") rotated.push_back(std::exchange(rope, false));
  }
  EXPECT_EQ(rotated, (std::vector<bool>{true, true, true, false, true, true, true, false}));
}

/// The error that a checkpoint gives after a change.
std::string error_of(const std::function<void(StubCheckpoint&)>& change, Code code = Code::data_corrupt) {
  StubCheckpoint checkpoint = StubCheckpoint::small();
  change(checkpoint);
  try {
    build(checkpoint, {});
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    EXPECT_NE(std::string(e.what()).find("stub.gguf"), std::string::npos) << e.what();
    return e.message();
  }
  return "built";
}
std::string with(const std::string& key, StubCheckpoint::Number value, Code code = Code::data_corrupt) {
  return error_of([&](StubCheckpoint& c) { c.keys[key] = value; }, code);
}

TEST(Config, hyper_parameters_that_make_no_sense_are_clear_errors) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();
  const std::pair<std::string, std::int64_t> counts[] = {
      {"block_count", 1024},       {"embedding_length", 1 << 20},  {"feed_forward_length", 1 << 20},
      {"context_length", 1 << 27}, {"attention.head_count", 4096}, {"attention.head_count_kv", 4096}};
  for (const auto& [key, most] : counts)
    for (const std::int64_t bad : {std::int64_t{0}, std::int64_t{-1}, most + 1, std::int64_t{1} << 31, INT64_MAX, INT64_MIN})
      EXPECT_EQ(with(key, bad),
                "'llama." + key + "' is " + std::to_string(bad) + "; between 1 and " + std::to_string(most) + " makes sense");
  for (const char* key : {"attention.layer_norm_rms_epsilon", "rope.freq_base", "attention.scale"})
    for (const double bad : {kNan, kInfinity, -kInfinity, 0.0, -1.0})
      EXPECT_EQ(with(key, bad), "'llama." + std::string(key) + "' is " + std::to_string(bad) + "; a positive number makes sense");
  for (const auto& [key, most] : counts)
    if (key != "attention.head_count_kv") {
      EXPECT_EQ(error_of([&, k = key](StubCheckpoint& c) { c.keys.erase(k); }), "'llama." + key + "' is missing");
    }
  EXPECT_EQ(with("attention.head_count_kv", 3), "'llama.attention.head_count_kv' is 3; it must divide the 4 heads");
  EXPECT_EQ(error_of([](StubCheckpoint& c) { c.keys["attention.head_count"] = c.keys["attention.head_count_kv"] = 3; }),
            "'llama.attention.head_count' is 3; it must divide the width 64");
  EXPECT_EQ(with("rope.dimension_count", 18), "'llama.rope.dimension_count' is 18; it must be even and at most the head size 16");
  EXPECT_EQ(with("rope.dimension_count", 7), "'llama.rope.dimension_count' is 7; it must be even and at most the head size 16");
  EXPECT_EQ(with("expert_count", 8, Code::unsupported), "mixture-of-experts models are not supported yet");
  EXPECT_EQ(with("attention.value_length", 32, Code::unsupported), "keys and values of different sizes are not supported");
  EXPECT_EQ(with("rope.scaling.type", std::string("dynamic"), Code::unsupported), "rope scaling 'dynamic' is not supported");
  EXPECT_EQ(with("rope.freq_base", 1e-300), "the hyper-parameters of rotary positions give infinite angles");
}

TEST(Config, more_layers_than_the_file_has_are_missing_tensors) {
  EXPECT_EQ(with("block_count", 3), "tensor 'blk.2.attn_norm.weight' is missing");
  EXPECT_EQ(with("block_count", 1024), "tensor 'blk.2.attn_norm.weight' is missing");
}

TEST(Config, every_tensor_must_be_there_and_of_the_shape_that_the_file_itself_asks_for) {
  const StubCheckpoint small = StubCheckpoint::small();
  for (const auto& [name, tensor] : small.tensors) {
    const std::string missing = error_of([&, n = name](StubCheckpoint& c) { c.tensors.erase(n); });
    EXPECT_THAT(missing, ::testing::HasSubstr("tensor '" + name + "' is missing"));
    const std::string wrong = error_of([&, n = name](StubCheckpoint& c) { c.add(n, {7, 5}); });
    EXPECT_THAT(wrong,
                ::testing::AllOf(::testing::HasSubstr("tensor '"), ::testing::HasSubstr("where the file's own hyper-parameters ask for")))
        << name;
    const std::string integers = error_of([&, n = name, shape = tensor.shape](StubCheckpoint& c) { c.add(n, shape, ir::DType::i32); });
    EXPECT_EQ(integers, "tensor '" + name + "' holds i32, which is no weight");
  }
  EXPECT_EQ(error_of([](StubCheckpoint& c) { c.add("token_embd.weight", {64}); }), "tensor 'token_embd.weight' is missing or no matrix");
  EXPECT_EQ(error_of([](StubCheckpoint& c) { c.add("token_embd.weight", {0, 64}); }), "tensor 'token_embd.weight' has 0 rows");
  EXPECT_EQ(error_of([](StubCheckpoint& c) { c.add("rope_freqs.weight", {5}); }), "tensor 'rope_freqs.weight' must be f32[8]");
  EXPECT_EQ(error_of([](StubCheckpoint& c) { c.add("rope_freqs.weight", {8}); }),
            "tensor 'rope_freqs.weight' holds a factor that is not positive");
}

TEST(Families, an_architecture_we_do_not_have_is_an_error_that_lists_those_we_have) {
  StubCheckpoint checkpoint = StubCheckpoint::small();
  checkpoint.name = "mamba";
  try {
    build(checkpoint, {});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::unsupported);
    EXPECT_STREQ(e.what(), "the architecture 'mamba' is not supported (at stub.gguf): supported: llama, qwen2, qwen3, gemma3, smollm3");
  }
}

}  // namespace
}  // namespace quern::models
