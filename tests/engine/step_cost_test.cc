#include "engine/detail/step_cost.h"

#include <gtest/gtest.h>

#include <random>

namespace quern::engine::detail {
namespace {

/// A machine whose steps take 2 ms, 0.5 ms a row, 1 µs a key of one 0.4 ms a prompt token and 4 ms for having any, with noise.
double seconds(const StepWork& w, std::mt19937& random, double noise) {
  std::normal_distribution<double> factor(1, noise);
  return (2e-3 + (w.prompt_tokens > 0 ? 4e-3 : 0) + 5e-4 * double(w.rows) + 1e-6 * double(w.row_keys) + 4e-4 * double(w.prompt_tokens) +
          2e-8 * w.prompt_keys) *
         factor(random);
}

StepWork some_work(std::mt19937& random) {
  StepWork w{.rows = static_cast<std::int64_t>(random() % 17)};
  w.row_keys = w.rows * static_cast<std::int64_t>(random() % 1000);
  w.prompt_tokens = random() % 3 == 0 ? static_cast<std::int64_t>(random() % 512) : 0;
  w.prompt_keys = double(w.prompt_tokens) * double(random() % 2000);
  return w;
}

TEST(StepCost, promises_nothing_before_it_has_seen_some_steps) {
  const StepCost cost;
  EXPECT_EQ(cost.predict({.rows = 8}), 0);
  EXPECT_GT(cost.affordable({.rows = 8}, 100, 0.01), 100000);
}

TEST(StepCost, learns_what_a_machine_takes_to_a_tenth_in_spite_of_noise_and_hiccups) {
  std::mt19937 random(1);
  StepCost cost;
  for (int i = 0; i < 400; ++i) {
    const StepWork w = some_work(random);
    cost.observe(w, i % 50 == 49 ? 0.5 : seconds(w, random, 0.05));
  }
  for (int i = 0; i < 100; ++i) {
    const StepWork w = some_work(random);
    const double exact = seconds(w, random, 0);
    EXPECT_NEAR(cost.predict(w), exact, 0.1 * exact + 1e-3);
  }
}

TEST(StepCost, what_it_affords_takes_about_as_long_as_asked) {
  std::mt19937 random(2);
  StepCost cost;
  for (int i = 0; i < 300; ++i) {
    const StepWork w = some_work(random);
    cost.observe(w, seconds(w, random, 0.02));
  }
  StepWork w{.rows = 8, .row_keys = 4000};
  w.prompt_tokens = cost.affordable(w, 500, 0.05);
  w.prompt_keys = double(w.prompt_tokens) * 500;
  EXPECT_NEAR(seconds(w, random, 0), 0.05, 0.005);
  EXPECT_EQ(cost.affordable(w, 500, 0.001), 0);
}

TEST(StepCost, follows_a_machine_that_becomes_slower) {
  std::mt19937 random(3);
  StepCost cost;
  for (int i = 0; i < 300; ++i) {
    const StepWork w = some_work(random);
    cost.observe(w, seconds(w, random, 0.02));
  }
  for (int i = 0; i < 600; ++i) {
    const StepWork w = some_work(random);
    cost.observe(w, 2.5 * seconds(w, random, 0.02));
  }
  const StepWork w{.rows = 8, .row_keys = 4000, .prompt_tokens = 100, .prompt_keys = 10000};
  EXPECT_NEAR(cost.predict(w), 2.5 * seconds(w, random, 0), 0.2 * 2.5 * seconds(w, random, 0));
}

}  // namespace
}  // namespace quern::engine::detail
