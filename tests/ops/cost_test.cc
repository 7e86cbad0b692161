// What ops say that a call costs: counted by hand from their definitions.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "ir/op.h"
#include "ops/registry.h"

namespace quern::ops {
namespace {

using ir::DType;

/// A call whose operands have types and sizes; data where an op looks at it.
class Costs {
 public:
  explicit Costs(const ir::Op& op) : op_(op) { node_.op = &op; }
  Costs& in(DType dtype, std::vector<std::int64_t> dims, const void* data = nullptr) {
    node_.inputs.push_back(nullptr);
    return add(dtype, dims, data);
  }
  Costs& out(DType dtype, std::vector<std::int64_t> dims) {
    node_.outputs.push_back(nullptr);
    return add(dtype, dims, nullptr);
  }
  Costs& set(const char* name, ir::Attribute value) {
    node_.attributes[name] = std::move(value);
    return *this;
  }
  double operations() { return op_.operations(call()); }
  double bytes(std::size_t i) { return op_.touched_bytes(call(), i); }

 private:
  Costs& add(DType dtype, const std::vector<std::int64_t>& dims, const void* data) {
    ir::TensorView view;
    view.dtype = dtype;
    view.rank = static_cast<std::int64_t>(dims.size());
    std::copy(dims.begin(), dims.end(), view.dims);
    view.data = static_cast<std::byte*>(const_cast<void*>(data));
    views_.push_back(view);
    return *this;
  }
  ir::Call call() {
    operands_.clear();
    for (const ir::TensorView& view : views_) operands_.push_back(&view);
    ir::Call call;
    call.node = &node_;
    call.inputs = operands_.data();
    call.outputs = operands_.data() + node_.inputs.size();
    return call;
  }

  const ir::Op& op_;
  ir::Node node_;
  std::vector<ir::TensorView> views_;
  std::vector<const ir::TensorView*> operands_;
};

/// Five tokens of two sequences (rows 1 and 0 of the table) in a cache of 10 blocks of 16 tokens, 2 heads of 8; 4 query heads.
Costs attention(const std::int32_t* sequence, const std::int32_t* positions, std::int64_t window = 0) {
  Costs costs(paged_attention);
  costs.in(DType::f32, {5, 4, 8}).in(DType::f16, {10, 2, 8, 16}).in(DType::f16, {10, 2, 16, 8}).in(DType::i32, {2, 3});
  costs.in(DType::i32, {5}, sequence).in(DType::i32, {5}, positions).out(DType::f32, {5, 4, 8});
  costs.set("window", window);
  return costs;
}

TEST(Cost, attention_counts_the_keys_that_each_token_sees) {
  const std::int32_t sequence[] = {1, 1, 1, 0, 0}, positions[] = {10, 11, 12, 0, 1};
  Costs costs = attention(sequence, positions);
  EXPECT_EQ(costs.operations(), (11 + 12 + 13 + 1 + 2) * 4 * (2 * 8 + 2 * 8)) << "a product with 8 keys and one with 8 values a head";
  EXPECT_EQ(costs.bytes(1), (13 + 2) * 2 * 8 * 2) << "keys that tokens of a sequence share are read once";
  EXPECT_EQ(costs.bytes(2), costs.bytes(1));
  EXPECT_EQ(costs.bytes(0), 5 * 4 * 8 * 4);
  EXPECT_EQ(costs.bytes(6), 5 * 4 * 8 * 4);
}

TEST(Cost, attention_counts_only_what_lies_in_the_window) {
  const std::int32_t sequence[] = {1, 1, 1, 0, 0}, positions[] = {10, 11, 12, 0, 1};
  Costs costs = attention(sequence, positions, 4);
  EXPECT_EQ(costs.operations(), (4 + 4 + 4 + 1 + 2) * 4 * 32);
  EXPECT_EQ(costs.bytes(2), (6 + 2) * 2 * 8 * 2) << "keys 7 … 12 and 0 … 1";
}

TEST(Cost, attention_counts_no_more_than_the_cache_whatever_the_positions_say) {
  const std::int32_t sequence[] = {1, -7, INT32_MAX, 0, 0}, positions[] = {INT32_MAX, INT32_MIN, -1, INT32_MAX, 0};
  Costs costs = attention(sequence, positions);
  EXPECT_EQ(costs.operations(), (48 + 48 + 1) * 4 * 32);
  EXPECT_LE(costs.bytes(1), 5 * 48 * 2 * 8 * 2);
}

TEST(Cost, products_count_a_multiplication_and_an_addition_for_each_term) {
  EXPECT_EQ(Costs(linear).in(DType::a8, {3, 64}).in(DType::q4_1, {5, 64}).out(DType::f32, {3, 5}).operations(), 2 * 3 * 64 * 5);
  EXPECT_EQ(Costs(matmul).in(DType::f32, {7, 3, 6}).in(DType::f32, {6, 5}).out(DType::f32, {7, 3, 5}).operations(), 2 * 7 * 3 * 6 * 5);
  EXPECT_EQ(Costs(gemm).in(DType::f32, {6, 3}).in(DType::f32, {6, 5}).out(DType::f32, {3, 5}).set("transA", std::int64_t{1}).operations(),
            2 * 3 * 6 * 5);
  // 8 channels in 2 groups to 6, windows of 3 x 3: each output is a sum of 4 * 9 products.
  EXPECT_EQ(Costs(conv).in(DType::f32, {1, 8, 10, 10}).in(DType::f32, {6, 4, 3, 3}).out(DType::f32, {1, 6, 8, 8}).operations(),
            2 * (6 * 8 * 8) * (4 * 9));
  // Backwards: each input meets a window for each of 3 outputs.
  EXPECT_EQ(Costs(conv_transpose).in(DType::f32, {1, 8, 10, 10}).in(DType::f32, {8, 3, 2, 2}).out(DType::f32, {1, 3, 11, 11}).operations(),
            2 * (8 * 10 * 10) * (3 * 4));
}

TEST(Cost, a_look_up_reads_the_rows_it_takes_and_not_the_table) {
  Costs costs(embedding);
  costs.in(DType::q8_0, {50000, 64}).in(DType::i32, {3}).out(DType::f32, {3, 64});
  EXPECT_EQ(costs.bytes(0), 3 * 2 * 34);
  EXPECT_EQ(costs.bytes(1), 3 * 4);
  EXPECT_EQ(costs.bytes(2), 3 * 64 * 4);
  Costs write(kv_write);
  write.in(DType::f16, {1000, 2, 16, 8}).in(DType::f32, {3, 2, 8}).in(DType::i32, {3}).out(DType::f16, {1000, 2, 16, 8});
  EXPECT_EQ(write.bytes(0) + write.bytes(3), 3 * 2 * 8 * 2);
  Costs pick(gather);
  pick.in(DType::f32, {1000, 4}).in(DType::i64, {2}).out(DType::f32, {2, 4});
  EXPECT_EQ(pick.bytes(0), 2 * 4 * 4);
  EXPECT_EQ(pick.bytes(1), 2 * 8);
  EXPECT_EQ(pick.bytes(2), 2 * 4 * 4);
}

}  // namespace
}  // namespace quern::ops
