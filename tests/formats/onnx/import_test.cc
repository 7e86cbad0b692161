#include "formats/onnx/import.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "evaluator.h"
#include "formats/onnx/summary.h"
#include "ir/op.h"
#include "proto.h"

namespace quern::onnx {
namespace {

namespace fs = std::filesystem;
using namespace test;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const fs::path kCases = fs::path(QUERN_SOURCE_DIR) / "tests/formats/onnx/data/cases";

std::unique_ptr<ir::Graph> import_text(const std::string& bytes) {
  return import_bytes(std::as_bytes(std::span(bytes)), nullptr, "test.onnx");
}

/// The message of the Error that an import ends with; empty when it succeeds.
std::string refusal(const std::string& bytes, Code code) {
  try {
    import_text(bytes);
  } catch (const Error& e) {
    EXPECT_EQ(name(e.code()), name(code)) << e.what();
    return e.what();
  }
  return "";
}

Arrays load_arrays(const fs::path& folder, const std::string& kind) {
  Arrays out;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string file = entry.path().filename();
    if (file.starts_with(kind + ".")) out[file.substr(kind.size() + 1, file.size() - kind.size() - 5)] = npy::read_file(entry.path());
  }
  return out;
}

std::vector<std::string> ops_of(const ir::Graph& graph) {
  std::vector<std::string> out;
  for (const auto& n : graph.nodes()) out.emplace_back(n->op->name);
  return out;
}

std::vector<std::string> types_of(std::span<ir::Value* const> values) {
  std::vector<std::string> out;
  for (const ir::Value* v : values) out.push_back(v->name + " " + ir::to_string(v->type));
  return out;
}

TEST(OnnxImport, every_stored_model_computes_what_onnxruntime_computed) {
  int cases = 0;
  for (const auto& entry : fs::directory_iterator(kCases)) {
    SCOPED_TRACE(entry.path().filename().string());
    ++cases;
    try {
      const auto graph = import_file(entry.path() / "model.onnx");
      const Arrays expected = load_arrays(entry.path(), "out");
      const Arrays got = evaluate(*graph, load_arrays(entry.path(), "in"));
      EXPECT_EQ(got.size(), expected.size());
      for (const auto& [name, array] : expected) {
        ASSERT_TRUE(got.contains(name)) << name;
        EXPECT_LE(relative_difference(got.at(name), array), 1e-6) << "output " << name;
      }
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
    }
  }
  EXPECT_GE(cases, 20);
}

TEST(OnnxImport, names_of_dimensions_become_symbols_and_equal_names_one_symbol) {
  const auto graph = import_file(kCases / "mlp_13/model.onnx");
  EXPECT_THAT(types_of(graph->inputs()), ElementsAre("x f32[batch, 4]"));
  EXPECT_THAT(types_of(graph->outputs()), ElementsAre("y f32[batch, 2]"));
  EXPECT_THAT(ops_of(*graph), ElementsAre("gemm", "relu", "matmul", "add", "softmax"));
  EXPECT_EQ(graph->nodes()[1]->name, "act");
}

TEST(OnnxImport, different_names_never_become_the_same_symbol) {
  const auto graph =
      import_text(model(input("x", dim("a b") + dim("a-b") + text(1, "") + dim("3") + dim("a b")) + node("Relu", "x", "y") + output("y")));
  EXPECT_THAT(types_of(graph->inputs()), ElementsAre("x f32[a_b, a_b_1, x_2, _3, a_b]"));
}

TEST(OnnxImport, a_chain_of_shape_arithmetic_leaves_symbolic_dimensions) {
  const auto graph = import_file(kCases / "shape_chain_17/model.onnx");
  EXPECT_THAT(types_of(graph->outputs()), ElementsAre("y f32[batch, 2, time, 3]", "ones f32[time, time]"));
}

TEST(OnnxImport, raw_data_stays_in_the_file) {
  const std::string data(8, '\0');
  const std::string bytes = model(input("x", dim(2)) + initializer("w", number(1, 2) + number(2, 1) + text(9, data)) +
                                  text(1, text(1, "x") + text(1, "w") + text(2, "y") + text(4, "Add")) + output("y"));
  const auto graph = import_text(bytes);
  ASSERT_EQ(graph->constants().size(), 1u);
  const auto* at = reinterpret_cast<const char*>(graph->constants()[0]->constant->data);
  EXPECT_GE(at, bytes.data());
  EXPECT_LT(at, bytes.data() + bytes.size());
}

TEST(OnnxImport, outputs_keep_their_names_when_values_only_pass_through) {
  const auto graph = import_file(kCases / "dropout_identity_12/model.onnx");
  EXPECT_THAT(types_of(graph->outputs()), ElementsAre("i f32[a_b, a_b_1]", "y f32[a_b, a_b_1]", "z f32[a_b, a_b_1]"));
}

TEST(OnnxImport, all_that_is_unsupported_is_told_at_once_with_counts) {
  const std::string foreign = text(7, "com.example");
  const std::string what = refusal(
      model(input("x", dim(2)) + node("Frobnicate", "x", "a") + node("Frobnicate", "a", "b") + node("Attention", "b", "c", foreign) +
            node("Relu", "c", "y", text(5, text(1, "odd") + number(3, 1) + number(20, 2))) + output("y")),
      Code::unsupported);
  EXPECT_THAT(what, AllOf(HasSubstr("Frobnicate (2×, first in node 'a'"), HasSubstr("com.example.Attention (1×"),
                          HasSubstr("Relu with attribute 'odd'")));
}

TEST(OnnxImport, nodes_out_of_order_and_cycles_are_refused) {
  EXPECT_THAT(refusal(model(input("x", dim(2)) + node("Relu", "a", "y") + node("Relu", "x", "a") + output("y")), Code::data_corrupt),
              HasSubstr("a later node makes"));
  EXPECT_THAT(refusal(model(node("Relu", "y", "y") + output("y")), Code::data_corrupt), HasSubstr("a later node makes"));
  EXPECT_THAT(refusal(model(node("Relu", "nowhere", "y") + output("y")), Code::data_corrupt), HasSubstr("nothing makes"));
}

TEST(OnnxImport, a_name_given_twice_is_refused) {
  const std::string x = input("x", dim(2)), w = initializer("w", number(1, 0) + number(2, 1));
  EXPECT_THAT(refusal(model(x + node("Relu", "x", "y") + node("Relu", "x", "y") + output("y")), Code::data_corrupt),
              HasSubstr("'y' is given to two"));
  EXPECT_THAT(refusal(model(x + node("Relu", "x", "x") + output("x")), Code::data_corrupt), HasSubstr("'x' is given to two"));
  EXPECT_THAT(refusal(model(x + x + node("Relu", "x", "y") + output("y")), Code::data_corrupt), HasSubstr("'x' is given to two"));
  EXPECT_THAT(refusal(model(x + w + w + node("Relu", "x", "y") + output("y")), Code::data_corrupt), HasSubstr("'w' is given to two"));
}

TEST(OnnxImport, absurd_tensors_are_refused) {
  const auto with = [](const std::string& tensor) {
    return model(input("x", dim(2)) + initializer("w", tensor) + node("Relu", "x", "y") + output("y"));
  };
  const std::string f32 = number(2, 1);
  EXPECT_THAT(refusal(with(number(1, -1) + f32), Code::data_corrupt), HasSubstr("negative"));
  EXPECT_THAT(refusal(with(number(1, std::int64_t{1} << 40) + number(1, std::int64_t{1} << 40) + f32), Code::data_corrupt),
              HasSubstr("overflows"));
  EXPECT_THAT(refusal(with(number(1, std::int64_t{1} << 40) + f32), Code::data_corrupt), HasSubstr("fewer numbers"));
  EXPECT_THAT(refusal(with(number(1, 2) + f32 + text(9, "1234567")), Code::data_corrupt), HasSubstr("needs 8 bytes of data but has 7"));
  EXPECT_THAT(refusal(with(number(1, 2) + f32 + text(4, std::string(12, '\0'))), Code::data_corrupt), HasSubstr("more numbers"));
  EXPECT_THAT(refusal(with(number(1, 2) + f32 + text(4, std::string(7, '\0'))), Code::data_corrupt), HasSubstr("broken length"));
  EXPECT_THAT(refusal(with(number(1, 1) + number(2, 8) + text(6, "text")), Code::unsupported), HasSubstr("string"));
  EXPECT_THAT(refusal(with(number(1, 1) + number(2, 999) + text(9, "x")), Code::unsupported), HasSubstr("unknown (999)"));
  std::string rank;
  for (int i = 0; i < 9; ++i) rank += number(1, 1);
  EXPECT_THAT(refusal(with(rank + f32), Code::resource_exhausted), HasSubstr("8 dimensions"));
}

TEST(OnnxImport, absurd_inputs_are_refused) {
  const auto with = [](const std::string& in) { return model(in + node("Relu", "x", "y") + output("y")); };
  EXPECT_THAT(refusal(with(input("x", dim(-2))), Code::data_corrupt), HasSubstr("negative: -2"));
  EXPECT_THAT(refusal(with(text(11, text(1, "x"))), Code::unsupported), HasSubstr("not a tensor"));
  EXPECT_THAT(refusal(with(text(11, text(1, "x") + text(2, text(1, number(1, 1))))), Code::unsupported), HasSubstr("no shape"));
  EXPECT_THAT(refusal(with(input("x", dim(2), 8)), Code::unsupported), HasSubstr("string"));
  EXPECT_THAT(refusal(with(input("", dim(2))), Code::data_corrupt), HasSubstr("no name"));
}

TEST(OnnxImport, an_operator_set_that_is_missing_or_too_new_is_refused) {
  const std::string graph = input("x", dim(2)) + node("Relu", "x", "y") + output("y");
  EXPECT_THAT(refusal(model(graph, 99), Code::unsupported), HasSubstr("operator set 99"));
  EXPECT_THAT(refusal(text(7, graph), Code::data_corrupt), HasSubstr("no version"));
  EXPECT_THAT(refusal(model(graph, 17) + text(8, number(2, 13)), Code::data_corrupt), HasSubstr("two versions"));
  EXPECT_THAT(refusal(number(1, 8), Code::data_corrupt), HasSubstr("no graph"));
}

TEST(OnnxImport, an_output_of_another_type_than_declared_is_refused) {
  EXPECT_THAT(refusal(model(input("x", dim(2)) + node("Relu", "x", "y") + output("y", dim(2), 7)), Code::data_corrupt),
              HasSubstr("declared as int64 but computed as f32"));
}

TEST(OnnxImport, too_many_nodes_are_refused_before_they_cost_memory) {
  std::string graph;
  for (int i = 0; i < 1'000'000; ++i) graph += text(1, "");
  EXPECT_THAT(refusal(model(graph), Code::resource_exhausted), HasSubstr("more than 250000 nodes"));
}

TEST(OnnxImport, deep_nesting_costs_no_stack) {
  std::string inner = "x";
  for (int i = 0; i < 20'000; ++i) inner = text(6, inner);  // a graph in an attribute in a node …
  EXPECT_THAT(
      refusal(model(input("x", dim(2)) + node("If", "x", "y", text(5, text(1, "then_branch") + inner)) + output("y")), Code::unsupported),
      HasSubstr("If (1×"));
}

TEST(OnnxImport, a_shape_that_inference_refuses_names_node_and_offset) {
  const std::string two = text(1, text(1, "x") + text(1, "w") + text(2, "y") + text(3, "sum of both") + text(4, "Add"));
  EXPECT_THAT(refusal(model(input("x", dim(2)) + input("w", dim(3)) + two + output("y")), Code::invalid_argument),
              AllOf(HasSubstr("node 'sum of both' (Add)"), HasSubstr("test.onnx, offset")));
}

TEST(OnnxImport, a_truncated_model_is_refused_at_every_length) {
  std::ifstream file(kCases / "shape_chain_17/model.onnx", std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  int imported = 0;
  for (std::size_t n = 0; n < whole.size(); ++n) {
    try {
      import_text(whole.substr(0, n));
      ++imported;
    } catch (const Error& e) {
      EXPECT_NE(e.code(), Code::internal) << n << ": " << e.what();
    }
  }
  EXPECT_EQ(imported, 0);
}

class ExternalData : public testing::Test {
 protected:
  ExternalData() : root_(fs::temp_directory_path() / ("quern_onnx_test_" + std::to_string(::getpid()))) {
    fs::create_directories(root_ / "model/sub");
    for (const char* file : {"outside.bin", "model/inside.bin", "model/sub/deep.bin"}) std::ofstream(root_ / file) << "12345678";
    fs::create_symlink("../outside.bin", root_ / "model/link.bin");
    fs::create_symlink("inside.bin", root_ / "model/good_link.bin");
    fs::create_directory_symlink("..", root_ / "model/up");
  }
  ~ExternalData() override { fs::remove_all(root_); }

  std::string outcome(const std::string& location, const std::string& more = {}) {
    const auto entry = [](std::string_view key, std::string_view value) { return text(13, text(1, key) + text(2, value)); };
    std::ofstream(root_ / "model/m.onnx", std::ios::binary)
        << model(input("x", dim(2)) + initializer("w", number(1, 2) + number(2, 1) + entry("location", location) + more + number(14, 1)) +
                 text(1, text(1, "x") + text(1, "w") + text(2, "y") + text(4, "Add")) + output("y"));
    try {
      import_file(root_ / "model/m.onnx");
    } catch (const Error& e) {
      return e.what();
    }
    return "fine";
  }
  static std::string entry(std::string_view key, std::string_view value) { return text(13, text(1, key) + text(2, value)); }

  fs::path root_;
};

TEST_F(ExternalData, is_read_from_the_model_s_folder_alone) {
  EXPECT_EQ(outcome("inside.bin"), "fine");
  EXPECT_EQ(outcome("sub/deep.bin"), "fine");
  EXPECT_EQ(outcome("./good_link.bin"), "fine");
  EXPECT_THAT(outcome("../outside.bin"), HasSubstr("leaves the model's folder"));
  EXPECT_THAT(outcome("sub/../../outside.bin"), HasSubstr("leaves the model's folder"));
  EXPECT_THAT(outcome("link.bin"), HasSubstr("link that leaves"));
  EXPECT_THAT(outcome("up/outside.bin"), HasSubstr("link that leaves"));
  EXPECT_THAT(outcome("/etc/passwd"), HasSubstr("not a relative path"));
  EXPECT_THAT(outcome(""), HasSubstr("not a relative path"));
  EXPECT_THAT(outcome("none.bin"), HasSubstr("missing"));
  EXPECT_THAT(outcome("sub"), HasSubstr("directory"));
}

TEST_F(ExternalData, offset_and_length_are_checked_against_the_file) {
  EXPECT_EQ(outcome("inside.bin", entry("offset", "0") + entry("length", "8") + entry("checksum", "x")), "fine");
  EXPECT_THAT(outcome("inside.bin", entry("offset", "4")), HasSubstr("ends past its file"));
  EXPECT_THAT(outcome("inside.bin", entry("offset", "18446744073709551615")), HasSubstr("ends past its file"));
  EXPECT_THAT(outcome("inside.bin", entry("offset", "-1")), HasSubstr("not a number"));
  EXPECT_THAT(outcome("inside.bin", entry("length", "9")), HasSubstr("has 9"));
}

TEST_F(ExternalData, is_refused_for_a_model_from_memory) {
  const auto bytes =
      model(input("x", dim(2)) + initializer("w", number(1, 2) + number(2, 1) + entry("location", "inside.bin") + number(14, 1)) +
            node("Relu", "x", "y") + output("y"));
  EXPECT_THAT(refusal(bytes, Code::invalid_argument), HasSubstr("not read from a folder"));
}

TEST(OnnxSummary, tells_what_a_model_says_of_itself) {
  const Summary s = summarize_file(kCases / "cnn_9/model.onnx");
  EXPECT_EQ(s.ir_version, 8);
  EXPECT_EQ(s.producer, "quern-tests");
  EXPECT_THAT(s.opsets, ElementsAre(std::pair<std::string, std::int64_t>("", 9)));
  ASSERT_EQ(s.inputs.size(), 1u);
  EXPECT_EQ(s.inputs[0].dtype, "f32");
  EXPECT_THAT(s.inputs[0].dims, ElementsAre("n", "1", "h", "w"));
  EXPECT_EQ(s.nodes, 6u);
  EXPECT_EQ(s.ops.at("Conv"), 1u);
  EXPECT_EQ(s.initializers, 5u);
  EXPECT_EQ(s.parameters, 18 + 4 * 2);
  EXPECT_EQ(s.parameter_bytes, 104u);
  EXPECT_TRUE(s.unsupported.empty());
}

}  // namespace
}  // namespace quern::onnx
