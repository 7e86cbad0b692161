// Every line of kernels.inc has a case here: a node that its kernel takes, on which it agrees with the op's reference kernel. What a kernel
// does at the edges is tested in files of its own.
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "kernel_case.h"
#include "ops/registry.h"

namespace quern::cpu::test {
namespace {

std::mt19937 random_source(11);

Operand integers32(std::vector<std::int64_t> dims, const std::vector<std::int32_t>& values) {
  return {std::move(dims), bytes_of(values), false, ir::DType::i32};
}
Operand some(std::vector<std::int64_t> dims, bool constant = false) { return floats(std::move(dims), random_source, constant, 0.1f, 1); }

Operand booleans(std::int64_t count) {
  Operand made{{count}, std::vector<std::byte>(static_cast<std::size_t>(count)), false, ir::DType::boolean};
  for (std::byte& b : made.bytes) b = static_cast<std::byte>(random_source() % 2);
  return made;
}

struct ListCase {
  std::vector<Operand> operands;
  ir::Attributes attributes = {};
};

/// The operands of ops that are not simply element by element over one or two tensors of floats.
const std::map<std::string, std::function<ListCase()>>& special() {
  static const std::map<std::string, std::function<ListCase()>> cases = {
      {"linear", [] { return ListCase{{some({3, 40}), some({9, 40}, true)}}; }},
      {"linear_glu", [] { return ListCase{{some({3, 40}), some({9, 40}, true), some({9, 40}, true)}}; }},
      {"quantize_activations", [] { return ListCase{{some({3, 64})}}; }},
      {"rms_norm", [] { return ListCase{{some({3, 40}), some({40}, true)}}; }},
      {"embedding", [] { return ListCase{{some({9, 40}, true), integers32({3}, {8, 0, 3})}}; }},
      {"take_rows", [] { return ListCase{{some({9, 40}), integers32({3}, {8, 0, 3})}}; }},
      {"rope", [] { return ListCase{{some({3, 2, 16}), some({3, 2, 8})}}; }},
      {"paged_attention",
       [] {
         return ListCase{{some({3, 4, 16}), some({2, 2, 16, 16}), some({2, 2, 16, 16}), integers32({1, 2}, {1, 0}),
                          integers32({3}, {0, 0, 0}), integers32({3}, {3, 17, 20})},
                         {{"scale", 0.25}}};
       }},
      {"conv", [] { return ListCase{{some({1, 3, 8, 8}), some({4, 3, 3, 3}, true)}}; }},
      {"gemm", [] { return ListCase{{some({5, 30}), some({30, 20}, true)}}; }},
      {"matmul", [] { return ListCase{{some({5, 30}), some({30, 20}, true)}}; }},
      {"min", [] { return ListCase{{some({3, 40}), some({3, 40})}}; }},
      {"max", [] { return ListCase{{some({3, 40}), some({3, 40})}}; }},
      {"pow", [] { return ListCase{{some({3, 40}), floats_of({}, {2}, true)}}; }},
      {"clip", [] { return ListCase{{some({3, 40}), floats_of({}, {0.3f}, true)}}; }},
      {"and", [] { return ListCase{{booleans(40), booleans(40)}}; }},
      {"or", [] { return ListCase{{booleans(40), booleans(40)}}; }},
      {"xor", [] { return ListCase{{booleans(40), booleans(40)}}; }},
      {"where", [] { return ListCase{{booleans(40), some({40}), some({40})}}; }},
      {"cast", [] { return ListCase{{some({40})}, {{"to", ir::DType::i32}}}; }},
      {"softmax", [] { return ListCase{{some({3, 40})}}; }},
      {"layer_normalization", [] { return ListCase{{some({3, 40}), some({40}, true), some({40}, true)}, {{"epsilon", 1.0}}}; }},
      {"reduce_mean", [] { return ListCase{{some({3, 40}), integers_of({1}, {1})}}; }},
      {"reduce_sum", [] { return ListCase{{some({3, 40}), integers_of({1}, {1})}}; }},
      {"global_average_pool", [] { return ListCase{{some({1, 3, 5, 5})}}; }},
      {"max_pool", [] { return ListCase{{some({1, 3, 8, 8})}, {{"kernel_shape", std::vector<std::int64_t>{2, 2}}}}; }},
      {"average_pool", [] { return ListCase{{some({1, 3, 8, 8})}, {{"kernel_shape", std::vector<std::int64_t>{2, 2}}}}; }},
      {"transpose", [] { return ListCase{{some({3, 40})}}; }},
      {"expand", [] { return ListCase{{some({1, 40}), integers_of({2}, {3, 40})}}; }},
      {"slice", [] { return ListCase{{some({3, 40}), integers_of({1}, {1}), integers_of({1}, {3})}}; }},
      {"concat", [] { return ListCase{{some({3, 40}), some({2, 40})}, {{"axis", std::int64_t{0}}}}; }},
      {"split", [] { return ListCase{{some({4, 40})}, {{"axis", std::int64_t{0}}, {"outputs", std::int64_t{2}}}}; }},
      {"pad", [] { return ListCase{{some({3, 40}), integers_of({4}, {1, 0, 0, 2})}}; }},
      {"gather", [] { return ListCase{{some({3, 40}), integers_of({2}, {2, 0}, false)}}; }},
  };
  return cases;
}

/// Two alike tensors, or one, for the ops that are element by element.
ListCase elementwise(const ir::Op& op) {
  ListCase made{{some({3, 40})}};
  if (op.min_inputs == 2) made.operands.push_back(some({3, 40}));
  return made;
}

class Kernels : public ::testing::TestWithParam<const char*> {};

TEST_P(Kernels, has_a_case_here_and_agrees_with_the_reference) {
  const std::string name = GetParam();
  if (name == "kv_write") return;  // it changes its input: places_test.cc compares what is left
  if (name == "fused") return;     // it has a body: tests/runtime/fused_test.cc
  const ir::Op* op = ops::find(name);
  ASSERT_NE(op, nullptr);
  const auto found = special().find(name);
  ASSERT_TRUE(found != special().end() || has(op->traits, ir::Trait::elementwise)) << "add a case for '" << name << "' to special()";
  const ListCase made = found != special().end() ? found->second() : elementwise(*op);
  const KernelCase node(*op, made.operands, made.attributes);
  EXPECT_TRUE(node.is_fast()) << "the kernel did not take the node";
  if (node.reference().size() % sizeof(float) != 0 || name == "cast") {
    EXPECT_EQ(differs_at_all(node), "");
    return;
  }
  // Everything is positive and few are summed: 60 roundings of the result bound the error, where nothing is subtracted from it.
  std::vector<float> sizes = as_floats(node.reference());
  if (name == "layer_normalization" || name == "rope")  // these subtract
    for (float& size : sizes) size = std::abs(size) + 1;
  EXPECT_EQ(differs(node, sizes, 60 * 0x1p-24), "");
}

constexpr const char* kOps[] = {
#define QUERN_CPU_KERNEL(name, op) #op,
#include "backends/cpu/kernels.inc"
#undef QUERN_CPU_KERNEL
};
INSTANTIATE_TEST_SUITE_P(OfTheList, Kernels, ::testing::ValuesIn(kOps),
                         [](const auto& info) { return std::string(info.param) + "_" + std::to_string(info.index); });

}  // namespace
}  // namespace quern::cpu::test
