#include "passes/passes.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/text.h"
#include "ir/verify.h"
#include "ops/registry.h"

namespace quern::passes {
namespace {

using ir::DType;

/// Constants that a text only names: zeros.
std::shared_ptr<const ir::Constant> zeros(std::string_view name, const ir::Type& type) {
  auto bytes = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(byte_size(type).constant().value()));
  auto constant = std::make_shared<ir::Constant>();
  constant->name = name;
  constant->data = bytes->data();
  constant->bytes = bytes->size();
  constant->owner = std::move(bytes);
  return constant;
}

/// The graph after a pass, as text. What comes out must be as sound as what went in.
template <class Pass>
std::string after(Pass pass, std::string_view text) {
  const auto graph = ir::parse_graph(text, ops::find, zeros);
  ir::verify(*graph);
  pass(*graph);
  ir::verify(*graph);
  return ir::to_text(*graph);
}

/// A text as it prints.
std::string printed(std::string_view text) {
  return after([](ir::Graph&) {}, text);
}

void fold(ir::Graph& graph) { fold_constants(graph); }

TEST(FoldConstants, computes_what_depends_on_constants_alone) {
  EXPECT_EQ(after(fold, R"(graph main(%x: f32[2]) {
    %a = constant: f32[2] = [1.0, 2.0]
    %b = constant: f32[2] = [10.0, 20.0]
    %sum = add(%a, %b)
    %twice = add(%sum, %sum)
    %y = mul(%x, %twice)
    return %y
  })"),
            printed(R"(graph main(%x: f32[2]) {
    %twice.folded = constant: f32[2] = [22.0, 44.0]
    %y = mul(%x, %twice.folded)
    return %y
  })"));
}

TEST(FoldConstants, keeps_what_depends_on_an_input) {
  const char* text = "graph main(%x: f32[2]) {\n %a = constant: f32[2] = [1.0, 2.0]\n %y = add(%x, %a)\n return %y\n}";
  EXPECT_EQ(after(fold, text), printed(text));
}

TEST(FoldConstants, sizes_that_inference_knows_become_constants) {
  EXPECT_EQ(after(fold, R"(graph main(%x: f32[3, 4]) {
    %s = shape(%x)
    %i = constant: i64[1] = [1]
    %columns = gather(%s, %i)
    return %columns
  })"),
            printed("graph main(%x: f32[3, 4]) {\n %columns.known = constant: i64[1] = [4]\n return %columns.known\n}"));
}

TEST(FoldConstants, sizes_that_are_symbols_stay) {
  const char* text = "graph main(%x: f32[T, 4]) {\n %s = shape(%x)\n return %s\n}";
  EXPECT_EQ(after(fold, text), printed(text));
}

TEST(FoldConstants, results_larger_than_the_limit_stay) {
  const char* text = R"(graph main() {
    %a = constant: f32[3] = [1.0, 2.0, 3.0]
    %y = neg(%a)
    return %y
  })";
  EXPECT_EQ(after([](ir::Graph& g) { fold_constants(g, 11); }, text), printed(text));
  EXPECT_NE(after([](ir::Graph& g) { fold_constants(g, 12); }, text), printed(text));
}

TEST(FoldConstants, all_outputs_of_a_node_are_folded_or_none) {
  EXPECT_EQ(after(fold, R"(graph main() {
    %a = constant: f32[4] = [1.0, 2.0, 3.0, 4.0]
    %l, %r = split(%a) {axis = 0, outputs = 2}
    return %r, %l
  })"),
            printed(R"(graph main() {
    %l.folded = constant: f32[2] = [1.0, 2.0]
    %r.folded = constant: f32[2] = [3.0, 4.0]
    return %r.folded, %l.folded
  })"));
}

TEST(EliminateCommon, equal_nodes_become_one) {
  EXPECT_EQ(after(eliminate_common, R"(graph main(%x: f32[2]) {
    %a = exp(%x)
    %b = exp(%x)
    %c = add(%a, %b)
    %d = add(%b, %a)
    %y = mul(%c, %d)
    return %y, %b
  })"),
            printed(R"(graph main(%x: f32[2]) {
    %a = exp(%x)
    %c = add(%a, %a)
    %y = mul(%c, %c)
    return %y, %a
  })"));
}

TEST(EliminateCommon, other_attributes_make_other_nodes) {
  // 0.0 and -0.0 compare equal, and NaN to nothing, but they are other numbers.
  const char* text = R"(graph main(%x: f32[2]) {
    %a = leaky_relu(%x) {alpha = 0.5}
    %b = leaky_relu(%x) {alpha = 0.25}
    %c = leaky_relu(%x) {alpha = nan}
    %d = leaky_relu(%x) {alpha = 0.0}
    %e = leaky_relu(%x) {alpha = -0.0}
    return %a, %b, %c, %d, %e
  })";
  EXPECT_EQ(after(eliminate_common, text), printed(text));
}

TEST(EliminateCommon, writes_to_a_state_stay) {
  const char* text = R"(graph main(%x: f32[T, 2, 4], %slots: i32[T], %cache: state f32[blocks, 2, 4, 4]) {
    %a = kv_write(%cache, %x, %slots)
    %b = kv_write(%a, %x, %slots)
    return %b
  })";
  EXPECT_EQ(after(eliminate_common, text), printed(text));
}

void quantize_all_but_q4_K(ir::Graph& graph) {
  quantize_activations(graph, [](ir::DType weights, std::int64_t) {
    return ir::is_block(weights) && weights != ir::DType::q4_K ? ir::DType::a8 : ir::DType::f32;
  });
}

TEST(QuantizeActivations, products_that_the_backend_cannot_do_on_integers_stay) {
  const char* text = R"(graph main(%x: f32[T, 256]) {
    %w = constant "w": q4_K[32, 256]
    %y = linear(%x, %w)
    return %y
  })";
  EXPECT_EQ(after(quantize_all_but_q4_K, text), printed(text));
}

TEST(QuantizeActivations, products_with_block_quantised_weights_take_integers_made_once_for_all_of_them) {
  EXPECT_EQ(after(quantize_all_but_q4_K, R"(graph main(%x: f32[T, 64]) {
    %q = constant "q": q4_1[32, 64]
    %k = constant "k": q8_0[32, 64]
    %a = linear(%x, %q)
    %b = linear(%x, %k)
    return %a, %b
  })"),
            printed(R"(graph main(%x: f32[T, 64]) {
    %q = constant "q": q4_1[32, 64]
    %k = constant "k": q8_0[32, 64]
    %x.a8 = quantize_activations(%x)
    %a = linear(%x.a8, %q)
    %b = linear(%x.a8, %k)
    return %a, %b
  })"));
}

TEST(QuantizeActivations, products_with_plain_weights_stay) {
  const char* text = R"(graph main(%x: f32[T, 64]) {
    %w = constant "w": f16[32, 64]
    %y = linear(%x, %w)
    return %y
  })";
  EXPECT_EQ(after(quantize_all_but_q4_K, text), printed(text));
}

TEST(ShortenAttention, each_node_has_the_products_that_the_backend_wants_for_its_cache) {
  ir::Graph graph;
  const auto attention = [&](ir::DType cache) {
    const auto input = [&](ir::DType type, ir::Shape shape) {
      return graph.add_input("x" + std::to_string(graph.inputs().size()), {type, shape});
    };
    return graph.append(ops::paged_attention,
                        {input(ir::DType::f32, {3, 4, 16}), input(cache, {2, 2, 16, 16}), input(cache, {2, 2, 16, 16}),
                         input(ir::DType::i32, {1, 2}), input(ir::DType::i32, {3}), input(ir::DType::i32, {3})});
  };
  const ir::Node *half = attention(ir::DType::f16), *single = attention(ir::DType::f32);
  shorten_attention(graph, [](ir::DType cache) { return cache == ir::DType::f32 ? ir::DType::f32 : ir::DType::bf16; });
  EXPECT_EQ(half->dtype("products"), ir::DType::bf16);
  EXPECT_EQ(single->dtype("products"), ir::DType::f32);
}

TEST(MergeLinears, products_of_one_value_become_one_node) {
  EXPECT_EQ(after(merge_linears, R"(graph main(%x: f32[T, 64], %z: f32[T, 64]) {
    %wq = constant "wq": q4_0[32, 64]
    %wk = constant "wk": q8_0[16, 64]
    %wo = constant "wo": q8_0[64, 32]
    %q = linear(%x, %wq)
    %k = linear(%x, %wk)
    %o = linear(%q, %wo)
    %other = linear(%z, %wk)
    return %k, %o, %other
  })"),
            after([](ir::Graph&) {}, R"(graph main(%x: f32[T, 64], %z: f32[T, 64]) {
    %wq = constant "wq": q4_0[32, 64]
    %wk = constant "wk": q8_0[16, 64]
    %wo = constant "wo": q8_0[64, 32]
    %q_1, %q.1 = linear @q(%x, %wq, %wk) {outputs = 2}
    %o = linear(%q_1, %wo)
    %other = linear(%z, %wk)
    return %q.1, %o, %other
  })"));
}

TEST(FuseResiduals, the_sum_that_a_norm_reads_first_is_made_by_it) {
  const std::string text = after(fuse_residuals, R"(graph main(%x: f32[T, 64], %y: f32[T, 64]) {
    %w = constant "w": f32[64]
    %sum = add(%x, %y)
    %n = rms_norm(%sum, %w)
    %next = add(%sum, %n)
    return %next
  })");
  EXPECT_NE(text.find("rms_norm"), std::string::npos);
  EXPECT_NE(text.find("outputs = 2"), std::string::npos) << text;
  EXPECT_EQ(text.find("add(%x, %y)"), std::string::npos) << text;
}

TEST(FuseResiduals, a_sum_that_is_needed_before_the_norm_stays) {
  const char* text = R"(graph main(%x: f32[T, 64], %y: f32[T, 64]) {
    %w = constant "w": f32[64]
    %sum = add(%x, %y)
    %early = neg(%sum)
    %n = rms_norm(%early, %w)
    %m = rms_norm(%sum, %w)
    %out = add(%n, %m)
    return %out
  })";
  EXPECT_EQ(after(fuse_residuals, text), after([](ir::Graph&) {}, text));
}

TEST(FuseQuantization, floats_that_only_a_product_reads_are_never_written) {
  const std::string text = after(fuse_quantization, R"(graph main(%x: f32[T, 64]) {
    %w = constant "w": f32[64]
    %n = rms_norm(%x, %w)
    %q = quantize_activations(%n)
    %g = glu(%x, %x)
    %r = quantize_activations(%g)
    return %q, %r, %g
  })");
  EXPECT_NE(text.find("dtype = a8"), std::string::npos) << text;
  EXPECT_NE(text.find("quantize_activations(%g)"), std::string::npos) << "the graph's own output still needs the floats";
  EXPECT_EQ(text.find("quantize_activations(%n)"), std::string::npos) << text;
}

constexpr const char* kGates = R"(graph main(%x: f32[T, 64]) {
    %w = constant "w": f32[96, 64]
    %v = constant "v": f32[96, 64]
    %u, %g = linear(%x, %w, %v) {outputs = 2}
    %y = glu(%g, %u) {activation = "gelu_tanh"}
    return %y)";

TEST(FuseGates, products_that_only_a_glu_reads_become_one_node_with_it_gate_first) {
  const std::string text = after(fuse_gates, std::string(kGates) + "\n}");
  EXPECT_NE(text.find("linear_glu @u(%x, %v, %w)"), std::string::npos) << text;
  EXPECT_NE(text.find("gelu_tanh"), std::string::npos) << text;
  EXPECT_EQ(text.find(" glu("), std::string::npos) << text;
}

TEST(FuseGates, a_product_that_something_else_reads_stays) {
  const std::string text = std::string(kGates) + ", %u\n}";
  EXPECT_EQ(after(fuse_gates, text), after([](ir::Graph&) {}, text));
}

}  // namespace
}  // namespace quern::passes
