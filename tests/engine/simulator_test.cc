#include "engine/simulator.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace quern::engine {
namespace {

/// 10 ms a step and 1 ms a token, whatever else.
StepTimes plain() { return {.tokens = {{1, 0.011}, {1001, 1.011}}}; }

SimulationOptions options(std::int64_t sequences) {
  SimulationOptions o;
  o.engine.max_sequences = sequences;
  o.engine.cache_tokens = 1 << 16;
  o.engine.max_itl_ms = 1e6;  // steps as full as can be
  return o;
}

TEST(Simulator, one_request_takes_its_prompt_and_then_a_step_a_token) {
  const Trace trace{.requests = {{.arrival = 3, .prompt_tokens = 90, .answer_tokens = 11}}};
  const SimulationResult r = simulate(trace, plain(), options(4));
  EXPECT_EQ(r.requests, 1);
  EXPECT_EQ(r.failed, 0);
  EXPECT_EQ(r.generated_tokens, 11);
  EXPECT_EQ(r.steps, 11) << "the prompt's step gives the first token";
  EXPECT_NEAR(r.seconds, 3 + 0.1 + 10 * 0.011, 1e-9);
  EXPECT_NEAR(r.first_token.quantile(0.5), 0.1, 0.001) << "quantiles are known to 1 %";
  EXPECT_NEAR(r.gap.quantile(0.5), 0.011, 0.00011);
}

TEST(Simulator, requests_of_one_moment_share_steps) {
  Trace trace;
  for (int i = 0; i < 4; ++i) trace.requests.push_back({.arrival = 0, .prompt_tokens = 20, .answer_tokens = 5});
  const SimulationResult r = simulate(trace, plain(), options(4));
  EXPECT_EQ(r.steps, 5);
  EXPECT_NEAR(r.seconds, 0.09 + 4 * 0.014, 1e-9);
}

TEST(Simulator, clients_send_one_request_after_the_other) {
  Trace trace;
  for (int i = 0; i < 6; ++i) trace.requests.push_back({.arrival = 1000, .prompt_tokens = 1, .answer_tokens = 1});
  SimulationOptions o = options(4);
  o.clients = 2;
  const SimulationResult r = simulate(trace, plain(), o);
  EXPECT_EQ(r.requests, 6);
  EXPECT_EQ(r.steps, 3) << "two at a time";
  EXPECT_EQ(r.most_waiting, 2);
}

TEST(Simulator, rows_take_what_they_take_beside_their_tokens_and_sizes_that_are_new_more) {
  StepTimes times = plain();
  times.rows = {{1, 0.1}, {3, 0.3}};
  times.new_sizes = 10;
  Trace trace;
  for (int i = 0; i < 3; ++i) trace.requests.push_back({.arrival = 0, .prompt_tokens = 2, .answer_tokens = 3});
  const SimulationResult r = simulate(trace, times, options(4));
  EXPECT_EQ(r.steps, 3);
  EXPECT_NEAR(r.seconds, (0.016 + 0.3 + 10) + (0.013 + 0.3 + 10) + (0.013 + 0.3), 1e-9) << "the prompts, and two steps of a row each";
}

TEST(Simulator, keys_take_what_they_take) {
  StepTimes times = plain();
  times.keys = {{1, 1}, {11, 11}};
  times.prompt_key = 100;
  const Trace trace{.requests = {{.arrival = 0, .prompt_tokens = 3, .answer_tokens = 2}}};
  EXPECT_NEAR(simulate(trace, times, options(4)).seconds, 0.013 + 0.011 + 100 * (1 + 2 + 3) + 4, 1e-9);
}

TEST(Simulator, requests_are_read_one_after_the_other_and_tokens_are_sent_between_steps) {
  StepTimes times = plain();
  times.request = 0.5;
  times.token = 0.001;
  const Trace trace{
      .requests = {{.arrival = 1, .prompt_tokens = 1, .answer_tokens = 1}, {.arrival = 1, .prompt_tokens = 1, .answer_tokens = 1}}};
  const SimulationResult r = simulate(trace, times, options(4));
  EXPECT_EQ(r.steps, 2) << "the engine begins with the first before it hears of the second";
  EXPECT_NEAR(r.first_token.quantile(0), 0.511, 0.006);
  EXPECT_NEAR(r.first_token.largest(), 1.011, 1e-9);
  EXPECT_NEAR(r.seconds, 1 + 1.011 + 0.001, 1e-9);
}

TEST(Simulator, a_request_of_a_session_is_sent_when_the_one_before_it_has_ended) {
  Trace trace{.requests = {{.arrival = 0, .prompt_tokens = 1, .answer_tokens = 10, .session = 7},
                           {.arrival = 0, .prompt_tokens = 1, .answer_tokens = 1, .session = 8},
                           {.arrival = 0, .prompt_tokens = 1, .answer_tokens = 1, .session = 7},
                           {.arrival = 0, .prompt_tokens = 1, .answer_tokens = 1, .session = 7},
                           {.arrival = 9, .prompt_tokens = 1, .answer_tokens = 1, .session = 7}}};
  const SimulationResult r = simulate(trace, plain(), options(8));
  EXPECT_EQ(r.requests, 5);
  EXPECT_EQ(r.steps, 10 + 1 + 1 + 1);
  EXPECT_NEAR(r.first_token.largest(), 0.012, 1e-9) << "time to the first token counts from when it is sent";
  EXPECT_NEAR(r.seconds, 9.011, 1e-9) << "not before it arrives";
}

TEST(Simulator, answers_wait_longer_for_a_crowd_of_prompts_than_for_one) {
  const StepTimes times{.tokens = {{1, 0.0103}, {1001, 0.3103}}};  // 10 ms a step, 0.3 ms a token
  const auto run = [&](int chats, int prompts) {
    Trace trace;
    for (int i = 1; i <= 12; ++i)  // by which the engine learns what steps take
      trace.requests.push_back({.arrival = 0.2 * i, .prompt_tokens = 20 * i, .answer_tokens = 30});
    for (int i = 0; i < chats; ++i) trace.requests.push_back({.arrival = 10, .prompt_tokens = 10, .answer_tokens = 400});
    for (int i = 0; i < prompts; ++i) trace.requests.push_back({.arrival = 11, .prompt_tokens = 200, .answer_tokens = 2});
    SimulationOptions o = options(32);
    o.engine.max_itl_ms = 0;  // chosen by the engine
    return simulate(trace, times, o);
  };
  const SimulationResult crowd = run(1, 12), one = run(8, 1);
  // 2,400 tokens alone take 0.72 s; in steps of two and a half times the chat's own they would take 1.2 s.
  EXPECT_LT(crowd.first_token.largest(), 1.0);
  EXPECT_LT(crowd.gap.largest(), 0.13);
  EXPECT_LT(one.gap.largest(), 2.7 * one.gap.quantile(0.5));
}

TEST(Simulator, prompts_that_begin_with_the_same_blocks_use_the_cache) {
  const std::vector<std::uint64_t> blocks = {7, 8, 7, 9};
  const Trace trace{.requests = {{.arrival = 0, .prompt_tokens = 1000, .answer_tokens = 1, .first_block = 0, .blocks = 2},
                                 {.arrival = 5, .prompt_tokens = 1000, .answer_tokens = 1, .first_block = 2, .blocks = 2}},
                    .blocks = blocks,
                    .block_tokens = 512};
  const SimulationResult r = simulate(trace, plain(), options(4));
  EXPECT_EQ(r.cached_tokens, 512);
  SimulationOptions without = options(4);
  without.engine.prefix_cache = false;
  EXPECT_EQ(simulate(trace, plain(), without).cached_tokens, 0);
}

TEST(Simulator, a_model_with_a_window_finds_the_common_beginning_of_many_prompts_in_its_smaller_cache) {
  Trace trace{.requests = {}, .blocks = {}, .block_tokens = 512};
  for (std::uint64_t i = 0; i < 40; ++i) {
    trace.requests.push_back(
        {.arrival = double(i), .prompt_tokens = 2000, .answer_tokens = 20, .first_block = trace.blocks.size(), .blocks = 3});
    trace.blocks.insert(trace.blocks.end(), {1, 2, 100 + i});
  }
  SimulationOptions o = options(4);
  const std::int64_t whole = simulate(trace, plain(), o).cached_tokens;
  o.window = 512;
  const SimulationResult r = simulate(trace, plain(), o);
  EXPECT_EQ(r.cached_tokens, whole);
  EXPECT_EQ(r.cached_tokens, 39 * 1024);
  EXPECT_EQ(r.failed, 0);
}

TEST(Simulator, twice_the_load_brings_the_arrivals_in_half_the_time) {
  Trace trace;
  for (int i = 0; i < 10; ++i) trace.requests.push_back({.arrival = double(i), .prompt_tokens = 1, .answer_tokens = 1});
  SimulationOptions o = options(4);
  o.load = 2;
  EXPECT_NEAR(simulate(trace, plain(), o).seconds, 4.5 + 0.011, 1e-9);
}

TEST(Simulator, times_lie_on_lines_between_those_measured) {
  const StepTimes times{.tokens = {{1, 1.0}, {3, 2.0}, {5, 6.0}}};
  EXPECT_EQ(times.of_tokens(1), 1.0);
  EXPECT_EQ(times.of_tokens(2), 1.5);
  EXPECT_EQ(times.of_tokens(4), 4.0);
  EXPECT_EQ(times.of_tokens(7), 10.0);
  EXPECT_EQ((StepTimes{.tokens = {{8, 1.0}}}).of_tokens(100), 1.0);
}

TEST(Simulator, quantiles_are_exact_to_one_percent) {
  Durations d;
  for (int i = 1; i <= 1000; ++i) d.add(i * 1e-3);
  EXPECT_NEAR(d.quantile(0.5), 0.5, 0.006);
  EXPECT_NEAR(d.quantile(0.99), 0.99, 0.011);
  EXPECT_EQ(d.largest(), 1.0);
  EXPECT_EQ(Durations().quantile(0.5), 0);
}

TEST(Simulator, sizes_that_make_no_sense_are_errors) {
  const Trace trace{.requests = {{}}};
  EXPECT_THROW(simulate(trace, StepTimes{}, options(4)), Error);
  EXPECT_THROW(simulate(trace, plain(), options(0)), Error);
}

}  // namespace
}  // namespace quern::engine
