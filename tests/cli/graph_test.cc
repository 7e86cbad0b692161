// `quern run` and `quern inspect` on the small ONNX models of tests/formats/onnx, whose outputs another runtime computed.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/graph_run.h"
#include "cli/program.h"
#include "formats/npy/npy.h"

namespace quern::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;

const fs::path kCase = fs::path(QUERN_SOURCE_DIR) / "tests/formats/onnx/data/cases/mlp_13";

class Graph : public ::testing::Test {
 protected:
  std::string model = kCase / "model.onnx", x = kCase / "in.x.npy";
  Folder folder;
};

std::vector<float> floats(const npy::Array& array) {
  std::vector<float> out(array.bytes.size() / sizeof(float));
  std::memcpy(out.data(), array.bytes.data(), array.bytes.size());
  return out;
}

TEST_F(Graph, runs_on_a_folder_of_arrays) {
  fs::create_directory(folder / "in");
  fs::copy_file(x, folder / "in/x.npy");
  const Outcome outcome = quern({"run", model, "--inputs", folder / "in", "--outputs", folder / "a/b"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  const npy::Array got = npy::read_file(folder / "a/b/y.npy"), expected = npy::read_file(kCase / "out.y.npy");
  ASSERT_EQ(got.shape, expected.shape);
  const std::vector<float> g = floats(got), e = floats(expected);
  for (std::size_t i = 0; i < g.size(); ++i) ASSERT_NEAR(g[i], e[i], 1e-4 * (1 + std::abs(e[i])));
}

TEST_F(Graph, says_what_came_out_when_it_is_not_written) {
  const Outcome outcome = quern({"run", model, "--input", "x=" + x, "-v"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, ::testing::ContainsRegex("^y +f32\\[.*min .* max .* mean "));
  EXPECT_THAT(outcome.err, HasSubstr("run "));
  const json out = json::parse(quern({"run", model, "--input", "x=" + x, "--json"}).out);
  EXPECT_EQ(out["outputs"][0]["name"], "y");
  EXPECT_EQ(out["outputs"][0]["dtype"], "f32");
  EXPECT_EQ(out["outputs"][0]["nan"], 0);
  EXPECT_LE(out["outputs"][0]["min"], out["outputs"][0]["mean"]);
}

TEST_F(Graph, missing_inputs_are_named_with_their_type) {
  const Outcome none = quern({"run", model});
  EXPECT_EQ(none.status, 1);
  EXPECT_THAT(none.err, ::testing::ContainsRegex("missing inputs: 'x' f32\\["));
  fs::create_directory(folder / "in");
  EXPECT_THAT(quern({"run", model, "--inputs", folder / "in"}).err, HasSubstr("in/x.npy"));
  EXPECT_THAT(quern({"run", model, "--inputs", folder / "nowhere"}).err, HasSubstr("no such folder"));
}

TEST_F(Graph, an_input_that_the_model_has_not_is_a_wrong_use) {
  const Outcome outcome = quern({"run", model, "--input", "z=" + x});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("its inputs are 'x'"));
  EXPECT_EQ(quern({"run", model, "--input", x}).status, 2);
  EXPECT_EQ(quern({"run", model, "--input", "x=" + x, "--input", "x=" + x}).status, 2);
}

TEST_F(Graph, an_input_of_another_type_or_shape_is_an_error) {
  const std::int64_t wrong_shape[] = {3, 2, 1};
  const std::vector<std::byte> zeros(48);
  npy::write_file(folder / "ints.npy", ir::DType::i64, wrong_shape, zeros);
  const Outcome type = quern({"run", model, "--input", "x=" + (folder / "ints.npy")});
  EXPECT_EQ(type.status, 1);
  EXPECT_THAT(type.err, ::testing::ContainsRegex("input 'x' must be f32\\[.*, not i64"));
  npy::write_file(folder / "shape.npy", ir::DType::f32, wrong_shape, std::span(zeros).first(24));
  const Outcome shape = quern({"run", model, "--input", "x=" + (folder / "shape.npy")});
  EXPECT_EQ(shape.status, 1);
  EXPECT_THAT(shape.err, HasSubstr("input 'x'"));
}

TEST_F(Graph, options_of_language_models_are_a_wrong_use) {
  EXPECT_THAT(quern({"run", model, "-p", "Hi"}).err, HasSubstr("this is a graph"));
  EXPECT_THAT(quern({"run", model, "--temp", "0"}).err, HasSubstr("this is a graph"));
  EXPECT_EQ(quern({"run", model, "Hi"}).status, 2);
}

TEST_F(Graph, inspect_says_what_the_graph_takes_and_gives) {
  const json out = json::parse(quern({"inspect", model, "--json"}).out);
  EXPECT_EQ(out["format"], "onnx");
  EXPECT_EQ(out["supported"], true);
  EXPECT_EQ(out["inputs"][0]["name"], "x");
  EXPECT_EQ(out["inputs"][0]["dtype"], "f32");
  EXPECT_EQ(out["outputs"][0]["name"], "y");
  EXPECT_EQ(out["opsets"]["ai.onnx"], 13);
  EXPECT_EQ(quern({"inspect", model}).status, 0);
  EXPECT_EQ(quern({"inspect", model, "--template"}).status, 2);
}

TEST(ValueFileName, keeps_only_characters_that_every_file_system_has) {
  EXPECT_EQ(value_file_name("input_ids"), "input_ids.npy");
  EXPECT_EQ(value_file_name("model/layer:0 é"), "model_layer_0___.npy");
  EXPECT_EQ(value_file_name("../x"), ".._x.npy");
}

}  // namespace
}  // namespace quern::cli
