// Random requests on engines of random settings, with failures made to happen, for as long as asked; ./dev conformance engine runs it under
// sanitizers. Every request must end, with the tokens and log-probabilities, bit for bit, that it has when it runs alone; and the memory
// of the process must not grow.
//
//   engine_soak [--minutes M] [--seed N]
//
// Exit status 1, and a sentence with the seed of the round, for whatever does not hold.
#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/faults.h"
#include "base/thread_pool.h"
#include "engine/engine.h"
#include "engine/text_model.h"
#include "support/tiny_llama.h"

extern "C" __attribute__((weak)) std::size_t __sanitizer_get_current_allocated_bytes();  // of every sanitizer's allocator

namespace quern::engine {
namespace {

using Clock = std::chrono::steady_clock;
using Tokens = std::vector<std::int32_t>;

/// Numbers of one round.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool once_in(std::int64_t n) { return between(1, n) == 1; }
  template <class T>
  T one_of(std::initializer_list<T> list) {
    return list.begin()[between(0, static_cast<std::int64_t>(list.size()) - 1)];
  }

 private:
  std::mt19937_64 engine_;
};

struct Answer {
  Tokens ids;
  std::vector<float> logprobs, top;
  std::string text;
  Event last;
};

struct Sent {
  Request request;
  std::unique_ptr<Stream> stream;
  bool cancelled = false;
};

[[noreturn]] void fail(std::uint64_t seed, const std::string& what) {
  fmt::print(stderr, "engine_soak: round of seed {}: {}\n", seed, what);
  std::_Exit(1);
}

/// Waits for the end of a request, but not for ever.
Answer wait_for(Stream& stream, std::uint64_t seed) {
  constexpr std::chrono::minutes kLost{5};
  Answer answer;
  for (const auto begin = Clock::now(); answer.last.finish == FinishReason::none;) {
    auto event = stream.poll();
    if (!event) {
      if (Clock::now() - begin > kLost) fail(seed, "a request has not ended after five minutes");
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      continue;
    }
    answer.ids.insert(answer.ids.end(), event->ids.begin(), event->ids.end());
    for (const TokenLogprob& l : event->logprobs) answer.logprobs.push_back(l.logprob);
    for (const auto& row : event->top)
      for (const TokenLogprob& l : row) answer.top.push_back(l.logprob);
    answer.text += event->text;
    answer.last = std::move(*event);
  }
  if (stream.poll()) fail(seed, "something follows the last event of a request");
  return answer;
}

Request random_request(Random& random, std::int64_t context) {
  Request r;
  const std::int64_t length = random.between(1, context * 2 / 3), beginning = random.between(0, 3), kind = random.between(0, 3);
  std::mt19937 common(static_cast<unsigned>(beginning)), own(static_cast<unsigned>(random.between(0, 1 << 20)));
  const std::int64_t alike = random.once_in(3) ? 0 : random.between(0, length);
  for (std::int64_t i = 0; i < length; ++i)
    r.prompt.push_back(
        static_cast<std::int32_t>((i < alike ? common() : own()) % (kind == 0 ? 8 : 256)));  // few letters: guesses are right
  r.sampling.temperature = random.one_of({0.0, 0.0, 0.7, 1.5});
  r.sampling.seed = static_cast<std::uint64_t>(random.between(0, 1000));
  if (random.once_in(3)) r.sampling.top_k = static_cast<std::int32_t>(random.between(1, 50));
  if (random.once_in(3)) r.sampling.top_p = 0.8;
  if (random.once_in(4)) r.sampling.repeat_penalty = 1.1;
  r.max_tokens = random.between(0, 60);
  if (random.once_in(4)) r.min_tokens = random.between(0, 10);
  if (random.once_in(3)) r.stop = {std::string(1, static_cast<char>(random.between('a', 'z'))), "no such thing"};
  r.ignore_end = random.once_in(2);
  r.cache_partition = static_cast<std::uint64_t>(random.between(0, 1));
  if (random.once_in(4)) r.keep_seconds = 0.01 * static_cast<double>(random.between(1, 200));
  r.logprobs = static_cast<std::int32_t>(random.between(-1, 3));
  return r;
}

EngineOptions random_options(Random& random, const std::string& folder) {
  EngineOptions options;
  options.context_length = random.between(40, 300);
  options.max_sequences = random.between(1, 12);
  options.cache_tokens = options.context_length * random.between(1, 5);
  options.step_tokens = random.one_of<std::int64_t>({1, 7, 32, 64, 512});
  options.max_itl_ms = random.one_of({0.0, 0.5, 20.0});
  options.prefix_cache = !random.once_in(5);
  options.prompt_lookup = !random.once_in(3);
  options.max_workers = static_cast<unsigned>(random.between(1, 4));
  if (!random.once_in(3))
    options.disk_cache = {.folder = folder, .max_bytes = random.one_of<std::int64_t>({1 << 16, 1 << 20, 1 << 26}), .note = {}};
  return options;
}

std::string random_faults(Random& random) {
  std::string schedule;
  for (const std::string_view point : {"block", "step", "disk_read", "disk_write", "draft"})
    if (random.once_in(2)) schedule += fmt::format("{}{}={}", schedule.empty() ? "" : ",", point, random.between(3, 60));
  return schedule;
}

void check(const Sent& sent, const Answer& got, const Answer& alone, bool may_fail, std::uint64_t seed) {
  const auto is_beginning = [](const auto& part, const auto& whole) {
    return part.empty() || (part.size() <= whole.size() && std::memcmp(part.data(), whole.data(), part.size() * sizeof(part[0])) == 0);
  };
  if (got.last.finish == FinishReason::error && !(may_fail && got.last.error.find("QUERN_FAULTS") != std::string::npos))
    fail(seed, "a request failed: " + got.last.error);
  const bool whole = got.last.finish != FinishReason::error && got.last.finish != FinishReason::cancelled;
  if (!whole && got.last.finish == FinishReason::cancelled && !sent.cancelled) fail(seed, "a request was cancelled by nobody");
  if (!is_beginning(got.ids, alone.ids) || !is_beginning(got.logprobs, alone.logprobs) || !is_beginning(got.top, alone.top))
    fail(seed, fmt::format("an answer of {} tokens and {} log-probabilities ({}) is not that of the request alone, of {} and {} ({})",
                           got.ids.size(), got.logprobs.size(), static_cast<int>(got.last.finish), alone.ids.size(), alone.logprobs.size(),
                           static_cast<int>(alone.last.finish)));
  if (!whole) return;
  if (got.ids.size() != alone.ids.size() || got.logprobs.size() != alone.logprobs.size() || got.top.size() != alone.top.size() ||
      got.text != alone.text || got.last.finish != alone.last.finish || got.last.stop_text != alone.last.stop_text)
    fail(seed,
         fmt::format("an answer of {} tokens ends otherwise than that of the request alone, of {}", got.ids.size(), alone.ids.size()));
  if (got.last.generated_tokens != static_cast<std::int64_t>(got.ids.size())) fail(seed, "tokens were counted wrongly");
}

struct Totals {
  std::int64_t requests = 0, cancelled = 0, failed = 0, tokens = 0, preemptions = 0, read = 0, guesses = 0, cached = 0;
};

class Soak {
 public:
  Soak() {
    const std::string path = temporary("gguf");
    const auto load = [&](const quern::testing::TinyLlama& tiny) {
      quern::testing::write_tiny_llama(path, tiny);
      auto model = runtime::LanguageModel::load(path, {});
      std::filesystem::remove(path);
      return model;
    };
    models_ = {load({.weights = ir::DType::q4_1, .tied = false}),
               load({.architecture = "gemma3", .layers = 6, .head_norms = true, .outer_norms = true, .more = [](gguf::Writer& w) {
                       w.set("gemma3.attention.sliding_window", std::uint32_t{30});
                     }})};
    words_ = TextModel::from_gguf(models_[0]->file());
  }
  ~Soak() { std::filesystem::remove_all(folder_); }

  void round(std::uint64_t seed) {
    Random random(seed);
    EngineOptions options = random_options(random, folder_);
    const std::string faults = random.once_in(3) ? "" : random_faults(random);
    ThreadPool pool(static_cast<unsigned>(random.between(1, 4)));
    const auto& model = models_[random.once_in(2) ? 1 : 0];  // where layers see all, and where some see a window
    if (random.once_in(2)) options.draft = {.model = models_[random.once_in(2) ? 1 : 0], .tokens = random.between(0, 8), .note = {}};
    auto engine = std::make_unique<Engine>(model, words_.tokenizer, pool, options);
    faults::set(faults);
    std::vector<Sent> sent(static_cast<std::size_t>(random.between(1, 40)));
    for (std::size_t i = 0; i < sent.size(); ++i) {
      sent[i].request = i > 0 && random.once_in(4) ? sent[i - 1].request : random_request(random, engine->context_length());
      if (i > 0 && random.once_in(2)) sent[i].request.sampling.seed = static_cast<std::uint64_t>(random.between(0, 1000));  // n > 1
      sent[i].request.prompt.resize(
          std::min<std::size_t>(sent[i].request.prompt.size(), static_cast<std::size_t>(engine->context_length()) - 1));
      sent[i].stream = engine->submit(sent[i].request);
      if (random.once_in(3)) std::this_thread::sleep_for(std::chrono::microseconds(random.between(0, 5000)));
      if (random.once_in(8)) {
        Sent& victim = sent[static_cast<std::size_t>(random.between(0, static_cast<std::int64_t>(i)))];
        if (victim.stream) victim.stream->cancel();
        victim.cancelled = true;
      }
      if (random.once_in(40)) sent[i].stream.reset();  // a client that leaves
    }
    if (random.once_in(10)) {  // an end while all runs
      engine.reset();
      for (Sent& s : sent) s.cancelled = true;
    }
    std::vector<Answer> answers;
    for (const Sent& s : sent) answers.push_back(s.stream ? wait_for(*s.stream, seed) : Answer{});
    faults::set("");
    if (engine) rest(*engine, seed);
    engine.reset();

    ThreadPool one(1);
    Engine alone(model, words_.tokenizer, one,
                 {.context_length = options.context_length,
                  .max_sequences = 1,
                  .cache_tokens = options.cache_tokens,
                  .prefix_cache = false,
                  .prompt_lookup = false});
    for (std::size_t i = 0; i < sent.size(); ++i) {
      ++totals.requests;
      if (!sent[i].stream) continue;
      totals.tokens += static_cast<std::int64_t>(answers[i].ids.size());
      totals.cached += answers[i].last.cached_tokens;
      totals.failed += answers[i].last.finish == FinishReason::error;
      totals.cancelled += answers[i].last.finish == FinishReason::cancelled;
      check(sent[i], answers[i], wait_for(*alone.submit(sent[i].request), seed), faults.find("step") != std::string::npos, seed);
    }
  }

  Totals totals;

 private:
  static std::string temporary(std::string_view name) {
    return fmt::format("{}/engine_soak.{}.{}", std::filesystem::temp_directory_path().string(), ::getpid(), name);
  }

  /// All is given back.
  void rest(const Engine& engine, std::uint64_t seed) {
    Engine::Statistics s = engine.statistics();
    const auto rests = [&] { return s.running == 0 && s.waiting == 0 && s.cache_blocks_used == 0 && s.window_blocks_used == 0; };
    for (int i = 0; i < 10000 && !rests(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      s = engine.statistics();
    }
    if (!rests())
      fail(seed, fmt::format("{} requests run, {} wait and {} + {} blocks are in use when all have ended", s.running, s.waiting,
                             s.cache_blocks_used, s.window_blocks_used));
    totals.preemptions += s.preemptions;
    totals.read += s.disk_blocks_read;
    totals.guesses += s.accepted_guesses;
  }

  const std::string folder_ = temporary("disk");
  std::array<std::shared_ptr<const runtime::LanguageModel>, 2> models_;
  TextModel words_;
};

/// Memory in use: what the system counts; under a sanitizer, whose own notes of threads and freed memory grow, what is allocated.
std::int64_t memory_kib() {
  if (__sanitizer_get_current_allocated_bytes != nullptr)
    return static_cast<std::int64_t>(__sanitizer_get_current_allocated_bytes() / 1024);
  ::malloc_trim(0);
  std::int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * (::sysconf(_SC_PAGESIZE) / 1024);
}

std::int64_t median(std::vector<std::int64_t> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

int run(double minutes, std::uint64_t seed) {
  Soak soak;
  std::vector<std::int64_t> memory;  // after each round
  memory.reserve(1 << 17);           // its own growth is not to be seen in it
  const auto begin = Clock::now(), end = begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(60 * minutes));
  for (auto said = begin; Clock::now() < end || memory.size() < 4; ++seed) {
    soak.round(seed);
    memory.push_back(memory_kib());
    if (Clock::now() - said < std::chrono::minutes(1)) continue;
    said = Clock::now();
    fmt::print("engine_soak: {} rounds, {} requests, {} KiB\n", memory.size(), soak.totals.requests, memory.back());
    std::fflush(stdout);
  }
  const Totals& t = soak.totals;
  // The first half warms up: caches of the allocator, shapes of the program.
  const auto half = memory.begin() + static_cast<std::ptrdiff_t>(memory.size() / 2);
  const auto late = half + static_cast<std::ptrdiff_t>(memory.size() / 4);
  const std::int64_t before = median({half, late}), after = median({late, memory.end()});
  const double growth = 100.0 * static_cast<double>(after - before) / static_cast<double>(before);
  fmt::print(
      "engine_soak: {} rounds; {} requests, of which {} cancelled and {} failed by fault; {} tokens, {} prompt tokens cached; {} "
      "preemptions, "
      "{} blocks read from disk, {} guesses right; {} KiB, {:+.2f} % since the third quarter began\n",
      memory.size(), t.requests, t.cancelled, t.failed, t.tokens, t.cached, t.preemptions, t.read, t.guesses, after, growth);
  constexpr double kMost = 1;
  constexpr std::size_t kEnough = 100;  // rounds, for the figure to mean anything
  if (memory.size() >= kEnough && growth > kMost) {
    fmt::print(stderr, "engine_soak: the memory grows: from {} to {} KiB\n", before, after);
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace quern::engine

int main(int count, char** arguments) {
  double minutes = 1;
  std::uint64_t seed = 1;
  for (int i = 1; i < count; i += 2) {
    const std::string_view name = arguments[i];
    if (i + 1 == count || (name != "--minutes" && name != "--seed")) {
      fmt::print(stderr, "engine_soak [--minutes M] [--seed N]\n");
      return 2;
    }
    if (name == "--minutes") minutes = std::strtod(arguments[i + 1], nullptr);
    if (name == "--seed") seed = std::strtoull(arguments[i + 1], nullptr, 10);
  }
  try {
    return quern::engine::run(minutes, seed);
  } catch (const std::exception& error) {
    fmt::print(stderr, "engine_soak: {}\n", error.what());
    return 1;
  }
}
