// MB/s of text to ids and back, by one thread and by several, whole and in documents of 4 kB; and the time to load a vocabulary. What to
// work on is said by the environment: QUERN_BENCH_MODEL, a GGUF file with a vocabulary, and QUERN_BENCH_TEXT, a text.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text_model.h"
#include "formats/gguf/file.h"

namespace quern {
namespace {

using tokenizers::Id;
using tokenizers::Tokenizer;

std::vector<std::string_view> documents_of(std::string_view text) {
  std::vector<std::string_view> documents;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t line_end = text.find('\n', std::min(at + 4096, text.size()));
    const std::size_t end = line_end == text.npos ? text.size() : line_end + 1;
    documents.push_back(text.substr(at, end - at));
    at = end;
  }
  return documents;
}

void encode(benchmark::State& state, const Tokenizer& tokenizer, std::string_view text, unsigned threads) {
  std::vector<Id> ids;
  for (auto _ : state) {
    ids.clear();
    tokenizer.encode(text, {.threads = threads}, ids);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(text.size()) * state.iterations());
}

void encode_documents(benchmark::State& state, const Tokenizer& tokenizer, std::string_view text) {
  const std::vector<std::string_view> documents = documents_of(text);
  std::vector<Id> ids;
  for (auto _ : state) {
    for (const std::string_view document : documents) {
      ids.clear();
      tokenizer.encode(document, {}, ids);
    }
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(text.size()) * state.iterations());
}

void decode(benchmark::State& state, const Tokenizer& tokenizer, std::string_view text) {
  const std::vector<Id> ids = tokenizer.encode(text);
  for (auto _ : state) benchmark::DoNotOptimize(tokenizer.decode(ids));
  state.SetBytesProcessed(static_cast<std::int64_t>(text.size()) * state.iterations());
}

const int registered = [] {
  const char *model = std::getenv("QUERN_BENCH_MODEL"), *text_path = std::getenv("QUERN_BENCH_TEXT");
  if (!model || !text_path) {
    std::fputs("set QUERN_BENCH_MODEL to a GGUF file and QUERN_BENCH_TEXT to a text\n", stderr);
    return 0;
  }
  std::ifstream in(text_path, std::ios::binary);
  static const std::string text{std::istreambuf_iterator<char>(in), {}};
  static const gguf::File file = gguf::File::open(model);
  static const std::shared_ptr<const Tokenizer> tokenizer = engine::TextModel::from_gguf(file).tokenizer;
  const auto add = [](const char* name, auto run) { return benchmark::RegisterBenchmark(name, run)->Unit(benchmark::kMillisecond); };
  add("load", [](benchmark::State& state) {
    for (auto _ : state) benchmark::DoNotOptimize(engine::TextModel::from_gguf(file));
  });
  add("encode", [](benchmark::State& state) { encode(state, *tokenizer, text, 1); });
  add("encode/documents", [](benchmark::State& state) { encode_documents(state, *tokenizer, text); });
  add("encode/2_threads", [](benchmark::State& state) { encode(state, *tokenizer, text, 2); })->UseRealTime();
  add("encode/8_threads", [](benchmark::State& state) { encode(state, *tokenizer, text, 8); })->UseRealTime();
  add("decode", [](benchmark::State& state) { decode(state, *tokenizer, text); });
  return 0;
}();

}  // namespace
}  // namespace quern
