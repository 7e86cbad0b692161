#include "engine/simulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <memory>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "engine/detail/batcher.h"
#include "tokenizers/tokenizer.h"

namespace quern::engine {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kVocabulary = 2;  // of answers; prompts have other tokens, which nobody looks up
constexpr double kShortest = 1e-6, kStep = 1.01;

/// Two tokens and no end.
std::unique_ptr<tokenizers::Tokenizer> two_words() {
  const std::vector<std::string> words = {"a", "b"};
  tokenizers::Spec spec{.model = "gpt2", .pre_tokenizer = "gpt-2"};
  spec.tokens.assign(words.begin(), words.end());
  spec.types.assign(words.size(), 1);
  return tokenizers::make_tokenizer(spec);
}

std::int32_t token_of(std::uint64_t block, std::uint64_t position) {
  std::uint64_t x = block * 0x9e3779b97f4a7c15u + position + 1;
  x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9u;
  return static_cast<std::int32_t>(x >> 34);
}

double on_line(const StepTimes::Points& points, std::int64_t count) {
  const auto after =
      std::upper_bound(points.begin(), points.end(), count, [](std::int64_t n, const auto& point) { return n < point.first; });
  if (after == points.begin() || points.size() == 1) return points.front().second;
  const auto& high = after == points.end() ? points.back() : *after;
  const auto& low = after == points.end() ? points[points.size() - 2] : *(after - 1);
  return low.second + (high.second - low.second) * double(count - low.first) / double(high.first - low.first);
}

/// The sizes that a session still has laid out.
class LatestSizes {
 public:
  using Sizes = std::pair<std::size_t, std::size_t>;
  /// Whether these are not among the latest; now they are.
  bool are_new(const Sizes& sizes) {
    const auto found = std::find(latest_.begin(), latest_.end(), sizes);
    const bool found_none = found == latest_.end();
    if (!found_none) latest_.erase(found);
    latest_.push_back(sizes);
    if (latest_.size() > plan::Session::kMaxBindings) latest_.erase(latest_.begin());
    return found_none;
  }

 private:
  std::vector<Sizes> latest_;  // the latest last
};

class Simulation {
 public:
  Simulation(const Trace& trace, const StepTimes& times, const SimulationOptions& options)
      : trace_(trace),
        times_(times),
        options_(options),
        limits_(limits()),
        batcher_(
            limits_,
            [this](const runtime::Batch& batch) {
              compute(batch);
              return detail::Batcher::Results(std::span(logits_).first(batch.rows.size() * kVocabulary));
            },
            [](std::int32_t, std::int32_t) {}, [](std::int32_t, std::int32_t) {}) {}

  SimulationResult run() {
    const std::size_t count = trace_.requests.size();
    states_.resize(count);
    std::int64_t said = 0;
    while (next_ < count || batcher_.busy() || !due_.empty() || !coming_.empty()) {
      if (!batcher_.busy() && due_.empty() && coming_.empty() && options_.clients == 0) now_ = std::max(now_, arrival(next_));
      while (next_ < count && (options_.clients > 0 ? active_ < options_.clients : arrival(next_) <= now_)) arrive(next_++);
      for (const std::size_t i : std::exchange(due_, {})) send(i, now_);
      if (!batcher_.busy() && !coming_.empty()) now_ = std::max(now_, coming_.front().known);
      for (; !coming_.empty() && coming_.front().known <= now_; coming_.pop_front()) submit(coming_.front());
      const auto waiting = batcher_.statistics().waiting;
      result_.most_waiting = std::max(result_.most_waiting, waiting);
      const auto begin = Clock::now();
      batcher_.step();
      const double seconds = std::chrono::duration<double>(Clock::now() - begin).count() - compute_seconds_;
      compute_seconds_ = 0;
      result_.scheduler_seconds += seconds;
      result_.slowest_step = std::max(result_.slowest_step, seconds);
      ++result_.steps;
      read_events();
      if (options_.progress && result_.requests >= said + 256) {
        said = result_.requests;
        if (!options_.progress(said)) break;
      }
    }
    result_.seconds = now_;
    return std::move(result_);
  }

 private:
  struct State {
    std::shared_ptr<detail::Channel> channel;
    double sent = 0, latest = 0;
    bool spoke = false, ended = false;
    std::size_t next = 0;  // which request waits for its end; 0: none does
  };

  struct Coming {
    std::size_t request;
    double sent, known;  // known: to the engine
  };

  detail::Batcher::Limits limits() const {
    const EngineOptions& engine = options_.engine;
    const std::int64_t context = engine.context_length != 0 ? engine.context_length : options_.context_tokens;
    const std::int64_t cache = engine.cache_tokens != 0 ? engine.cache_tokens : context;
    const std::int64_t block = options_.kv_block_tokens, blocks = (cache + block - 1) / block;
    if (context < 1 || cache < 1 || block < 1 || engine.max_sequences < 1 || engine.step_tokens < 1 || options_.window < 0 ||
        !(options_.load > 0) || times_.tokens.empty())
      throw Error(Code::invalid_argument, "sizes, load and step times of a simulation must be above 0");
    return {.max_sequences = engine.max_sequences,
            .step_tokens = engine.step_tokens,
            .vocabulary = kVocabulary,
            .tokens_known = kVocabulary,
            .blocks = blocks,
            .block_tokens = block,
            .max_blocks_per_sequence = std::min(blocks, (context + block - 1) / block),
            .window = options_.window,
            .window_blocks =
                runtime::window_blocks_for(options_.window, block, blocks, engine.max_sequences, engine.step_tokens + engine.max_sequences),
            .prefix_cache = engine.prefix_cache,
            .most_guesses = 0,  // a trace does not say what answers repeat
            .step_seconds = engine.max_itl_ms / 1000,
            .now = [this] { return time(); }};
  }
  Clock::time_point time() const {
    return Clock::time_point(std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(now_)));
  }
  double arrival(std::size_t i) const { return trace_.requests[i].arrival / options_.load; }

  /// Its time has come, but perhaps not its turn.
  void arrive(std::size_t i) {
    const std::int64_t session = trace_.requests[i].session;
    if (options_.clients > 0) return send(i, now_);
    if (session >= 0) {
      const auto [latest, first] = latest_of_session_.try_emplace(session, i);
      const std::size_t before = std::exchange(latest->second, i);
      if (!first && !states_[before].ended) {
        states_[before].next = i;
        return;
      }
    }
    send(i, arrival(i));
  }

  /// One after the other they are read, and the engine hears of them.
  void send(std::size_t i, double sent) {
    read_until_ = std::max(read_until_, sent) + times_.request;
    coming_.push_back({i, sent, read_until_});
    ++active_;
  }

  void submit(const Coming& coming) {
    const std::size_t i = coming.request;
    if (batcher_.busy()) now_ += times_.request;  // which the steps did without meanwhile
    const TracedRequest& traced = trace_.requests[i];
    std::vector<std::int32_t> prompt(static_cast<std::size_t>(traced.prompt_tokens));
    for (std::size_t p = 0; p < prompt.size(); ++p) {
      const std::size_t block = p / static_cast<std::size_t>(trace_.block_tokens);
      const std::uint64_t id = block < traced.blocks ? trace_.blocks[traced.first_block + block] : ~std::uint64_t{i};
      prompt[p] = token_of(id, p);
    }
    Request request{.prompt = std::move(prompt), .sampling = {.temperature = 0}, .max_tokens = traced.answer_tokens, .ignore_end = true};
    auto sequence = std::make_unique<detail::Sequence>(std::move(request), limits_.max_blocks_per_sequence * limits_.block_tokens,
                                                       kVocabulary, *words_, time());
    sequence->arrival = i;
    State& state = states_[i];
    state.channel = sequence->channel();
    state.sent = state.latest = coming.sent;
    state.channel->notify([this, i] { ready_.push_back(i); });
    batcher_.add(std::move(sequence));
  }

  /// Lets time pass.
  void compute(const runtime::Batch& batch) {
    const auto begin = Clock::now();
    double seconds =
        times_.of_tokens(static_cast<std::int64_t>(batch.ids.size())) + times_.of_rows(static_cast<std::int64_t>(batch.rows.size()));
    for (std::size_t i = 0, end = 0; i < batch.sequence.size(); i = end) {
      double keys = 0;
      for (end = i; end < batch.sequence.size() && batch.sequence[end] == batch.sequence[i]; ++end) keys += batch.positions[end] + 1.0;
      seconds += end - i == 1 ? times_.of_keys(batch.positions[i] + 1) : times_.prompt_key * keys;
    }
    now_ += seconds;
    if (sizes_.are_new({batch.ids.size(), batch.rows.size()})) now_ += times_.new_sizes;
    if (logits_.size() < batch.rows.size() * kVocabulary) logits_.resize(batch.rows.size() * kVocabulary);
    compute_seconds_ += std::chrono::duration<double>(Clock::now() - begin).count();
  }

  void read_events() {
    for (const std::size_t i : ready_) {
      State& state = states_[i];
      if (state.channel == nullptr) continue;
      while (const auto event = state.channel->poll()) {
        if (!event->ids.empty()) {
          sent_ += static_cast<std::int64_t>(event->ids.size());
          (state.spoke ? result_.gap : result_.first_token).add(now_ - (state.spoke ? state.latest : state.sent));
          state.spoke = true;
          state.latest = now_;
        }
        if (event->finish == FinishReason::none) continue;
        ++result_.requests;
        result_.failed += event->finish == FinishReason::error;
        result_.generated_tokens += event->generated_tokens;
        result_.prompt_tokens += event->prompt_tokens;
        result_.cached_tokens += event->cached_tokens;
        result_.whole.add(now_ - state.sent);
        --active_;
        state.ended = true;
        if (state.next != 0) due_.push_back(state.next);
        state.channel->notify({});
        state.channel.reset();
        break;
      }
    }
    ready_.clear();
    now_ += times_.token * double(std::exchange(sent_, 0));
  }

  const Trace& trace_;
  const StepTimes& times_;
  const SimulationOptions& options_;
  double now_ = 0, compute_seconds_ = 0;
  std::vector<float> logits_;
  std::unique_ptr<tokenizers::Tokenizer> words_ = two_words();
  std::vector<State> states_;
  std::vector<std::size_t> ready_, due_;  // due_: whose session has come to them
  std::unordered_map<std::int64_t, std::size_t> latest_of_session_;
  std::deque<Coming> coming_;
  double read_until_ = 0;
  LatestSizes sizes_;
  std::size_t next_ = 0;
  std::int64_t active_ = 0, sent_ = 0;
  SimulationResult result_;
  detail::Batcher::Limits limits_;
  detail::Batcher batcher_;
};

}  // namespace

double StepTimes::of_tokens(std::int64_t count) const { return on_line(tokens, count); }

double StepTimes::of_rows(std::int64_t count) const { return count == 0 || rows.empty() ? 0 : on_line(rows, count); }

double StepTimes::of_keys(std::int64_t count) const { return keys.empty() ? 0 : on_line(keys, count); }

void Durations::add(double seconds) {
  const auto bin = static_cast<std::size_t>(std::max(0.0, std::log(std::max(seconds, kShortest) / kShortest) / std::log(kStep)));
  if (bins_.size() <= bin) bins_.resize(bin + 1);
  ++bins_[bin];
  ++count_;
  largest_ = std::max(largest_, seconds);
}

double Durations::quantile(double share) const {
  auto left = static_cast<std::int64_t>(share * double(count_));
  for (std::size_t bin = 0; bin < bins_.size(); ++bin) {
    left -= bins_[bin];
    if (left < 0) return std::min(largest_, kShortest * std::pow(kStep, double(bin) + 0.5));
  }
  return largest_;
}

SimulationResult simulate(const Trace& trace, const StepTimes& times, const SimulationOptions& options) {
  return Simulation(trace, times, options).run();
}

}  // namespace quern::engine
