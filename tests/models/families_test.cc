// What the graphs of the families say where it differs from llama's. What they compute: tests/runtime/families_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "ir/op.h"
#include "ir/verify.h"
#include "models/family.h"
#include "stub_checkpoint.h"

namespace quern::models {
namespace {

using ::testing::ElementsAre;
using testing::StubCheckpoint;

/// A small model of so many layers with what the families have that llama has not.
StubCheckpoint small(const std::string& architecture, std::int64_t layers = 1) {
  StubCheckpoint c = StubCheckpoint::small();
  c.name = architecture;
  c.keys["block_count"] = layers;
  for (std::int64_t i = 0; i < layers; ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    for (const auto& [name, tensor] : StubCheckpoint::small().tensors)
      if (name.starts_with("blk.0.")) c.tensors[layer + name.substr(6)] = tensor;
    c.add(layer + "attn_q.bias", {64});
    c.add(layer + "attn_k.bias", {32});
    c.add(layer + "attn_v.bias", {32});
    c.add(layer + "attn_q_norm.weight", {16});
    c.add(layer + "attn_k_norm.weight", {16});
    c.add(layer + "post_attention_norm.weight", {64});
    c.add(layer + "post_ffw_norm.weight", {64});
  }
  return c;
}

std::vector<std::string> ops_of(const ir::Graph& graph) {
  std::vector<std::string> ops;
  for (const auto& node : graph.nodes()) ops.emplace_back(node->op->name);
  return ops;
}

template <class T>
std::vector<T> attributes(const ir::Graph& graph, std::string_view op, const std::function<T(const ir::Node&)>& read) {
  std::vector<T> values;
  for (const auto& node : graph.nodes())
    if (node->op->name == op) values.push_back(read(*node));
  return values;
}

TEST(Qwen2, has_biases_and_pairs_half_a_head_apart) {
  const LanguageModel model = build(small("qwen2"), {});
  ir::verify(*model.graph);
  EXPECT_THAT(ops_of(*model.graph),
              ElementsAre("rope_table", "embedding", "rms_norm", "linear", "add", "reshape", "linear", "add", "reshape", "linear", "add",
                          "reshape", "rope", "rope", "kv_write", "kv_write", "paged_attention", "reshape", "linear", "add", "rms_norm",
                          "linear", "linear", "glu", "linear", "add", "take_rows", "rms_norm", "take_rows", "rms_norm", "linear"));
  EXPECT_THAT(attributes<std::int64_t>(*model.graph, "rope", [](const ir::Node& n) { return n.integer("interleaved"); }),
              ElementsAre(0, 0));
}

TEST(Qwen3, norms_each_head_before_it_turns) {
  const LanguageModel model = build(small("qwen3"), {});
  ir::verify(*model.graph);
  const std::vector<std::string> ops = ops_of(*model.graph);
  const auto turn = std::find(ops.begin(), ops.end(), "rope");
  EXPECT_THAT(std::vector<std::string>(turn - 1, turn + 3), ElementsAre("rms_norm", "rope", "rms_norm", "rope"));
  EXPECT_THAT(attributes<std::int64_t>(*model.graph, "rope", [](const ir::Node& n) { return n.integer("interleaved"); }),
              ElementsAre(0, 0));
}

TEST(Gemma3, every_sixth_layer_sees_all_and_the_others_a_window) {
  StubCheckpoint checkpoint = small("gemma3", 13);
  checkpoint.keys["attention.sliding_window"] = 128;
  const auto windows = [&] {
    const LanguageModel model = build(checkpoint, {});
    ir::verify(*model.graph);
    return attributes<std::int64_t>(*model.graph, "paged_attention", [](const ir::Node& n) { return n.integer("window"); });
  };
  EXPECT_EQ(windows(), (std::vector<std::int64_t>{128, 128, 128, 128, 128, 0, 128, 128, 128, 128, 128, 0, 128}));
  checkpoint.keys["attention.sliding_window_pattern"] = 2;
  EXPECT_EQ(windows(), (std::vector<std::int64_t>{128, 0, 128, 0, 128, 0, 128, 0, 128, 0, 128, 0, 128}));
  checkpoint.keys["attention.sliding_window"] = 0;
  EXPECT_EQ(windows(), std::vector<std::int64_t>(13, 0));
}

TEST(Gemma3, the_layers_with_a_window_turn_by_frequencies_of_their_own) {
  StubCheckpoint checkpoint = small("gemma3", 6);
  checkpoint.keys["attention.sliding_window"] = 128;
  checkpoint.keys["rope.freq_base"] = 1e6;
  const auto tables = [&] {
    const LanguageModel model = build(checkpoint, {});
    return attributes<std::string>(*model.graph, "rope", [](const ir::Node& n) { return n.inputs[1]->name; });
  };
  const std::vector<std::string> names = tables();
  EXPECT_EQ(std::count(names.begin(), names.end(), names.front()), 10);
  EXPECT_EQ(std::count(names.begin(), names.end(), names.back()), 2);
  checkpoint.keys.erase("attention.sliding_window");
  const std::vector<std::string> same = tables();
  EXPECT_EQ(std::count(same.begin(), same.end(), same.front()), 12);
}

TEST(Gemma3, scores_are_scaled_by_the_heads_size_and_in_the_largest_model_by_the_width_over_the_heads) {
  const auto scale = [](std::int64_t layers) {
    StubCheckpoint checkpoint = small("gemma3", layers);
    checkpoint.keys["attention.head_count"] = 2;  // width 64, two heads of 16
    checkpoint.keys["attention.key_length"] = checkpoint.keys["attention.value_length"] = 16;
    for (std::int64_t i = 0; i < layers; ++i) {
      checkpoint.add("blk." + std::to_string(i) + ".attn_q.weight", {32, 64});
      checkpoint.add("blk." + std::to_string(i) + ".attn_q.bias", {32});
      checkpoint.add("blk." + std::to_string(i) + ".attn_output.weight", {64, 32});
    }
    const LanguageModel model = build(checkpoint, {});
    return attributes<double>(*model.graph, "paged_attention", [](const ir::Node& n) { return n.number("scale"); }).front();
  };
  EXPECT_DOUBLE_EQ(scale(34), 1 / std::sqrt(16.0));
  EXPECT_DOUBLE_EQ(scale(62), 1 / std::sqrt(32.0));
}

TEST(Gemma3, caps_are_those_of_the_file) {
  StubCheckpoint checkpoint = small("gemma3");
  const std::vector<std::string> plain = ops_of(*build(checkpoint, {}).graph);
  EXPECT_EQ(std::count(plain.begin(), plain.end(), "tanh"), 0);
  checkpoint.keys["final_logit_softcapping"] = 30.0;
  checkpoint.keys["attn_logit_softcapping"] = 50.0;
  const LanguageModel model = build(checkpoint, {});
  ir::verify(*model.graph);
  std::vector<std::string> ops = ops_of(*model.graph);
  EXPECT_THAT(std::vector<std::string>(ops.end() - 4, ops.end()), ElementsAre("linear", "mul", "tanh", "mul"));
  EXPECT_THAT(attributes<double>(*model.graph, "paged_attention", [](const ir::Node& n) { return n.number("softcap"); }),
              ElementsAre(50.0));
}

TEST(Gemma3, hyper_parameters_that_make_no_sense_are_clear_errors) {
  const auto error = [](const std::string& key, StubCheckpoint::Number value) {
    StubCheckpoint checkpoint = small("gemma3");
    checkpoint.keys["attention.sliding_window"] = 128;
    checkpoint.keys[key] = value;
    try {
      build(checkpoint, {});
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::data_corrupt);
      return e.message();
    }
    return std::string("built");
  };
  for (const char* key : {"attention.sliding_window", "attention.sliding_window_pattern"})
    EXPECT_EQ(error(key, -1), "'gemma3." + std::string(key) + "' is -1; between 1 and 134217728 makes sense");
  for (const char* key : {"rope.freq_base_swa", "final_logit_softcapping", "attn_logit_softcapping"})
    for (const double bad : {-1.0, HUGE_VAL, std::nan("")})
      EXPECT_EQ(error(key, bad), "'gemma3." + std::string(key) + "' is " + std::to_string(bad) + "; a positive number makes sense");
  EXPECT_EQ(error("rope.freq_base_swa", 0.0), "the hyper-parameters of rotary positions give infinite angles");
}

TEST(Families, norms_that_are_missing_are_named) {
  for (const auto& [architecture, tensor] :
       {std::pair{"qwen3", "blk.0.attn_q_norm.weight"}, std::pair{"gemma3", "blk.0.attn_k_norm.weight"},
        std::pair{"gemma3", "blk.0.post_attention_norm.weight"}, std::pair{"gemma3", "blk.0.post_ffw_norm.weight"}}) {
    StubCheckpoint checkpoint = small(architecture);
    checkpoint.tensors.erase(tensor);
    try {
      build(checkpoint, {});
      ADD_FAILURE() << tensor;
    } catch (const Error& e) {
      EXPECT_EQ(e.message(), "tensor '" + std::string(tensor) + "' is missing");
    }
  }
}

}  // namespace
}  // namespace quern::models
