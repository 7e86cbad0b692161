#include "sampling/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <tuple>

#include "base/error.h"
#include "sampling/random.h"
#include "support/allocations.h"

namespace quern::sampling {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// The row whose results are known for every sampler.
const std::vector<float> kRow = {3, 2.5f, 2, 1, 0, -1, -2, -4};

/// A random number depends on the position alone, so histories of other lengths give other draws.
std::vector<std::int32_t> history(std::size_t n) { return std::vector<std::int32_t>(n, 0); }

std::map<std::int32_t, int> draws(const Parameters& p, const std::vector<float>& row, int n) {
  const Sampler sampler(p, static_cast<std::int64_t>(row.size()));
  Workspace workspace(row.size());
  std::map<std::int32_t, int> counts;
  std::vector<std::int32_t> past;
  for (int i = 0; i < n; ++i) {
    ++counts[sampler.sample(row, past, workspace)];
    past.push_back(0);
  }
  return counts;
}

std::set<std::int32_t> kept(Parameters p, const std::vector<float>& row = kRow) {
  p.temperature = 1e6;  // comes last, and makes everything kept equally probable
  std::set<std::int32_t> ids;
  for (const auto& [id, count] : draws(p, row, 2000)) ids.insert(id);
  return ids;
}

TEST(Philox, gives_the_numbers_of_its_inventors) {
  EXPECT_THAT(philox({0, 0, 0, 0}, {0, 0}), ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  EXPECT_THAT(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

TEST(Philox, uniform_numbers_are_uniform_and_below_one) {
  std::vector<int> bins(64);
  double sum = 0;
  for (std::uint64_t i = 0; i < 64000; ++i) {
    const double u = uniform(7, i, Purpose::token);
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    ++bins[static_cast<std::size_t>(u * 64)];
    sum += u;
  }
  double chi = 0;
  for (const int n : bins) chi += (n - 1000.0) * (n - 1000.0) / 1000.0;
  EXPECT_LT(chi, 116.4);  // 63 degrees of freedom, 1e-4... the upper tail
  EXPECT_NEAR(sum / 64000, 0.5, 0.005);
}

TEST(Exp, agrees_with_the_exact_function) {
  EXPECT_EQ(exp_nonpositive(0), 1.0f);
  EXPECT_EQ(exp_nonpositive(-kInfinity), 0.0f);
  EXPECT_EQ(exp_nonpositive(-1e30f), 0.0f);
  for (float x = 0; x > -86.9f; x -= 0.00137f) {
    const double exact = std::exp(double(x));
    ASSERT_NEAR(exp_nonpositive(x), exact, 2e-7 * exact) << x;
  }
}

TEST(Sampler, top_p_keeps_the_shortest_run_with_the_mass) {
  EXPECT_EQ(kept({.top_p = 0.9}), (std::set<std::int32_t>{0, 1, 2}));
  EXPECT_EQ(kept({.top_p = 0.8}), (std::set<std::int32_t>{0, 1, 2}));
  EXPECT_EQ(kept({.top_p = 0.73}), (std::set<std::int32_t>{0, 1}));
  EXPECT_EQ(kept({.top_p = 1e-9}), (std::set<std::int32_t>{0}));
  EXPECT_EQ(kept({.top_p = 0.9999}), (std::set<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(kept({.top_p = 0.99}), (std::set<std::int32_t>{0, 1, 2, 3, 4, 5}))
      << ".457562 + … + .008381 = .996501, without the last .988120";
  EXPECT_EQ(kept({.top_p = 0.5}, {1, 1, 1, 1}), (std::set<std::int32_t>{0, 1}))
      << "ties go to the lower id, and exactly the mass is enough";
}

TEST(Sampler, min_p_keeps_what_is_near_the_most_probable) {
  EXPECT_EQ(kept({.min_p = 0.05}), (std::set<std::int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(kept({.min_p = 0.2}), (std::set<std::int32_t>{0, 1, 2}));
  EXPECT_EQ(kept({.min_p = 1}, {1, 2, 2, 0}), (std::set<std::int32_t>{1, 2}));
}

TEST(Sampler, top_k_keeps_exactly_k_with_ties_by_id) {
  EXPECT_EQ(kept({.top_k = 3}), (std::set<std::int32_t>{0, 1, 2}));
  EXPECT_EQ(kept({.top_k = 8}).size(), 8u);
  EXPECT_EQ(kept({.top_k = 1000}).size(), 8u);
  EXPECT_EQ(kept({.top_k = -1}).size(), 8u);
  EXPECT_EQ(kept({.top_k = 2}, {0, 1, 1, 1, 1}), (std::set<std::int32_t>{1, 2}));
  EXPECT_EQ(kept({.top_k = 3}, {-kInfinity, 5, -kInfinity, 1}), (std::set<std::int32_t>{1, 3})) << "more than there are alive";
}

TEST(Sampler, top_p_sees_what_top_k_left_and_min_p_what_both_left) {
  // Of the top 2, id 0 has .622.
  EXPECT_EQ(kept({.top_k = 2, .top_p = 0.6}), (std::set<std::int32_t>{0}));
  EXPECT_EQ(kept({.top_k = 2, .top_p = 0.63}), (std::set<std::int32_t>{0, 1}));
  EXPECT_EQ(kept({.top_k = 6, .top_p = 0.95, .min_p = 0.5}), (std::set<std::int32_t>{0, 1}));
}

TEST(Sampler, cuts_large_rows_as_sorting_would) {
  std::mt19937 random(5);
  for (const std::size_t n : {1u, 63u, 64u, 65u, 1000u, 5003u}) {
    for (int round = 0; round < 12; ++round) {
      std::vector<float> row(n);
      std::normal_distribution<float> normal(0, round % 3 == 0 ? 0.2f : 3.0f);
      for (float& x : row) x = random() % 10 == 0 ? -kInfinity : round % 2 ? normal(random) : std::round(normal(random));  // with ties
      row[n / 2] = 1;
      std::vector<Candidate> sorted;
      for (std::size_t i = 0; i < n; ++i)
        if (row[i] > -kInfinity) sorted.push_back({row[i], static_cast<std::int32_t>(i)});
      std::sort(sorted.begin(), sorted.end(), more_probable);
      Row looked(n);
      looked.look(row);
      for (const std::size_t k : {1u, 2u, 17u, 40u, 600u}) {
        std::vector<Candidate> top;
        looked.collect_top(k, top);
        std::sort(top.begin(), top.end(), more_probable);
        ASSERT_EQ(top.size(), std::min(k, sorted.size()));
        for (std::size_t i = 0; i < top.size(); ++i) ASSERT_EQ(top[i].id, sorted[i].id);
      }
      ASSERT_EQ(looked.argmax(), sorted[0].id);
      double sum = 0;
      for (const Candidate& c : sorted) sum += std::exp(double(c.logit) - double(sorted[0].logit));
      ASSERT_NEAR(looked.sum_exp(1), sum, 1e-6 * sum);
    }
  }
}

TEST(Sampler, penalties_change_the_logits_as_defined) {
  // Token 0 was seen twice, token 5 once: 1.057692, 2.5, 2, 1, 0, -2.05, -2, -4.
  const std::vector<std::int32_t> past = {0, 5, 0};
  const std::vector<float> expected = {1.057692f, 2.5f, 2, 1, 0, -2.05f, -2, -4};
  const Parameters p{.repeat_penalty = 1.3, .frequency_penalty = 0.5, .presence_penalty = 0.25};
  Workspace workspace(8);
  // Greedy with a bias finds where a penalised logit crosses another.
  const auto wins = [&](std::int32_t id, float bias_to_others) {
    Parameters q = p;
    q.temperature = 0;
    for (std::int32_t other = 0; other < 8; ++other)
      if (other != id && other != 1) q.bias.emplace_back(other, -100.0f);
    std::vector<float> row = kRow;
    row[1] = expected[static_cast<std::size_t>(id)] + bias_to_others;  // token 1 was not seen
    return Sampler(q, 8).sample(row, past, workspace) == id;
  };
  for (const std::int32_t id : {0, 2, 3, 5, 7}) {
    EXPECT_TRUE(wins(id, -1e-5f)) << id;
    EXPECT_FALSE(wins(id, 1e-5f)) << id;
  }
}

TEST(Sampler, penalties_count_the_last_tokens_only) {
  std::vector<std::int32_t> past = {0, 1, 1, 1};
  Workspace workspace(8);
  const auto greedy = [&](std::int32_t window) {
    return Sampler({.temperature = 0, .presence_penalty = 10, .penalty_window = window}, 8).sample(kRow, past, workspace);
  };
  EXPECT_EQ(greedy(3), 0);
  EXPECT_EQ(greedy(4), 2);
  EXPECT_EQ(greedy(-1), 2);
  EXPECT_EQ(greedy(0), 0);
  EXPECT_EQ(Sampler({.temperature = 0}, 8).sample(kRow, past, workspace), 0);
}

TEST(Sampler, of_the_openai_profile_frequency_and_presence_count_the_answer_alone_and_repetition_all) {
  const std::vector<std::int32_t> past = {0, 5, 0, 2};  // of which three are the prompt
  Workspace workspace(8);
  const auto greedy = [&](Parameters p) {
    p.temperature = 0;
    p.profile = Profile::openai;
    p.penalty_window = -1;
    return Sampler(p, 8).sample(kRow, past, workspace, 3);
  };
  EXPECT_EQ(greedy({.frequency_penalty = 2}), 0);
  EXPECT_EQ(greedy({.presence_penalty = 2}), 0);
  EXPECT_EQ(greedy({.frequency_penalty = 0.9, .bias = {{0, -kInfinity}, {1, -kInfinity}}}), 2) << "2 - 0.9 is above 1";
  EXPECT_EQ(greedy({.frequency_penalty = 1.1, .bias = {{0, -kInfinity}, {1, -kInfinity}}}), 3);
  EXPECT_EQ(greedy({.repeat_penalty = 2}), 1) << "token 0 is in the prompt";
}

TEST(Sampler, of_the_openai_profile_truncates_the_scaled_distribution) {
  // Logits 3, 2.5, 2, 1 …: the figures of the two orders for top-p 0.8 at temperature 0.5, and min-p 0.2 at temperature 2.
  const auto size = [](Parameters p) { return draws(p, kRow, 20000).size(); };
  for (const auto& [profile, top_p, min_p] : {std::tuple(Profile::openai, 2u, 5u), std::tuple(Profile::llama, 3u, 3u)}) {
    EXPECT_EQ(size({.profile = profile, .temperature = 0.5, .top_p = 0.8}), top_p);
    EXPECT_EQ(size({.profile = profile, .temperature = 2, .min_p = 0.2}), min_p);
  }
  // min-p comes first: of .4576 .2775 .1683 .0619 it leaves three, of which the first two have .814.
  EXPECT_EQ(size({.profile = Profile::openai, .top_p = 0.8, .min_p = 0.2}), 2u);
  EXPECT_EQ(size({.profile = Profile::llama, .top_p = 0.8, .min_p = 0.2}), 3u);
}

TEST(Sampler, chooses_among_allowed_tokens_only) {
  const auto counts = draws({.allowed = {3, 6, 7}}, kRow, 2000);
  EXPECT_TRUE(counts.contains(3) && counts.contains(6));
  for (const auto& [id, count] : counts) EXPECT_TRUE(id == 3 || id == 6 || id == 7) << id;
  EXPECT_EQ(Sampler({.temperature = 0, .allowed = {3, 6}, .bias = {{6, 50.0f}}}, 8).sample(kRow, {}, *std::make_unique<Workspace>(8)), 6);
}

TEST(Sampler, never_completes_a_bad_word) {
  Workspace workspace(8);
  const Sampler sampler({.temperature = 0, .bad_words = {{5, 4, 0}, {1}, {7, 7}}}, 8);
  const auto next = [&](std::vector<std::int32_t> past, std::size_t prompt) { return sampler.sample(kRow, past, workspace, prompt); };
  EXPECT_EQ(next({}, 0), 0);
  EXPECT_EQ(next({5, 4}, 0), 2) << "neither 0 nor the word of one token";
  EXPECT_EQ(next({4, 4}, 0), 0);
  EXPECT_EQ(next({5, 4}, 1), 0) << "a word that began in the prompt is none";
  EXPECT_EQ(next({4}, 0), 0) << "less than the word's beginning";
}

TEST(Sampler, bias_forces_and_forbids) {
  EXPECT_EQ(draws({.bias = {{4, 100.0f}}}, kRow, 100), (std::map<std::int32_t, int>{{4, 100}}));
  EXPECT_FALSE(kept({.bias = {{0, -kInfinity}}}).contains(0));
}

TEST(Sampler, greedy_takes_the_lowest_of_equals) {
  Workspace workspace(1000);
  std::vector<float> row(1000, -1.0f);
  row[300] = row[301] = row[990] = 2;
  EXPECT_EQ(Sampler({.temperature = 0}, 1000).sample(row, {}, workspace), 300);
  EXPECT_EQ(Sampler({.temperature = 5, .top_k = 1}, 1000).sample(row, {}, workspace), 300);
  EXPECT_EQ(Sampler({.temperature = 1e-300}, 1000).sample(row, {}, workspace), 300);
}

TEST(Sampler, one_that_is_alive_is_always_drawn) {
  std::vector<float> row(200, -kInfinity);
  row[150] = -50;
  for (const Parameters& p :
       {Parameters{}, Parameters{.top_k = 5}, Parameters{.top_p = 0.1}, Parameters{.min_p = 0.5}, Parameters{.temperature = 0}})
    EXPECT_EQ(draws(p, row, 50), (std::map<std::int32_t, int>{{150, 50}}));
}

TEST(Sampler, nan_infinity_and_nothing_are_errors_and_no_tokens) {
  Workspace workspace(100);
  const auto error = [&](const std::vector<float>& row, const Parameters& p) -> std::string {
    try {
      return std::to_string(Sampler(p, 100).sample(row, {}, workspace));
    } catch (const Error& e) {
      return std::string(name(e.code())) + ": " + e.what();
    }
  };
  for (const Parameters& p :
       {Parameters{}, Parameters{.temperature = 0}, Parameters{.top_k = 5}, Parameters{.top_p = 0.5, .repeat_penalty = 2}}) {
    for (const std::size_t at : {0u, 63u, 64u, 98u, 99u}) {
      std::vector<float> row(100, 1.0f);
      row[at] = kNan;
      EXPECT_THAT(error(row, p), HasSubstr("data_corrupt: the model computed NaN"));
      row[at] = kInfinity;
      EXPECT_THAT(error(row, p), HasSubstr("data_corrupt: the model computed infinity"));
    }
    EXPECT_THAT(error(std::vector<float>(100, -kInfinity), p), HasSubstr("data_corrupt: the model gives no token any probability"));
  }
  Parameters forbid;
  for (std::int32_t id = 0; id < 100; ++id) forbid.bias.emplace_back(id, -kInfinity);
  EXPECT_THAT(error(std::vector<float>(100, 1.0f), forbid),
              HasSubstr("invalid_argument: bias, allowed tokens and bad words forbid every token"));
}

TEST(Sampler, parameters_out_of_range_are_named) {
  const auto error = [](const Parameters& p) -> std::string {
    try {
      Sampler(p, 100);
    } catch (const Error& e) {
      return e.what();
    }
    return "none";
  };
  EXPECT_EQ(error({}), "none");
  EXPECT_THAT(error({.temperature = -1}), HasSubstr("temperature is -1; it must be 0 or more"));
  EXPECT_THAT(error({.temperature = kNan}), HasSubstr("temperature is nan"));
  EXPECT_THAT(error({.top_p = 0}), HasSubstr("top_p is 0"));
  EXPECT_THAT(error({.top_p = 1.5}), HasSubstr("top_p is 1.5"));
  EXPECT_THAT(error({.min_p = kNan}), HasSubstr("min_p is nan"));
  EXPECT_THAT(error({.repeat_penalty = 0}), HasSubstr("repeat_penalty is 0"));
  EXPECT_THAT(error({.frequency_penalty = kInfinity}), HasSubstr("frequency_penalty is inf"));
  EXPECT_THAT(error({.presence_penalty = kNan}), HasSubstr("presence_penalty is nan"));
  EXPECT_THAT(error({.penalty_window = -2}), HasSubstr("penalty_window is -2"));
  EXPECT_THAT(error({.bias = {{100, 1.0f}}}), HasSubstr("token 100 where the vocabulary has 100 tokens"));
  EXPECT_THAT(error({.bias = {{1, kInfinity}}}), HasSubstr("the bias of token 1 is inf"));
  EXPECT_THAT(error({.bias = {{1, kNan}}}), HasSubstr("the bias of token 1 is nan"));
}

/// Chi-square of draws against the law, and its bound: mean + z sqrt(2 df) with a wide z (a tail of about 1e-4 for few degrees of freedom).
void expect_law(const Parameters& p, const std::vector<float>& row, const std::vector<double>& law) {
  const int kDraws = row.size() < 100 ? 200000 : 30000;  // enough to see an error of 1 % in a common token
  std::map<std::int32_t, int> counts = draws(p, row, kDraws);
  double chi = 0, total = 0;
  int classes = 0;
  double rare = 0;
  int rare_count = 0;
  for (std::size_t id = 0; id < law.size(); ++id) {
    const double expected = law[id] * kDraws;
    const int count = counts[static_cast<std::int32_t>(id)];
    total += law[id];
    if (law[id] == 0) {
      EXPECT_EQ(count, 0) << id;
    }
    if (expected < 10) {
      rare += expected;
      rare_count += count;
      continue;
    }
    chi += (count - expected) * (count - expected) / expected;
    ++classes;
  }
  if (rare >= 10) chi += (rare_count - rare) * (rare_count - rare) / rare, ++classes;
  EXPECT_NEAR(total, 1, 1e-9);
  const double df = std::max(classes - 1, 1), z = 3.719;  // of a normal tail of 1e-4; Wilson and Hilferty 1931
  const double bound = df * std::pow(1 - 2 / (9 * df) + z * std::sqrt(2 / (9 * df)), 3);
  EXPECT_LT(chi, bound) << classes << " classes";
}

std::vector<double> law_of(const std::vector<float>& row, const std::set<std::int32_t>& alive, double temperature) {
  std::vector<double> law(row.size());
  double sum = 0;
  for (const std::int32_t id : alive)
    sum += law[static_cast<std::size_t>(id)] = std::exp(double(row[static_cast<std::size_t>(id)]) / temperature);
  for (double& p : law) p /= sum;
  return law;
}

TEST(Sampler, draws_follow_the_law_of_every_sampler) {
  const std::set<std::int32_t> all = {0, 1, 2, 3, 4, 5, 6, 7};
  expect_law({.seed = 1}, kRow, law_of(kRow, all, 1));
  expect_law({.temperature = 0.5, .seed = 2}, kRow, law_of(kRow, all, 0.5));
  expect_law({.temperature = 3, .top_k = 4, .seed = 3}, kRow, law_of(kRow, {0, 1, 2, 3}, 3));
  expect_law({.temperature = 0.5, .top_p = 0.8, .seed = 4}, kRow, law_of(kRow, {0, 1, 2}, 0.5));  // the cut comes before the temperature
  expect_law({.temperature = 2, .min_p = 0.2, .seed = 5}, kRow, law_of(kRow, {0, 1, 2}, 2));
  expect_law({.temperature = 1.5, .top_k = 5, .top_p = 0.97, .min_p = 0.01, .seed = 6}, kRow, law_of(kRow, {0, 1, 2, 3}, 1.5));
}

TEST(Sampler, draws_from_a_large_vocabulary_follow_the_law) {
  std::mt19937 random(9);
  std::vector<float> row(777);
  std::set<std::int32_t> all;
  std::normal_distribution<float> normal(0, 2);
  for (std::size_t i = 0; i < row.size(); ++i) {
    row[i] = i % 7 == 3 ? -kInfinity : normal(random);
    if (i % 7 != 3) all.insert(static_cast<std::int32_t>(i));
  }
  expect_law({.temperature = 1.2, .seed = 11}, row, law_of(row, all, 1.2));
  std::vector<std::int32_t> order(all.begin(), all.end());
  std::sort(order.begin(), order.end(),
            [&](auto a, auto b) { return row[static_cast<std::size_t>(a)] > row[static_cast<std::size_t>(b)]; });
  expect_law({.top_k = 100, .seed = 12}, row, law_of(row, std::set(order.begin(), order.begin() + 100), 1));
  const std::vector<double> law = law_of(row, all, 1);
  double mass = 0;
  std::set<std::int32_t> nucleus;
  for (const std::int32_t id : order) {
    if (mass >= 0.9) break;
    nucleus.insert(id);
    mass += law[static_cast<std::size_t>(id)];
  }
  expect_law({.top_p = 0.9, .seed = 13}, row, law_of(row, nucleus, 1));
}

TEST(Sampler, a_seed_gives_the_same_tokens_whatever_was_drawn_before) {
  Workspace one(8), other(8);
  const Sampler a({.seed = 42}, 8), b({.seed = 42}, 8), c({.seed = 43}, 8);
  int different = 0;
  for (std::size_t n = 200; n-- > 0;) {
    const std::int32_t id = a.sample(kRow, history(n), one);
    c.sample(kRow, history(n), other);
    EXPECT_EQ(b.sample(kRow, history(n), other), id);
    different += c.sample(kRow, history(n), other) != id;
  }
  EXPECT_GT(different, 50);
  EXPECT_NE(fresh_seed(), fresh_seed());
}

TEST(Sampler, allocates_nothing) {
  constexpr std::size_t kVocabulary = 5000;
  std::mt19937 random(3);
  std::vector<float> row(kVocabulary);
  for (float& x : row) x = std::normal_distribution<float>(0, 3)(random);
  const std::vector<Parameters> all = {
      {}, {.temperature = 0}, {.top_k = 40, .top_p = 0.9, .min_p = 0.05, .repeat_penalty = 1.1}, {.top_p = 0.999}, {.top_k = 4000}};
  std::vector<Sampler> samplers;
  for (const Parameters& p : all) samplers.emplace_back(p, static_cast<std::int64_t>(kVocabulary));
  Workspace workspace(kVocabulary);
  const std::vector<std::int32_t> past = {1, 2, 3, 1};
  const std::uint64_t before = quern::testing::allocations();
  for (const Sampler& sampler : samplers) sampler.sample(row, past, workspace);
  const LogProbabilities model(row, workspace);
  float sum = 0;
  model.top(20, [&](const auto& entry) { sum += entry.logprob; });
  EXPECT_EQ(quern::testing::allocations() - before, 0u) << sum;
}

TEST(LogProbabilities, are_the_models_own) {
  Workspace workspace(8);
  const LogProbabilities model(kRow, workspace);
  const double p[] = {.457562, .277525, .168328, .061924, .022781, .008381, .003083, .000417};
  for (std::int32_t id = 0; id < 8; ++id) EXPECT_NEAR(std::exp(model.of(id)), p[id], 1e-6);
  std::vector<std::int32_t> ids;
  std::vector<float> values;
  model.top(3, [&](const auto& entry) { ids.push_back(entry.id), values.push_back(entry.logprob); });
  EXPECT_THAT(ids, ElementsAre(0, 1, 2));
  EXPECT_EQ(values[1], model.of(1));
  int count = 0;
  model.top(0, [&](const auto&) { ++count; });
  EXPECT_EQ(count, 0);
  model.top(100, [&](const auto&) { ++count; });
  EXPECT_EQ(count, 8);
}

}  // namespace
}  // namespace quern::sampling
