#include "ir/verify.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "ir/text.h"
#include "test_ops.h"

namespace quern::ir {
namespace {

std::unique_ptr<Graph> parse(std::string_view text) { return parse_graph(text, test::find); }

std::string error_of(const Graph& g) {
  try {
    verify(g);
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}
std::string error_of(std::string_view text) { return error_of(*parse(text)); }

constexpr std::string_view kChain = R"(graph main(%x: f32[T], %other: f32[T]) {
  %k = constant: f32[2] = [1, 2]
  %a = add(%x, %x)
  %b = add @adder(%a, %x)
  return %b
})";

constexpr std::string_view kBranches = R"(graph main(%cond: boolean[], %x: f32[T], %s: state f32[4]) {
  %z = if(%cond) {
    graph then() { %p = add(%x, %x) return %p }
    graph else() { %q = add(%x, %x) return %q }
  }
  %after = add(%z, %x)
  return %after
})";

TEST(Verify, accepts_a_graph_that_was_built_by_the_rules) {
  EXPECT_EQ(error_of(kChain), "no error");
  EXPECT_EQ(error_of(kBranches), "no error");
  const auto g = parse(kBranches);
  EXPECT_EQ(error_of(*g->nodes()[0]->regions[0]), "no error") << "a region alone sees what its parents made";
}

TEST(Verify, a_value_is_made_before_it_is_used) {
  auto g = parse(kChain);
  g->nodes()[0]->inputs[1] = g->nodes()[1]->outputs[0];
  EXPECT_EQ(error_of(*g), "add %a uses %b before it is made");
  g = parse(kChain);
  g->nodes()[0]->inputs[1] = g->nodes()[0]->outputs[0];
  EXPECT_EQ(error_of(*g), "add %a uses %a before it is made");
  g = parse(kBranches);
  g->nodes()[0]->regions[1]->nodes()[0]->inputs[0] = g->nodes()[1]->outputs[0];
  EXPECT_EQ(error_of(*g), "add %q uses %after before it is made");
}

TEST(Verify, a_region_keeps_its_values_to_itself) {
  auto g = parse(kBranches);
  const Node& choose = *g->nodes()[0];
  Value* inner = choose.regions[0]->nodes()[0]->outputs[0];
  choose.regions[1]->nodes()[0]->inputs[0] = inner;
  EXPECT_EQ(error_of(*g), "add %q uses %p outside graph 'then', which makes it");
  g = parse(kBranches);
  g->nodes()[1]->inputs[1] = g->nodes()[0]->regions[0]->nodes()[0]->outputs[0];
  EXPECT_EQ(error_of(*g), "add %after uses %p outside graph 'then', which makes it");
}

TEST(Verify, a_value_of_another_graph_is_no_input) {
  auto g = parse(kChain);
  const auto other = parse(kChain);
  g->nodes()[0]->inputs[0] = other->inputs()[0];
  EXPECT_EQ(error_of(*g), "add %a uses a value of another graph");
  g = parse(kChain);
  g->set_outputs({other->inputs()[0]});
  EXPECT_EQ(error_of(*g), "output 0 of graph 'main' uses a value of another graph");
}

TEST(Verify, outputs_exist) {
  const auto g = parse(kChain);
  g->set_outputs({g->inputs()[0], nullptr});
  EXPECT_EQ(error_of(*g), "output 1 of graph 'main' is missing");
}

TEST(Verify, names_are_unique_and_not_empty) {
  auto g = parse(kBranches);
  g->nodes()[0]->regions[1]->nodes()[0]->outputs[0]->name = "p";
  EXPECT_EQ(error_of(*g), "two values are named %p");
  g = parse(kChain);
  g->nodes()[1]->outputs[0]->name.clear();
  EXPECT_EQ(error_of(*g), "add % makes a value without a name");
}

TEST(Verify, a_value_is_made_once) {
  const auto g = parse(kChain);
  g->nodes()[1]->outputs[0] = g->nodes()[0]->outputs[0];
  EXPECT_EQ(error_of(*g), "%a is made twice");
}

TEST(Verify, a_region_lies_in_the_graph_of_its_node) {
  const auto g = parse(kBranches);
  g->nodes()[0]->regions[0] = std::make_unique<Graph>("then");
  EXPECT_EQ(error_of(*g), "if %z: region 'then' does not lie in graph 'main'");
  g->nodes()[0]->regions[0].reset();
  EXPECT_EQ(error_of(*g), "if %z: a region is missing");
}

TEST(Verify, inputs_and_attributes_are_what_the_op_declares) {
  auto g = parse(kChain);
  g->nodes()[1]->inputs.pop_back();
  EXPECT_EQ(error_of(*g), "add 'adder' takes 2 inputs, not 1");
  g = parse(kChain);
  g->nodes()[0]->inputs[0] = nullptr;
  EXPECT_EQ(error_of(*g), "add 'a': input 0 is missing");
  g = parse(kChain);
  g->nodes()[0]->attributes["speed"] = 1.0;
  EXPECT_EQ(error_of(*g), "add 'a' has no attribute 'speed'");
  g = parse("graph main(%x: f32[4]) { %a, %b = split(%x) return %a }");
  g->nodes()[0]->attributes["axis"] = 1.0;
  EXPECT_EQ(error_of(*g), "split 'a': attribute 'axis' has the wrong type");
  g->nodes()[0]->attributes.erase("axis");
  EXPECT_EQ(error_of(*g), "split %a: attribute 'axis' is missing");
}

TEST(Verify, a_node_has_the_outputs_of_its_op) {
  auto g = parse("graph main(%x: f32[4]) { %a, %b = split(%x) return %a }");
  g->nodes()[0]->attributes["outputs"] = std::int64_t{4};
  EXPECT_EQ(error_of(*g), "split %a has 2 outputs, not 4");
  g = parse(kChain);
  g->nodes()[0]->outputs[0]->producer = nullptr;
  EXPECT_EQ(error_of(*g), "output 0 of add %a does not know its maker");
  g = parse(kChain);
  g->nodes()[0]->outputs.clear();
  EXPECT_EQ(error_of(*g), "add 'a' has 0 outputs, not 1");
}

TEST(Verify, types_are_what_inference_gives) {
  auto g = parse(kChain);
  g->nodes()[0]->outputs[0]->type.shape[0] = 8;
  EXPECT_EQ(error_of(*g), "%a is f32[8], but add makes f32[T]");
  g = parse(kChain);
  g->nodes()[0]->inputs[1] = g->constants()[0];
  EXPECT_EQ(error_of(*g), "add: the inputs are f32[T] and f32[2] (in node 'a')");
  g = parse("graph main(%x: f32[T, 4]) { %s = shape_of(%x) return %s }");
  g->nodes()[0]->outputs[0]->contents = std::vector<Dim>{1, 2};
  EXPECT_EQ(error_of(*g), "the known elements of %s are not what shape_of makes");
}

TEST(Verify, constants_have_the_bytes_of_their_type) {
  auto g = parse(kChain);
  g->constants()[0]->type.shape[0] = 3;
  EXPECT_EQ(error_of(*g), "constant %k is f32[3], which takes 12 bytes, not 8");
  g->constants()[0]->type.shape[0] = Dim::symbol("T");
  EXPECT_EQ(error_of(*g), "constant %k has no constant size: f32[T]");
  g->constants()[0]->constant = nullptr;
  EXPECT_EQ(error_of(*g), "constant %k has no bytes");
  g = parse(kChain);
  g->inputs()[0]->constant = g->constants()[0]->constant;
  EXPECT_EQ(error_of(*g), "input %x of graph 'main' is made by something else");
  g = parse(kChain);
  g->inputs()[0]->type.shape[0] = -1;
  EXPECT_EQ(error_of(*g), "%x has a negative dimension: f32[-1]");
}

TEST(Verify, a_state_is_threaded_through_its_writers) {
  const auto with = [](const std::string& body) {
    return error_of("graph main(%s: state f32[4], %x: f32[4], %c: boolean[]) {" + body + "}");
  };
  EXPECT_EQ(with("%r = maybe(%s) %s1 = overwrite(%s, %x) %s2 = overwrite(%s1, %x) return %s2"), "no error");
  EXPECT_EQ(with("%s1 = overwrite(%s, %x) %s2 = overwrite(%s, %x) return %s2"),
            "overwrite %s2 uses the state %s after overwrite %s1 overwrote it");
  EXPECT_EQ(with("%s1 = overwrite(%s, %x) %r = maybe(%s) return %s1"), "maybe %r uses the state %s after overwrite %s1 overwrote it");
  EXPECT_EQ(with("%s1 = overwrite(%s, %x) return %s"), "output 0 of graph 'main' uses the state %s after overwrite %s1 overwrote it");
  EXPECT_EQ(with("%s1 = overwrite(%s, %s) return %s1"), "overwrite %s1 overwrites the state %s and reads it too");
  EXPECT_EQ(with("%s1 = overwrite(%x, %x) return %s1"), "overwrite %s1 overwrites its input 0, which is no state");
}

TEST(Verify, each_branch_may_overwrite_a_state_and_none_may_use_it_afterwards) {
  const auto with = [](const std::string& tail) {
    return error_of(R"(graph main(%s: state f32[4], %x: f32[4], %c: boolean[]) {
      %z = if(%c) {
        graph then() { %s1 = overwrite(%s, %x) return %s1 }
        graph else() { %s2 = overwrite(%s, %x) return %s2 }
      })" + tail + "}");
  };
  EXPECT_EQ(with("return %z"), "no error");
  EXPECT_EQ(with("%r = maybe(%s) return %z"), "maybe %r uses the state %s after overwrite %s1 overwrote it");
}

}  // namespace
}  // namespace quern::ir
