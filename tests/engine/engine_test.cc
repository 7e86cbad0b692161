#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "engine/text_model.h"
#include "tiny_engine.h"

namespace quern::engine {
namespace {

using quern::testing::TinyLlama;
using ::testing::HasSubstr;

using testing::Answer;
using testing::expect_same;
using testing::load;
using testing::same_bits;
using testing::temporary_file;
using testing::wait_for;
using EngineTest = testing::TinyEngine;

TEST_F(EngineTest, an_answer_depends_on_nothing_but_its_request) {
  for (const runtime::Precision precision : {runtime::Precision::fast, runtime::Precision::exact}) {
    const auto model = load({.weights = ir::DType::q4_1, .tied = false}, precision);
    Engine alone(model, words_.tokenizer, one_, {.step_tokens = 512});
    const Answer expected = wait_for(*alone.submit(request(150, 7, 24)));
    ASSERT_EQ(expected.ids.size(), 24u);
    ASSERT_EQ(expected.logprobs.size(), 24u);
    ASSERT_EQ(expected.top.size(), 72u);
    for (const std::int64_t chunk : {1, 7, 64, 512})
      for (const unsigned workers : {1u, 2u}) {
        Engine engine(model, words_.tokenizer, workers == 1 ? one_ : pool_, {.step_tokens = chunk});
        expect_same(wait_for(*engine.submit(request(150, 7, 24))), expected);
      }
    Engine limited(model, words_.tokenizer, pool_, {.max_workers = 1});
    expect_same(wait_for(*limited.submit(request(150, 7, 24))), expected);
    for (const std::int64_t chunk : {7, 64, 512})
      for (ThreadPool* pool : {&one_, &pool_}) {
        Engine engine(model, words_.tokenizer, *pool, {.cache_tokens = 4096, .step_tokens = chunk});
        std::vector<std::unique_ptr<Stream>> others;
        for (unsigned i = 0; i < 4; ++i) others.push_back(engine.submit(request(20 + 13 * i, 100 + i, 30 + i)));
        const auto stream = engine.submit(request(150, 7, 24));
        for (unsigned i = 4; i < 7; ++i) others.push_back(engine.submit(request(20 + 13 * i, 100 + i, 10 + i)));
        expect_same(wait_for(*stream), expected);
        for (unsigned i = 0; i < 7; ++i)
          expect_same(wait_for(*others[i]), wait_for(*alone.submit(request(20 + 13 * i, 100 + i, i < 4 ? 30 + i : 10 + i))));
      }
  }
}

TEST_F(EngineTest, events_can_be_read_without_waiting_once_they_are_announced) {
  const auto engine = make();
  const Answer expected = wait_for(*engine->submit(request(20, 5, 12)));
  std::atomic<int> announced = 0;
  const auto stream = engine->submit(request(20, 5, 12));
  stream->notify([&] { ++announced; });
  Answer a;
  for (int read = 0; a.last.finish == FinishReason::none;) {
    while (announced == read) std::this_thread::yield();
    ++read;
    while (auto event = stream->poll()) {
      a.ids.insert(a.ids.end(), event->ids.begin(), event->ids.end());
      a.last = std::move(*event);
    }
  }
  EXPECT_EQ(a.ids, expected.ids);
  EXPECT_FALSE(stream->poll()) << "nothing follows the last event";
}

TEST_F(EngineTest, what_others_left_in_the_cache_changes_no_bit) {
  const auto fresh = make({.prefix_cache = false}), kept = make();
  for (const std::size_t length : {37u, 64u, 65u, 90u}) {
    Request first = request(100, 3, 20), second = request(length, 4, 20);
    std::copy_n(first.prompt.begin(), length - 3, second.prompt.begin());  // ends inside a block, mostly
    wait_for(*kept->submit(first));
    const Answer answer = wait_for(*kept->submit(second));
    expect_same(answer, wait_for(*fresh->submit(second)));
    EXPECT_EQ(answer.last.cached_tokens, static_cast<std::int64_t>(length) - 3);
  }
  EXPECT_EQ(fresh->statistics().cached_prompt_tokens, 0);
}

TEST_F(EngineTest, guessing_changes_no_bit_of_an_answer) {
  const auto plain = make({.prompt_lookup = false}), guessing = make();
  for (const double temperature : {0.0, 0.3, 1.5})
    for (unsigned seed = 0; seed < 6; ++seed) {
      Request r = request(60, seed, 80);
      std::copy_n(r.prompt.begin(), 30, r.prompt.begin() + 30);
      r.sampling.temperature = temperature;
      r.sampling.repeat_penalty = seed % 2 == 0 ? 1.0 : 1.1;
      expect_same(wait_for(*guessing->submit(r)), wait_for(*plain->submit(r)));
    }
  const Engine::Statistics done = wait_until_idle(*guessing);
  EXPECT_GE(done.guessed_tokens, done.accepted_guesses);
  EXPECT_EQ(done.generated_tokens, 3 * 6 * 80);
  EXPECT_EQ(plain->statistics().guessed_tokens, 0);
}

TEST_F(EngineTest, preemption_changes_no_answer) {
  const auto roomy = make();
  const auto tight = make({.cache_tokens = 160});  // ten blocks for four requests of up to 100 tokens
  std::vector<std::unique_ptr<Stream>> streams;
  const std::int64_t others = hold(*tight, [&] {
    for (unsigned i = 0; i < 4; ++i) streams.push_back(tight->submit(request(20, i, 80)));
  });
  for (unsigned i = 0; i < 4; ++i) expect_same(wait_for(*streams[i]), wait_for(*roomy->submit(request(20, i, 80))));
  const Engine::Statistics done = wait_until_idle(*tight);
  EXPECT_GT(done.preemptions, 0);
  EXPECT_EQ(done.cache_blocks_used, 0);
  EXPECT_EQ(done.generated_tokens, 4 * 80 + others);
  EXPECT_GT(done.prompt_tokens, 4 * 20) << "some were read again";
}

TEST_F(EngineTest, a_cache_on_disk_outlives_the_engine_and_changes_no_bit) {
  const std::string folder = temporary_file("disk");
  const auto fresh = make({.prefix_cache = false});
  std::vector<Request> requests;
  for (unsigned i = 0; i < 6; ++i) requests.push_back(request(60 + 25 * i, i / 2, 20 + i));  // two of a kind, the second longer
  for (int start = 0; start < 2; ++start) {
    const auto engine = make({.max_sequences = 3, .step_tokens = start == 0 ? 64 : 512, .disk_cache = {.folder = folder}});
    std::vector<std::unique_ptr<Stream>> streams;
    for (const Request& r : requests) streams.push_back(engine->submit(r));
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const Answer answer = wait_for(*streams[i]);
      expect_same(answer, wait_for(*fresh->submit(requests[i])));
    }
    const Engine::Statistics done = wait_until_idle(*engine);
    EXPECT_EQ(done.disk_errors, 0);
    EXPECT_EQ(done.disk_blocks_read > 0, start == 1);
    if (start == 1) {
      EXPECT_GE(done.cached_prompt_tokens, 400) << "of 735; what is computed faster than read is computed";
    }
  }
  // Other types of keys and values have other blocks.
  const std::string path = temporary_file("kv.gguf");
  quern::testing::write_tiny_llama(path, {.weights = ir::DType::q4_1, .tied = false});
  const auto other = runtime::LanguageModel::load(path, {.kv_dtype = ir::DType::f32});
  std::filesystem::remove(path);
  EXPECT_NE(other->kv_fingerprint(), model_->kv_fingerprint());
  {
    Engine engine(other, words_.tokenizer, pool_, {.disk_cache = {.folder = folder}});
    EXPECT_EQ(wait_for(*engine.submit(requests[0])).last.cached_tokens, 0);
  }  // it writes until it ends
  std::filesystem::remove_all(folder);
}

TEST_F(EngineTest, at_ten_times_too_many_tokens_every_request_gets_its_answer) {
  const std::string folder = temporary_file("disk");
  const auto roomy = make();
  for (const bool on_disk : {false, true}) {
    // Room for 160 tokens; sixteen requests at once will have 100 each.
    const auto tight =
        make({.context_length = 160, .max_sequences = 16, .cache_tokens = 160, .disk_cache = {.folder = on_disk ? folder : ""}});
    std::vector<std::unique_ptr<Stream>> streams;
    const std::int64_t others = hold(*tight, [&] {
      for (unsigned i = 0; i < 32; ++i) streams.push_back(tight->submit(request(20, i, 80)));
    });
    for (unsigned i = 0; i < 32; ++i) expect_same(wait_for(*streams[i]), wait_for(*roomy->submit(request(20, i, 80))));
    const Engine::Statistics done = wait_until_idle(*tight);
    EXPECT_GT(done.preemptions, 10);
    EXPECT_EQ(done.cache_blocks_used, 0);
    EXPECT_EQ(done.generated_tokens, 32 * 80 + others);
  }
  std::filesystem::remove_all(folder);
}

TEST_F(EngineTest, a_folder_that_cannot_be_used_is_said_when_the_engine_is_made) {
  EXPECT_THROW(make({.disk_cache = {.folder = "/proc/nowhere"}}), Error);
}

TEST_F(EngineTest, a_seed_repeats_an_answer_and_none_gives_another) {
  const auto engine = make();
  Request r = request(10, 1, 30);
  const Answer first = wait_for(*engine->submit(r));
  expect_same(wait_for(*engine->submit(r)), first);
  r.sampling.seed = 2;
  EXPECT_NE(wait_for(*engine->submit(r)).ids, first.ids);
  r.sampling.seed.reset();
  const Answer free = wait_for(*engine->submit(r));
  EXPECT_NE(wait_for(*engine->submit(r)).ids, free.ids);
}

TEST_F(EngineTest, logprobs_are_those_of_the_distribution) {
  const auto engine = make();
  Request r = request(10, 1, 1);
  r.sampling.temperature = 0;
  r.logprobs = 288;
  const Answer a = wait_for(*engine->submit(r));
  ASSERT_EQ(a.top.size(), 288u);
  double sum = 0;
  for (const float l : a.top) sum += std::exp(double(l));
  EXPECT_NEAR(sum, 1, 1e-5);
  EXPECT_EQ(a.top_ids[0], a.ids[0]);
  EXPECT_EQ(a.top[0], a.logprobs[0]);
  EXPECT_TRUE(std::is_sorted(a.top.rbegin(), a.top.rend()));
}

TEST_F(EngineTest, the_text_is_that_of_the_tokens_in_whole_characters) {
  const auto engine = make();
  for (unsigned seed = 0; seed < 8; ++seed) {
    const auto stream = engine->submit(request(10, seed, 60));
    std::vector<std::int32_t> ids;
    std::string text;
    while (auto event = stream->next()) {
      ids.insert(ids.end(), event->ids.begin(), event->ids.end());
      text += event->text;
      EXPECT_EQ(words_.tokenizer->decode(words_.tokenizer->encode(event->text)), event->text) << "half a character";
    }
    EXPECT_EQ(text, words_.tokenizer->decode(ids, {.skip_special = true}));
  }
}

TEST_F(EngineTest, stop_texts_and_stop_tokens_end_the_answer) {
  const auto engine = make();
  const Request r = request(10, 3, 60);
  const Answer whole = wait_for(*engine->submit(r));
  // A stop text out of the middle of the answer, of several tokens, in plain ASCII.
  std::size_t at = 5;
  const auto plain = [&](std::size_t i) { return whole.text[i] > 0; };
  while (at + 2 < whole.text.size() && !(plain(at) && plain(at + 1))) ++at;
  ASSERT_LT(at + 2, whole.text.size());
  Request stopped = r;
  stopped.stop = {"never in it at all", whole.text.substr(at, 2)};
  const Answer cut = wait_for(*engine->submit(stopped));
  EXPECT_EQ(cut.text, whole.text.substr(0, whole.text.find(stopped.stop[1])));
  EXPECT_EQ(cut.last.finish, FinishReason::stop);
  EXPECT_EQ(cut.last.stop_text, stopped.stop[1]);
  EXPECT_EQ(cut.last.generated_tokens, static_cast<std::int64_t>(cut.ids.size()));
  EXPECT_EQ(cut.logprobs.size(), cut.ids.size());

  Request by_token = r;
  by_token.stop_ids = {whole.ids[20]};
  const Answer token = wait_for(*engine->submit(by_token));
  EXPECT_EQ(token.last.finish, FinishReason::stop);
  EXPECT_EQ(token.ids.back(), whole.ids[20]);
  EXPECT_EQ(token.text, words_.tokenizer->decode(std::span(token.ids).first(token.ids.size() - 1), {.skip_special = true}));

  Request by_control_text = r;
  by_control_text.sampling.bias = {{270, 1000.0f}};
  by_control_text.stop = {"<|270|>"};
  const Answer control = wait_for(*engine->submit(by_control_text));
  EXPECT_EQ(control.last.finish, FinishReason::stop);
  EXPECT_EQ(control.last.stop_text, "<|270|>");
  EXPECT_EQ(control.text, "");
}

TEST_F(EngineTest, the_models_end_token_ends_the_answer_unless_it_is_to_be_ignored) {
  const auto engine = make();
  Request r = request(10, 3, 5);
  r.sampling.bias = {{287, 1000.0f}};
  EXPECT_EQ(wait_for(*engine->submit(r)).last.finish, FinishReason::length);
  r.ignore_end = false;
  const Answer a = wait_for(*engine->submit(r));
  EXPECT_EQ(a.last.finish, FinishReason::stop);
  EXPECT_EQ(a.ids, std::vector<std::int32_t>{287});
  EXPECT_EQ(a.text, "");
}

TEST_F(EngineTest, an_answer_ends_with_the_context) {
  const auto engine = make({.context_length = 40});
  EXPECT_EQ(engine->context_length(), 40);
  const Answer a = wait_for(*engine->submit(request(30, 1, -1)));
  EXPECT_EQ(a.ids.size(), 10u);
  EXPECT_EQ(a.last.finish, FinishReason::length);
  EXPECT_EQ(a.last.prompt_tokens, 30);
  EXPECT_EQ(a.last.generated_tokens, 10);
  EXPECT_GT(a.last.prompt_seconds, 0);
  EXPECT_GT(a.last.generate_seconds, 0);
  EXPECT_EQ(make({.cache_tokens = 100})->context_length(), 112) << "seven blocks of 16";
}

TEST_F(EngineTest, cancels_while_it_waits_reads_or_answers) {
  const auto engine = make({.context_length = 100000, .max_sequences = 2, .cache_tokens = 300000, .step_tokens = 16});
  const auto answering = engine->submit(request(10, 1, 90000));
  ASSERT_TRUE(answering->next());
  const auto reading = engine->submit(request(60000, 2, 10));
  const auto waiting = engine->submit(request(10, 3, 10));
  for (int i = 0; i < 5; ++i) answering->next();
  waiting->cancel();
  EXPECT_EQ(wait_for(*waiting).last.finish, FinishReason::cancelled);
  reading->cancel();
  const Answer read = wait_for(*reading);
  EXPECT_EQ(read.last.finish, FinishReason::cancelled);
  EXPECT_TRUE(read.ids.empty());
  answering->cancel();
  const Answer answered = wait_for(*answering);
  EXPECT_EQ(answered.last.finish, FinishReason::cancelled);
  EXPECT_FALSE(answering->next()) << "nothing after the end";
  {
    const auto dropped = engine->submit(request(10, 4, 90000));
  }
  EXPECT_EQ(wait_until_idle(*engine).cache_blocks_used, 0);
}

TEST_F(EngineTest, ends_what_runs_when_it_is_destroyed) {
  auto engine = make({.context_length = 10000, .max_sequences = 1});
  const auto running = engine->submit(request(10, 1, 9000)), waiting = engine->submit(request(10, 2, 9000));
  ASSERT_TRUE(running->next());
  engine.reset();
  EXPECT_EQ(wait_for(*running).last.finish, FinishReason::cancelled);
  EXPECT_EQ(wait_for(*waiting).last.finish, FinishReason::cancelled);
}

TEST_F(EngineTest, many_requests_from_many_threads_all_end_and_leave_nothing_behind) {
  const auto engine = make({.max_sequences = 8, .cache_tokens = 600, .step_tokens = 48});
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      std::vector<std::pair<std::int64_t, std::unique_ptr<Stream>>> streams;
      for (unsigned i = 0; i < 16; ++i) {
        const std::int64_t length = 1 + random() % 40;
        streams.emplace_back(length, engine->submit(request(1 + random() % 90, 16 * t + i, length)));
        if (random() % 3 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
      for (auto& [length, stream] : streams) wrong += static_cast<std::int64_t>(wait_for(*stream).ids.size()) != length;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  const Engine::Statistics done = wait_until_idle(*engine);
  EXPECT_EQ(done.cache_blocks_used, 0);
  EXPECT_EQ(done.cache_blocks, 38);
}

TEST_F(EngineTest, sleeps_when_there_is_nothing_to_do) {
  const auto engine = make();
  wait_for(*engine->submit(request(10, 1, 5)));
  wait_until_idle(*engine);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const auto cpu_seconds = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& t) { return double(t.tv_sec) + double(t.tv_usec) * 1e-6; };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
  };
  const double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(cpu_seconds() - before, 0.05);
}

TEST_F(EngineTest, refuses_what_cannot_be_answered) {
  const auto engine = make({.context_length = 64});
  const auto error = [&](Request r) -> std::string {
    try {
      engine->submit(std::move(r));
      return "accepted";
    } catch (const Error& e) {
      return std::string(name(e.code())) + ": " + e.what();
    }
  };
  const auto with = [](auto change) {
    Request r = request(5, 1, 5);
    change(r);
    return r;
  };
  EXPECT_EQ(error(with([](Request& r) { r.prompt.clear(); })), "invalid_argument: the prompt is empty");
  EXPECT_THAT(error(with([](Request& r) { r.prompt[2] = 288; })), HasSubstr("the prompt has the token 288; the model knows 0 to 287"));
  EXPECT_THAT(error(with([](Request& r) { r.prompt[2] = -1; })), HasSubstr("the prompt has the token -1"));
  EXPECT_THAT(error(request(64, 1, 5)), HasSubstr("the prompt has 64 tokens, which leaves no room for an answer in the context of 64"));
  EXPECT_THAT(error(with([](Request& r) { r.sampling.top_p = 2; })), HasSubstr("top_p is 2"));
  EXPECT_THAT(error(with([](Request& r) { r.max_tokens = -5; })), HasSubstr("max_tokens is -5"));
  EXPECT_THAT(error(with([](Request& r) { r.stop = {""}; })), HasSubstr("a stop text is empty"));
  EXPECT_THAT(error(with([](Request& r) { r.stop = {"\x80"}; })), HasSubstr("not UTF-8"));
  EXPECT_THAT(error(with([](Request& r) { r.stop = {std::string(100000, 'x')}; })), HasSubstr("at most"));
  EXPECT_THAT(error(with([](Request& r) { r.stop_ids = {288}; })), HasSubstr("the stop token 288"));
  EXPECT_THAT(error(with([](Request& r) { r.logprobs = 289; })), HasSubstr("logprobs is 289"));
  EXPECT_EQ(error(request(63, 1, 5)), "accepted");
  EXPECT_THROW(make({.max_sequences = 0}), Error);
  EXPECT_THROW(make({.context_length = -1}), Error);
  EXPECT_THROW(make({.step_tokens = std::int64_t{1} << 40}), Error);
}

TEST_F(EngineTest, damaged_weights_fail_the_request_that_meets_them_and_no_other) {
  // The row of token 200 in the table of tokens becomes NaN: whoever's prompt has it is lost.
  const std::string path = temporary_file("damaged.gguf");
  quern::testing::write_tiny_llama(path, {.weights = ir::DType::f32, .tied = false});
  {
    const gguf::File file = gguf::File::open(path);
    std::ifstream in(path, std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(in)), {});
    const std::span<const std::byte> table = file.tensor("token_embd.weight").data;
    const std::size_t at = bytes.find(std::string_view(reinterpret_cast<const char*>(table.data()), table.size()));
    ASSERT_NE(at, std::string::npos);
    const float nan = std::nanf("");
    std::memcpy(&bytes[at + 200 * table.size() / 288], &nan, sizeof nan);
    std::ofstream(path + ".new", std::ios::binary) << bytes;
  }
  std::filesystem::rename(path + ".new", path);
  const auto model = runtime::LanguageModel::load(path);
  std::filesystem::remove(path);
  Engine engine(model, words_.tokenizer, pool_, {.max_sequences = 4, .cache_tokens = 64});
  const auto good_request = [](unsigned seed) {
    Request r = request(20, seed, 20);
    std::replace(r.prompt.begin(), r.prompt.end(), 200, 201);
    r.sampling.bias = {{200, -1000.0f}};
    return r;
  };
  const Answer expected = wait_for(*engine.submit(good_request(2)));
  ASSERT_EQ(expected.last.finish, FinishReason::length) << expected.last.error;
  for (int round = 0; round < 4; ++round) {  // the blocks of the lost one are used again
    Request bad = request(20, 1, 20);
    bad.prompt[10] = 200;
    const auto lost = engine.submit(bad), fine = engine.submit(good_request(2));
    const Answer answer = wait_for(*lost);
    EXPECT_EQ(answer.last.finish, FinishReason::error);
    EXPECT_EQ(answer.last.error_code, Code::data_corrupt);
    EXPECT_THAT(answer.last.error, HasSubstr("the model computed NaN"));
    expect_same(wait_for(*fine), expected);
  }
}

}  // namespace
}  // namespace quern::engine
