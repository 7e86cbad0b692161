#include "cli/step_times.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "base/error.h"
#include "cli/loopback.h"
#include "cli/steps.h"

namespace quern::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kStreams = 16;  // answers at once where serving is measured

double median(std::vector<double> values) {
  if (values.empty()) throw Error(Code::internal, "the server on the loopback address gave no answers");
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double timed(Steps& steps) {
  const auto begin = Clock::now();
  steps.run();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// The median of some runs of a step.
double typical(Steps& steps, const std::function<void(Steps&)>& fill) {
  constexpr int kRuns = 7;
  std::vector<double> times;
  for (int run = -1; run < kRuns; ++run) {  // the first warms up
    fill(steps);
    const double seconds = timed(steps);
    if (run >= 0) times.push_back(seconds);
  }
  return median(std::move(times));
}

/// Of a piece of a prompt.
double piece(Steps& steps, std::int64_t first, std::int64_t count) {
  return typical(steps, [=](Steps& s) {
    for (std::int64_t i = 0; i < count; ++i) s.add(0, first + i, false);
  });
}

/// Of the next tokens of so many answers.
double answers(Steps& steps, std::int64_t sequences, std::int64_t position) {
  return typical(steps, [=](Steps& s) {
    for (std::int64_t i = 0; i < sequences; ++i) s.add(i, position, true);
  });
}

/// What the first step of its sizes takes longer than the next.
double first_of_its_sizes(Steps& steps) {
  constexpr std::int64_t kSmallest = 17, kSizes = 7;  // sizes that nothing else here has; small, so that the steps themselves differ little
  std::vector<double> longer;
  for (std::int64_t size = kSmallest; size < kSmallest + kSizes; ++size) {
    double seconds[2];
    for (double& one : seconds) {
      for (std::int64_t i = 0; i < size; ++i) steps.add(0, i, false);
      one = timed(steps);
    }
    longer.push_back(seconds[0] - seconds[1]);
  }
  return std::max(0.0, median(std::move(longer)));
}

/// What a token of a served answer takes beside its step: to be drawn, made text and sent. Served and bare steps take turns, since a
/// machine's speed changes.
double beside_the_step(const std::shared_ptr<const runtime::LanguageModel>& model, Loopback& server) {
  constexpr int kRounds = 3;
  const std::int64_t position = server.prompt_tokens() + Loopback::kTimes / 2;
  Steps bare(model, kStreams, position + 1);
  bare.fill_cache();
  std::vector<double> rest;
  for (int round = 0; round < kRounds; ++round) {
    const double step = answers(bare, kStreams, position);
    rest.push_back((median(server.times_between_tokens(kStreams)) - step) / double(kStreams));
  }
  return std::max(0.0, median(std::move(rest)));
}

/// Of prompts' pieces, and what a first step of its sizes takes more.
void measure_prompts(const std::shared_ptr<const runtime::LanguageModel>& model, engine::StepTimes& times) {
  const std::int64_t context = std::min<std::int64_t>(1024, model->context_length());
  Steps steps(model, 1, context);
  steps.fill_cache();
  for (const std::int64_t count : {1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 256, 511})
    if (count <= context) times.tokens.emplace_back(count, piece(steps, 0, count));
  const std::int64_t half = context / 2, length = std::min<std::int64_t>(256, half);
  times.prompt_key = std::max(0.0, (piece(steps, half, length) - piece(steps, 0, length)) / (double(length) * double(half)));
  // What the times of n tokens hold beside the tokens themselves.
  for (auto& [count, seconds] : times.tokens) seconds = std::max(0.0, seconds - times.prompt_key * double(count) * double(count + 1) / 2);
  times.new_sizes = first_of_its_sizes(steps);
}

/// Of answers: first by the keys that they see, then by how many there are, at a length that is usual.
void measure_answers(const std::shared_ptr<const runtime::LanguageModel>& model, engine::StepTimes& times) {
  constexpr std::int64_t kUsual = 256, kMost = 64;
  const std::int64_t context = model->context_length(), usual = std::min(kUsual, context);
  {
    constexpr std::int64_t kAnswers = 8, kFew = 16;
    Steps steps(model, kAnswers, std::min(8 * kUsual, context));
    steps.fill_cache();
    const double least = answers(steps, kAnswers, std::min(kFew, context) - 1);
    for (const std::int64_t keys : {kFew, kUsual / 4, kUsual, 3 * kUsual, 8 * kUsual})
      if (keys <= context) {
        const double seconds = (answers(steps, kAnswers, keys - 1) - least) / double(kAnswers);
        times.keys.emplace_back(keys, std::max(times.keys.empty() ? 0.0 : times.keys.back().second, seconds));
      }
    if (times.keys.empty()) times.keys.emplace_back(1, 0.0);
  }
  Steps steps(model, kMost, usual);
  steps.fill_cache();
  for (const std::int64_t count : {1, 2, 4, 8, 16, 24, 32, 48, 64})
    times.rows.emplace_back(
        count, std::max(0.0, answers(steps, count, usual - 1) - times.of_tokens(count) - double(count) * times.of_keys(usual)));
}

}  // namespace

engine::StepTimes measure_step_times(const std::shared_ptr<const runtime::LanguageModel>& model) {
  engine::StepTimes result;
  measure_prompts(model, result);
  measure_answers(model, result);
  Loopback server(model, kStreams);
  result.request = median(server.times_of_requests());
  result.token = beside_the_step(model, server);
  return result;
}

}  // namespace quern::cli
