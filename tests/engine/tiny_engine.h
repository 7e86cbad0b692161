#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "engine/text_model.h"
#include "support/tiny_llama.h"

namespace quern::engine::testing {

struct Answer {
  std::vector<std::int32_t> ids;
  std::vector<float> logprobs;
  std::vector<std::int32_t> top_ids;
  std::vector<float> top;
  std::string text;
  Event last;
};

inline Answer wait_for(Stream& stream) {
  Answer a;
  while (auto event = stream.next()) {
    a.ids.insert(a.ids.end(), event->ids.begin(), event->ids.end());
    for (const TokenLogprob& l : event->logprobs) a.logprobs.push_back(l.logprob);
    for (const auto& row : event->top)
      for (const TokenLogprob& l : row) a.top_ids.push_back(l.id), a.top.push_back(l.logprob);
    a.text += event->text;
    a.last = std::move(*event);
  }
  return a;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

inline void expect_same(const Answer& a, const Answer& b) {
  EXPECT_EQ(a.ids, b.ids);
  EXPECT_EQ(a.text, b.text);
  EXPECT_TRUE(same_bits(a.logprobs, b.logprobs));
  EXPECT_EQ(a.top_ids, b.top_ids);
  EXPECT_TRUE(same_bits(a.top, b.top));
  EXPECT_EQ(a.last.finish, b.last.finish);
}

inline std::string temporary_file(const std::string& name) {
  return ::testing::TempDir() + "engine_test." + std::to_string(getpid()) + "." + name;
}

inline std::shared_ptr<const runtime::LanguageModel> load(const quern::testing::TinyLlama& tiny,
                                                          runtime::Precision precision = runtime::Precision::fast) {
  const std::string path = temporary_file("gguf");
  quern::testing::write_tiny_llama(path, tiny);
  auto model = runtime::LanguageModel::load(path, {.precision = precision});
  std::filesystem::remove(path);
  return model;
}

/// An engine of a tiny model of random weights.
class TinyEngine : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    model_ = load({.weights = ir::DType::q4_1, .tied = false});
    words_ = TextModel::from_gguf(model_->file());
  }
  static void TearDownTestSuite() {
    model_.reset();
    words_ = {};
  }

  std::unique_ptr<Engine> make(const EngineOptions& options = {}) {
    return std::make_unique<Engine>(model_, words_.tokenizer, pool_, options);
  }
  static Request request(std::size_t prompt, unsigned seed, std::int64_t max_tokens) {
    std::mt19937 random(seed);
    Request r{.sampling = {.temperature = 1.5, .seed = seed}, .max_tokens = max_tokens, .ignore_end = true, .logprobs = 3};
    for (std::size_t i = 0; i < prompt; ++i) r.prompt.push_back(static_cast<std::int32_t>(random() % 256));
    return r;
  }
  static Engine::Statistics wait_until_idle(const Engine& engine) {
    for (int i = 0; i < 2000; ++i) {
      const Engine::Statistics s = engine.statistics();
      if (s.running == 0 && s.waiting == 0) return s;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ADD_FAILURE() << "the engine does not come to rest";
    return engine.statistics();
  }

  /// Keeps the engine's thread from going on until `submit` returns, so that what it submits meets in one step however fast steps are.
  /// Returns the tokens that the engine generated for it.
  template <typename Submit>
  static std::int64_t hold(Engine& engine, Submit submit) {
    std::int64_t tokens = 0;
    for (bool held = false; !held;) {  // else the answer was there before anybody listened
      std::promise<void> holds, go_on;
      const auto stream = engine.submit(request(1, 9999, 100));
      stream->notify([&holds, first = true, go = go_on.get_future().share(), here = std::this_thread::get_id()]() mutable {
        if (!first || std::this_thread::get_id() == here) return;
        first = false;
        holds.set_value();
        go.wait();
      });
      held = holds.get_future().wait_for(std::chrono::seconds(1)) == std::future_status::ready;
      if (held) submit();
      go_on.set_value();
      tokens += std::ssize(wait_for(*stream).ids);
      stream->notify({});
    }
    return tokens;
  }

  static inline std::shared_ptr<const runtime::LanguageModel> model_;
  static inline TextModel words_;
  ThreadPool pool_{2}, one_{1};
};

}  // namespace quern::engine::testing
