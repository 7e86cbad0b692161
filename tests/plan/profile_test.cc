#include "plan/profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "ir/text.h"
#include "ops/registry.h"
#include "plan/session.h"
#include "tiled_backend.h"

namespace quern::plan {
namespace {

std::shared_ptr<const Program> compile(std::string_view text) {
  const auto graph = ir::parse_graph(text, ops::find);
  testing::TiledBackend backend;
  Backend* const backends[] = {&backend};
  return Program::compile(*graph, backends);
}

// A product with a constant, two steps that do not wait for each other, and one that waits for both.
constexpr const char* kGraph = R"(graph main(%x: f32[T, 2]) {
  %w = constant: f32[3, 2] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
  %a = linear(%x, %w)
  %b = neg(%a)
  %c = exp(%a)
  %y = add(%b, %c)
  return %y
})";

class ProfileTest : public ::testing::Test {
 protected:
  std::vector<float> run(std::int64_t tokens) {
    Binding& binding = session_.bind(std::vector{tokens});
    const std::vector<float> x(static_cast<std::size_t>(2 * tokens), 0.25f);
    const std::byte* inputs[] = {reinterpret_cast<const std::byte*>(x.data())};
    session_.run(binding, inputs);
    const auto* y = binding.output(0).as<float>();
    return {y, y + binding.output(0).elements()};
  }

  ThreadPool pool_{3};
  Session session_{compile(kGraph), pool_};
};

TEST_F(ProfileTest, the_time_of_all_workers_is_divided_without_rest) {
  Profile profile;
  session_.set_profile(&profile);
  for (int i = 0; i < 20; ++i) run(200);
  ASSERT_EQ(profile.groups().size(), 1u);
  const Profile::Group& group = profile.groups()[0];
  EXPECT_EQ(group.runs, 20);
  EXPECT_EQ(group.workers, 3u);
  double sum = group.idle_ns;
  EXPECT_GE(group.idle_ns, 0);
  for (const Profile::Step& step : group.steps) {
    EXPECT_GT(step.busy_ns, 0);
    EXPECT_GE(step.waiting_ns, 0);
    sum += step.busy_ns + step.waiting_ns;
  }
  EXPECT_NEAR(sum, group.wall_ns * 3, 1e-6 * group.wall_ns);
}

TEST_F(ProfileTest, every_task_is_an_event_inside_its_run_and_a_worker_does_one_at_a_time) {
  Profile profile(100000);
  session_.set_profile(&profile);
  for (int i = 0; i < 20; ++i) run(i % 2 == 0 ? 200 : 50);
  EXPECT_TRUE(profile.complete());
  ASSERT_EQ(profile.runs().size(), 20u);
  ASSERT_EQ(profile.groups().size(), 2u);
  std::size_t expected = 0;
  for (const Profile::Group& group : profile.groups())
    for (const Profile::Step& step : group.steps) expected += static_cast<std::size_t>(step.tasks * group.runs);
  EXPECT_EQ(profile.events().size(), expected);

  std::map<unsigned, std::int64_t> worker_free;
  for (const Profile::Event& event : profile.events()) {
    EXPECT_LE(event.begin_ns, event.end_ns);
    EXPECT_GE(event.begin_ns, worker_free[event.worker]) << "two tasks of a worker at once";
    worker_free[event.worker] = event.end_ns;
    const auto inside = [&](const Profile::Run& run) {
      return run.group == event.group && run.begin_ns <= event.begin_ns && event.end_ns <= run.end_ns;
    };
    EXPECT_TRUE(std::any_of(profile.runs().begin(), profile.runs().end(), inside));
    EXPECT_LT(event.worker, 3u);
  }
}

TEST_F(ProfileTest, costs_are_those_of_the_ops_summed_over_runs) {
  Profile profile;
  session_.set_profile(&profile);
  run(10);
  run(10);
  const Profile::Group& group = profile.groups()[0];
  ASSERT_EQ(group.steps.size(), 4u);
  const Cost& product = group.steps[0].cost;
  EXPECT_EQ(product.operations, 2 * (2 * 10 * 2 * 3));
  EXPECT_EQ(product.bytes, 2 * 4 * (10 * 2 + 3 * 2 + 10 * 3));
  EXPECT_EQ(product.memory_bytes, 2 * 4 * (10 * 2 + 3 * 2)) << "input and weights; what stays inside is in the caches";
  EXPECT_EQ(product.arithmetic, Arithmetic::f32);
  EXPECT_EQ(group.steps[1].cost.operations, 2 * 30) << "one an element";
}

/// Every node as two steps over a workspace.
class TwoPartBackend final : public Backend {
 public:
  std::string_view name() const override { return "two"; }
  std::unique_ptr<Kernel> lower(const ir::Node&) override { return std::make_unique<Part>(false); }

 private:
  struct Part final : Kernel {
    explicit Part(bool is_second) : is_second(is_second) {}
    Split split(const ir::Call&) const override { return {}; }
    ir::Dim workspace_bytes() const override { return is_second ? 0 : 64; }
    std::unique_ptr<Kernel> second() const override { return is_second ? nullptr : std::make_unique<Part>(true); }
    void run(const ir::Call&, std::int64_t, std::int64_t, std::byte*) const noexcept override {}
    const char* name() const override { return "part"; }
    bool is_second;
  };
};

TEST_F(ProfileTest, a_node_that_runs_as_two_steps_costs_once) {
  TwoPartBackend backend;
  Backend* const backends[] = {&backend};
  // Ops that say what they touch are asked about their own operands alone, never about a workspace.
  const auto graph = ir::parse_graph("graph main(%x: f32[8, 4], %i: i32[2]) {\n %y = take_rows(%x, %i)\n return %y\n}", ops::find);
  Session session(Program::compile(*graph, backends), pool_);
  Profile profile;
  session.set_profile(&profile);
  const std::vector<float> x(32);
  const std::vector<std::int32_t> rows(2);
  const std::byte* inputs[] = {reinterpret_cast<const std::byte*>(x.data()), reinterpret_cast<const std::byte*>(rows.data())};
  session.run(session.bind({}), inputs);
  const Profile::Group& group = profile.groups()[0];
  ASSERT_EQ(group.steps.size(), 2u);
  EXPECT_EQ(group.steps[0].cost.bytes, 2 * 4 * 4 + 2 * 4 + 2 * 4 * 4);
  EXPECT_EQ(group.steps[1].cost.bytes, 0);
  EXPECT_EQ(group.steps[1].tasks, 1);
}

TEST_F(ProfileTest, results_are_the_same_bits_with_and_without) {
  const std::vector<float> without = run(123);
  Profile profile;
  session_.set_profile(&profile);
  EXPECT_EQ(run(123), without);
  session_.set_profile(nullptr);
  EXPECT_EQ(run(123), without);
  EXPECT_EQ(profile.groups()[0].runs, 1);
}

TEST_F(ProfileTest, its_memory_is_bounded_however_many_runs_and_sizes) {
  Profile profile(100);
  session_.set_profile(&profile);
  for (std::int64_t n = 1; n <= 300; ++n) run(n);
  EXPECT_EQ(profile.groups().size(), Profile::kMaxGroups);
  EXPECT_LE(profile.events().size() + profile.runs().size(), 100u);
  EXPECT_FALSE(profile.complete());
}

}  // namespace
}  // namespace quern::plan
