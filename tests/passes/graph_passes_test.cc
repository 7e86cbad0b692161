// Passes that only graph models go through, text in and text out.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/text.h"
#include "ir/verify.h"
#include "ops/registry.h"
#include "passes/passes.h"

namespace quern::passes {
namespace {

/// The graph after a pass, as text. What comes out must be as sound as what went in.
std::string after(void (*pass)(ir::Graph&), std::string_view text) {
  const auto graph = ir::parse_graph(text, ops::find);
  ir::verify(*graph);
  pass(*graph);
  ir::verify(*graph);
  return ir::to_text(*graph);
}

/// A text as it prints.
std::string printed(std::string_view text) {
  return after([](ir::Graph&) {}, text);
}

TEST(RemoveIdentities, casts_to_the_same_type_and_identities_go) {
  EXPECT_EQ(after(remove_identities, R"(graph main(%x: f32[N, 2]) {
    %a = cast(%x) {to = f32}
    %b = identity(%a)
    %c = cast(%b) {to = i32}
    %d = cast_like(%c, %c)
    return %d
  })"),
            printed(R"(graph main(%x: f32[N, 2]) {
    %c = cast(%x) {to = i32}
    return %c
  })"));
}

TEST(RemoveIdentities, transposes_that_undo_each_other_go) {
  EXPECT_EQ(after(remove_identities, R"(graph main(%x: f32[N, 2, 3]) {
    %a = transpose(%x) {perm = [0, 2, 1]}
    %b = transpose(%a) {perm = [0, 2, 1]}
    %c = transpose(%x)
    %d = transpose(%c) {perm = [2, 1, 0]}
    %e = transpose(%d) {perm = [0, 1, 2]}
    %y = add(%b, %e)
    return %y
  })"),
            printed(R"(graph main(%x: f32[N, 2, 3]) {
    %y = add(%x, %x)
    return %y
  })"));
}

TEST(RemoveIdentities, two_transposes_become_one) {
  EXPECT_EQ(after(remove_identities, R"(graph main(%x: f32[2, 3, 4]) {
    %a = transpose(%x) {perm = [1, 2, 0]}
    %b = transpose(%a) {perm = [0, 2, 1]}
    return %b
  })"),
            printed(R"(graph main(%x: f32[2, 3, 4]) {
    %b_1 = transpose @b(%x) {perm = [1, 0, 2]}
    return %b_1
  })"));
}

TEST(SinkTransposes, a_chain_between_two_transposes_runs_in_the_order_before_them) {
  EXPECT_EQ(after(sink_transposes, R"(graph main(%x: f32[N, 3, 4, 5]) {
    %bias = constant: f32[3] = [1.0, 2.0, 3.0]
    %two = constant: f32[] = 2.0
    %a = transpose(%x) {perm = [0, 2, 3, 1]}
    %b = add(%a, %bias)
    %c = mul(%two, %b)
    %d = relu(%c)
    %y = transpose(%d) {perm = [0, 3, 1, 2]}
    return %y
  })"),
            printed(R"(graph main(%x: f32[N, 3, 4, 5]) {
    %two = constant: f32[] = 2.0
    %bias_2.folded = constant: f32[1, 3, 1, 1] = [1.0, 2.0, 3.0]
    %b_1 = add @b(%x, %bias_2.folded)
    %c_1 = mul @c(%two, %b_1)
    %d_1 = relu @d(%c_1)
    return %d_1
  })"));
}

TEST(SinkTransposes, operands_transposed_alike_meet) {
  EXPECT_EQ(after(sink_transposes, R"(graph main(%x: f32[N, 3, 4], %z: f32[N, 3, 4]) {
    %a = transpose(%x) {perm = [0, 2, 1]}
    %b = transpose(%z) {perm = [0, 2, 1]}
    %y = add(%a, %b)
    return %y
  })"),
            printed(R"(graph main(%x: f32[N, 3, 4], %z: f32[N, 3, 4]) {
    %y_1 = add @y(%x, %z)
    %y_2 = transpose @y(%y_1) {perm = [0, 2, 1]}
    return %y_2
  })"));
}

TEST(SinkTransposes, operands_in_other_orders_and_values_needed_transposed_stay) {
  for (const char* text : {R"(graph main(%x: f32[3, 3, 3], %z: f32[3, 3, 3]) {
    %a = transpose(%x) {perm = [0, 2, 1]}
    %b = transpose(%z) {perm = [1, 0, 2]}
    %y = add(%a, %b)
    return %y
  })",
                           R"(graph main(%x: f32[3, 3], %z: f32[3, 3]) {
    %a = transpose(%x) {perm = [1, 0]}
    %y = add(%a, %z)
    return %y
  })",
                           R"(graph main(%x: f32[3, 3]) {
    %a = transpose(%x) {perm = [1, 0]}
    %y = relu(%a)
    return %y, %a
  })",
                           R"(graph main(%x: f32[3, 3]) {
    %a = transpose(%x) {perm = [1, 0]}
    %y = relu(%a)
    %s = softmax(%a)
    return %y, %s
  })"})
    EXPECT_EQ(after(sink_transposes, text), printed(text));
}

TEST(FoldIntoConv, what_follows_by_channel_becomes_weights_and_bias) {
  EXPECT_EQ(after(fold_into_conv, R"(graph main(%x: f32[N, 1, 8]) {
    %w = constant: f32[2, 1, 2] = [1.0, 2.0, 3.0, 4.0]
    %two = constant: f32[1, 2, 1] = [2.0, 0.5]
    %one = constant: f32[1] = [1.0]
    %four = constant: f32[] = 4.0
    %five = constant: f32[2, 1] = [5.0, 6.0]
    %a = conv(%x, %w)
    %b = mul(%a, %two)
    %c = add(%one, %b)
    %d = div(%c, %four)
    %e = sub(%d, %one)
    %y = sub(%five, %e)
    %z = relu(%y)
    return %z
  })"),
            printed(R"(graph main(%x: f32[N, 1, 8]) {
    %w.scaled = constant: f32[2, 1, 2] = [-0.5, -1.0, -0.375, -0.5]
    %a.bias = constant: f32[2] = [5.75, 6.75]
    %y_1 = conv @y(%x, %w.scaled, %a.bias)
    %z = relu(%y_1)
    return %z
  })"));
}

TEST(FoldIntoConv, additions_leave_the_weights_alone) {
  EXPECT_EQ(after(fold_into_conv, R"(graph main(%x: f32[N, 1, 8]) {
    %w = constant: f32[2, 1, 2] = [1.0, 2.0, 3.0, 4.0]
    %b = constant: f32[2] = [1.0, 2.0]
    %c = constant: f32[2, 1] = [10.0, 20.0]
    %a = conv(%x, %w, %b)
    %y = add(%a, %c)
    return %y
  })"),
            printed(R"(graph main(%x: f32[N, 1, 8]) {
    %w = constant: f32[2, 1, 2] = [1.0, 2.0, 3.0, 4.0]
    %a.bias = constant: f32[2] = [11.0, 22.0]
    %y_1 = conv @y(%x, %w, %a.bias)
    return %y_1
  })"));
}

TEST(FoldIntoConv, batch_normalization_is_a_scale_and_a_shift) {
  EXPECT_EQ(after(fold_into_conv, R"(graph main(%x: f32[N, 1, 8]) {
    %w = constant: f32[2, 1, 1] = [1.0, 2.0]
    %scale = constant: f32[2] = [4.0, 3.0]
    %shift = constant: f32[2] = [1.0, 2.0]
    %mean = constant: f32[2] = [5.0, 6.0]
    %variance = constant: f32[2] = [3.75, 0.0]
    %a = conv(%x, %w)
    %y = batch_normalization(%a, %scale, %shift, %mean, %variance) {epsilon = 0.25}
    return %y
  })"),
            printed(R"(graph main(%x: f32[N, 1, 8]) {
    %w.scaled = constant: f32[2, 1, 1] = [2.0, 12.0]
    %a.bias = constant: f32[2] = [-9.0, -34.0]
    %y_1 = conv @y(%x, %w.scaled, %a.bias)
    return %y_1
  })"));
}

TEST(FoldIntoConv, values_read_elsewhere_and_constants_of_other_shapes_stay) {
  for (const char* text : {R"(graph main(%x: f32[N, 1, 8]) {
    %w = constant: f32[2, 1, 1] = [1.0, 2.0]
    %c = constant: f32[] = 3.0
    %a = conv(%x, %w)
    %y = mul(%a, %c)
    return %y, %a
  })",
                           R"(graph main(%x: f32[N, 1, 2]) {
    %w = constant: f32[2, 1, 1] = [1.0, 2.0]
    %c = constant: f32[2] = [3.0, 4.0]
    %a = conv(%x, %w)
    %y = mul(%a, %c)
    return %y
  })",
                           R"(graph main(%x: f32[N, 1, 2]) {
    %w = constant: f32[2, 1, 1] = [1.0, 2.0]
    %a = conv(%x, %w)
    %y = mul(%a, %a)
    return %y
  })",
                           R"(graph main(%x: f32[N, 1, 2]) {
    %w = constant: f32[2, 1, 1] = [1.0, 2.0]
    %zero = constant: f32[] = 0.0
    %a = conv(%x, %w)
    %y = div(%a, %zero)
    return %y
  })"})
    EXPECT_EQ(after(fold_into_conv, text), printed(text));
}

}  // namespace
}  // namespace quern::passes
