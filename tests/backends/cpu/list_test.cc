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

struct ListCase {
  std::vector<Operand> operands;
  ir::Attributes attributes = {};
};

/// The operands of ops that are not simply element by element over one or two tensors of floats.
const std::map<std::string, std::function<ListCase()>>& special() {
  static const std::map<std::string, std::function<ListCase()>> cases = {
      {"linear", [] { return ListCase{{some({3, 40}), some({9, 40}, true)}}; }},
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
  const ir::Op* op = ops::find(name);
  ASSERT_NE(op, nullptr);
  const auto found = special().find(name);
  ASSERT_TRUE(found != special().end() || has(op->traits, ir::Trait::elementwise)) << "add a case for '" << name << "' to special()";
  const ListCase made = found != special().end() ? found->second() : elementwise(*op);
  // All values are positive and few are summed: 60 roundings of the result itself bound the error.
  const KernelCase node(*op, made.operands, made.attributes);
  EXPECT_TRUE(node.is_fast()) << "the kernel did not take the node";
  EXPECT_EQ(differs(node, as_floats(node.reference()), 60 * 0x1p-24), "");
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
