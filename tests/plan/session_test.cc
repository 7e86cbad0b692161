#include "plan/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"
#include "ir/text.h"
#include "ops/registry.h"
#include "support/allocations.h"
#include "tiled_backend.h"

namespace quern::plan {
namespace {

std::shared_ptr<const Program> compile(std::string_view text) {
  const auto graph = ir::parse_graph(text, ops::find);
  testing::TiledBackend backend;
  Backend* const backends[] = {&backend};
  return Program::compile(*graph, backends);
}

class SessionTest : public ::testing::Test {
 protected:
  ThreadPool pool_{3};
};

std::vector<float> run(Session& session, std::int64_t n, const std::vector<float>& x) {
  Binding& binding = session.bind(std::vector{n});
  const std::byte* inputs[] = {reinterpret_cast<const std::byte*>(x.data())};
  session.run(binding, inputs);
  const auto* y = binding.output(0).as<float>();
  return {y, y + binding.output(0).elements()};
}

constexpr const char* kTwice = "graph main(%x: f32[T]) {\n %a = neg(%x)\n %y = sub(%a, %x)\n return %y\n}";  // y = -2x

TEST_F(SessionTest, only_the_latest_bindings_are_kept) {
  Session session(compile(kTwice), pool_);
  for (std::int64_t n = 1; n <= 200; ++n) EXPECT_EQ(run(session, n, std::vector<float>(static_cast<std::size_t>(n), 1.0f)).back(), -2.0f);
  int kept = 0;
  for (std::int64_t n = 1; n <= 200; ++n) kept += session.is_bound(std::vector{n});
  EXPECT_EQ(kept, 64);
  EXPECT_TRUE(session.is_bound(std::vector<std::int64_t>{200}));
  EXPECT_FALSE(session.is_bound(std::vector<std::int64_t>{1}));
}

TEST_F(SessionTest, a_binding_that_is_used_outlives_others) {
  Session session(compile(kTwice), pool_);
  for (std::int64_t n = 1; n <= 200; ++n) {
    run(session, n, std::vector<float>(static_cast<std::size_t>(n)));
    run(session, 1, {1});
  }
  EXPECT_TRUE(session.is_bound(std::vector<std::int64_t>{1}));
}

TEST_F(SessionTest, the_arena_grows_to_the_largest_sizes_and_no_further) {
  Session session(compile(kTwice), pool_);
  run(session, 10, std::vector<float>(10));
  run(session, 10000, std::vector<float>(10000));
  const std::int64_t held = session.memory_bytes();
  EXPECT_GE(held, 40000);
  EXPECT_LE(held, 50000);
  for (std::int64_t n = 1; n < 100; ++n) run(session, n, std::vector<float>(static_cast<std::size_t>(n)));
  EXPECT_EQ(session.memory_bytes(), held);
  EXPECT_EQ(run(session, 10, std::vector<float>(10, 3.0f)), std::vector<float>(10, -6.0f)) << "an early binding after the arena moved";
}

TEST_F(SessionTest, a_run_of_sizes_seen_before_allocates_nothing) {
  if (!quern::testing::counts_allocations()) GTEST_SKIP() << "a sanitizer's allocator is in use";
  Session session(compile(kTwice), pool_);
  const std::vector<std::int64_t> sizes{100};
  const std::vector<float> x(100);
  const std::byte* inputs[] = {reinterpret_cast<const std::byte*>(x.data())};
  session.run(session.bind(sizes), inputs);
  const std::size_t before = quern::testing::allocations();
  for (int i = 0; i < 50; ++i) session.run(session.bind(sizes), inputs);
  EXPECT_EQ(quern::testing::allocations(), before);
}

TEST_F(SessionTest, sizes_that_make_no_sense_are_errors) {
  Session session(compile("graph main(%x: f32[T]) {\n %y = neg(%x)\n return %y\n}"), pool_);
  const auto what = [&](std::int64_t n) {
    try {
      session.bind(std::vector{n});
    } catch (const Error& e) {
      return std::string(name(e.code())) + ": " + e.what();
    }
    return std::string("bound");
  };
  EXPECT_EQ(what(-1), "invalid_argument: the size 'T' is negative");
  EXPECT_EQ(what(INT64_MAX).find("resource_exhausted"), 0u) << what(INT64_MAX);
  EXPECT_EQ(what(INT64_MAX / 4).find("resource_exhausted"), 0u) << what(INT64_MAX / 4);
  EXPECT_EQ(run(session, 2, {1, 2}), (std::vector<float>{-1, -2})) << "the session goes on";
}

TEST_F(SessionTest, tensors_without_elements_run_nothing) {
  Session session(compile(R"(graph main(%x: f32[T, 8], %w: f32[8, 8]) {
    %a = linear(%x, %w)
    %b = softmax(%a)
    %y = add(%b, %x)
    return %y
  })"),
                  pool_);
  Binding& binding = session.bind(std::vector<std::int64_t>{0});
  const std::vector<float> w(64);
  const std::byte* inputs[] = {nullptr, reinterpret_cast<const std::byte*>(w.data())};
  session.run(binding, inputs);
  EXPECT_EQ(binding.output(0).elements(), 0);
  EXPECT_EQ(binding.output(0).dims[1], 8);
}

TEST_F(SessionTest, an_empty_tensor_is_no_work_however_large_its_other_sizes) {
  Session session(compile("graph main(%x: f32[A, B]) {\n %y = softmax(%x)\n return %y\n}"), pool_);
  const std::byte* inputs[] = {nullptr};
  session.run(session.bind(std::vector<std::int64_t>{std::int64_t{1} << 40, 0}), inputs);
}

TEST_F(SessionTest, inputs_and_constants_may_be_outputs_and_outputs_may_come_twice) {
  Session session(compile(R"(graph main(%x: f32[T]) {
    %c = constant: f32[2] = [5.0, 6.0]
    %shape = constant: i64[2] = [1, -1]
    %y = neg(%x)
    %v = reshape(%x, %shape)
    return %y, %x, %c, %y, %v
  })"),
                  pool_);
  const std::vector<float> x{1, 2, 3};
  const std::byte* inputs[] = {reinterpret_cast<const std::byte*>(x.data())};
  Binding& binding = session.bind(std::vector<std::int64_t>{3});
  session.run(binding, inputs);
  EXPECT_EQ(binding.output(0).as<float>()[2], -3.0f);
  EXPECT_EQ(binding.output(1).as<float>(), x.data());
  EXPECT_EQ(binding.output(2).as<float>()[1], 6.0f);
  EXPECT_EQ(binding.output(3).data, binding.output(0).data);
  EXPECT_EQ(binding.output(4).as<float>(), x.data());
  EXPECT_EQ(binding.output(4).rank, 2);
}

TEST_F(SessionTest, outputs_stay_as_they_are_until_the_end_of_the_run) {
  Session session(compile(R"(graph main(%x: f32[T]) {
    %a = neg(%x)
    %b = sub(%a, %x)
    %c = sub(%b, %x)
    %d = sub(%c, %x)
    %e = sub(%d, %x)
    return %a, %c, %e
  })"),
                  pool_);
  const std::vector<float> x(50, 1.0f);
  const std::byte* inputs[] = {reinterpret_cast<const std::byte*>(x.data())};
  Binding& binding = session.bind(std::vector<std::int64_t>{50});
  session.run(binding, inputs);
  for (int i = 0; i < 50; ++i)
    for (std::size_t o = 0; o < 3; ++o) ASSERT_EQ(binding.output(o).as<float>()[i], -1.0f - 2.0f * static_cast<float>(o));
}

/// Runs `neg` element by element, and nothing else but what the tiled backend runs; does not take NaN.
class PickyBackend final : public Backend {
 public:
  std::string_view name() const override { return "picky"; }
  std::unique_ptr<Kernel> lower(const ir::Node& node) override {
    return node.op == &ops::neg ? std::make_unique<Neg>() : tiled_.lower(node);
  }

 private:
  struct Neg final : Kernel {
    Split split(const ir::Call& call) const override { return {call.out(0).elements(), 1e6}; }
    void run(const ir::Call& call, std::int64_t begin, std::int64_t end, std::byte*) const noexcept override {
      for (std::int64_t i = begin; i < end; ++i) {
        const float x = call.in(0).as<float>()[i];
        if (x != x) return call.fail("this is no number");
        call.out(0).as<float>()[i] = -x;
      }
    }
    const char* name() const override { return "neg"; }
  };
  testing::TiledBackend tiled_;
};

/// Runs `neg` in two parts: the first leaves the result in the workspace, the last unit first, the second takes it from there.
class TwoPartBackend final : public Backend {
 public:
  std::string_view name() const override { return "two parts"; }
  std::unique_ptr<Kernel> lower(const ir::Node& node) override {
    return node.op == &ops::neg ? std::make_unique<First>(byte_size(node.outputs[0]->type)) : tiled_.lower(node);
  }

 private:
  struct Second final : Kernel {
    Split split(const ir::Call& call) const override { return {call.out(0).elements(), 1e6}; }
    void run(const ir::Call& call, std::int64_t begin, std::int64_t end, std::byte*) const noexcept override {
      for (std::int64_t i = begin; i < end; ++i) call.out(0).as<float>()[i] = call.out(1).as<float>()[call.out(0).elements() - 1 - i];
    }
    const char* name() const override { return "second"; }
  };
  struct First final : Kernel {
    explicit First(ir::Dim bytes) : bytes(std::move(bytes)) {}
    Split split(const ir::Call& call) const override { return {call.out(0).elements(), 1e6}; }
    ir::Dim workspace_bytes() const override { return bytes; }
    std::unique_ptr<Kernel> second() const override { return std::make_unique<Second>(); }
    void run(const ir::Call& call, std::int64_t begin, std::int64_t end, std::byte*) const noexcept override {
      if (call.out(1).dtype != ir::DType::u8 || call.out(1).bytes() != call.out(0).bytes()) return call.fail("no workspace");
      for (std::int64_t i = begin; i < end; ++i) call.out(1).as<float>()[call.out(0).elements() - 1 - i] = -call.in(0).as<float>()[i];
    }
    const char* name() const override { return "first"; }
    ir::Dim bytes;
  };
  testing::TiledBackend tiled_;
};

TEST_F(SessionTest, the_second_part_of_a_kernel_finds_what_the_first_left_in_the_workspace) {
  const auto graph = ir::parse_graph(R"(graph main(%x: f32[T]) {
    %a = neg(%x)
    %b = neg(%a)
    %c = sub(%a, %b)
    %d = neg(%c)
    %y = sub(%d, %b)
    return %y
  })",
                                     ops::find);
  TwoPartBackend backend;
  Backend* const backends[] = {&backend};
  const auto program = Program::compile(*graph, backends);
  EXPECT_EQ(program->steps().size(), 8U);
  Session session(program, pool_);
  for (const std::int64_t size : {1, 20, 1000, 7}) {
    std::vector<float> x(static_cast<std::size_t>(size));
    std::iota(x.begin(), x.end(), 1.0f);
    for (int i = 0; i < 50; ++i) ASSERT_EQ(run(session, size, x), x);  // -(-x - x) - x
  }
}

TEST_F(SessionTest, data_that_a_kernel_cannot_use_is_an_error_that_names_the_node_and_the_next_run_works) {
  const auto graph = ir::parse_graph(R"(graph main(%x: f32[T]) {
    %a = abs(%x)
    %b = neg @"the first"(%a)
    %c = neg @"the second"(%b)
    %y = neg @"the third"(%a)
    return %c, %y
  })",
                                     ops::find);
  PickyBackend backend;
  Backend* const backends[] = {&backend};
  Session session(Program::compile(*graph, backends), pool_);
  const std::vector<float> good(20, 3.0f);
  std::vector<float> bad = good;
  bad[7] = std::nanf("");
  for (int i = 0; i < 100; ++i) {
    try {
      run(session, 20, bad);
      FAIL() << "NaN was taken";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::invalid_argument);
      EXPECT_STREQ(e.what(), "neg: this is no number (in node 'the first')");
    }
    ASSERT_EQ(run(session, 20, good), good) << "after a failure";
  }
}

}  // namespace
}  // namespace quern::plan
