// Every key of a GGUF file that the tokenizer reads, with every value that it must not have: an Error, or a tokenizer that works.
#include <gtest/gtest.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/text_model.h"
#include "formats/gguf/writer.h"

namespace quern::engine {
namespace {

using Put = std::function<void(gguf::Writer&, const std::string& key)>;

struct Entry {
  std::string key;
  Put put;
};

template <class T>
Put scalar(T value) {
  return [=](gguf::Writer& out, const std::string& key) { out.set(key, value); };
}
template <class T>
Put numbers(std::vector<T> values) {
  return [=](gguf::Writer& out, const std::string& key) { out.set_array(key, std::span<const T>(values)); };
}
Put strings(std::vector<std::string> values) {
  return [=](gguf::Writer& out, const std::string& key) {
    const std::vector<std::string_view> views(values.begin(), values.end());
    out.set_array(key, std::span<const std::string_view>(views));
  };
}

constexpr const char* kModels[] = {"gpt2", "gemma4", "llama", "t5", "bert", "rwkv"};
constexpr std::size_t kTokens = 12;

/// A file that loads.
std::vector<Entry> good(const std::string& model) {
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>", "a", "b", "ab", "c", "abc", "Ġ", "▁", "[SEP]", "##b"};
  if (model == "rwkv") tokens = {"<s>", "</s>", "'a'", "'b'", "'ab'", "'c'", "'abc'", "' '", "b'\\xff'", "'d'", "'e'", "'f'"};
  std::vector<std::int32_t> types(kTokens, 1);
  for (const std::size_t i : {0, 1, 2, 10}) types[i] = model == "rwkv" && i != 0 ? 1 : i == 0 ? 2 : 3;
  std::vector<Entry> entries = {{"model", scalar(model)},
                                {"pre", scalar(std::string("smollm"))},
                                {"tokens", strings(tokens)},
                                {"token_type", numbers(types)},
                                {"scores", numbers(std::vector<float>{0, 0, 0, -1, -2, -3, -4, -5, -6, -7, -8, -9})},
                                {"merges", strings({"a b", "ab c"})},
                                {"add_bos_token", scalar(true)},
                                {"add_eos_token", scalar(true)},
                                {"add_space_prefix", scalar(true)},
                                {"remove_extra_whitespaces", scalar(true)}};
  for (const auto& [role, id] : std::vector<std::pair<const char*, std::uint32_t>>{
           {"bos", 1}, {"eos", 2}, {"eot", 2}, {"eom", 2}, {"unknown", 0}, {"seperator", 10}, {"padding", 0}, {"mask", 0}, {"cls", 1}})
    entries.push_back({std::string(role) + "_token_id", scalar(id)});
  if (model == "t5") entries.push_back({"precompiled_charsmap", numbers(std::vector<std::uint8_t>{})});
  return entries;
}

std::vector<Put> hostile_values() {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  std::vector<Put> values = {scalar(std::string()), scalar(std::string("no-such")), scalar(std::string(1 << 16, '\xff')), scalar(true)};
  for (const std::int64_t n : {std::int64_t{-2}, std::int64_t{-1}, std::int64_t{0}, std::int64_t{kTokens}, std::int64_t{1} << 31,
                               std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()}) {
    values.insert(values.end(), {scalar(n), scalar(static_cast<std::uint64_t>(n)), scalar(static_cast<std::uint32_t>(n)),
                                 scalar(static_cast<std::int32_t>(n)), scalar(static_cast<std::uint8_t>(n))});
  }
  for (const float f : {nan, infinity, -infinity, 0.5f}) values.push_back(scalar(f)), values.push_back(scalar(static_cast<double>(f)));
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, kTokens - 1, kTokens, kTokens + 1, std::size_t{1} << 12}) {
    for (const float f : {0.0f, nan, infinity, -infinity, std::numeric_limits<float>::max(), std::numeric_limits<float>::denorm_min()})
      values.push_back(numbers(std::vector<float>(count, f)));
    values.push_back(numbers(std::vector<double>(count, 1e300)));
    for (const std::int32_t n : {-1, 0, 2, 3, 4, 6, 7, std::numeric_limits<std::int32_t>::max(), std::numeric_limits<std::int32_t>::min()})
      values.push_back(numbers(std::vector<std::int32_t>(count, n)));
    for (const int n : {0, 1, 0x7F, 0xFF}) {
      values.push_back(numbers(std::vector<std::uint8_t>(count, static_cast<std::uint8_t>(n))));
      values.push_back(numbers(std::vector<std::uint64_t>(count, static_cast<std::uint64_t>(n) << 56)));
    }
    for (const char* text : {"",         " ",    "a",      "b",      "a b", "ab c", " a", "a ",     "▁",      "##",
                             "\xE2\x96", "\xff", "<0x41>", "<0xFG>", "<s>", "'",    "'a", "b'\\x'", "'\\x9'", "Ġ"})
      values.push_back(strings(std::vector<std::string>(count, text)));
    std::vector<std::string> distinct(count), chain(count);
    for (std::size_t i = 0; i < count; ++i) distinct[i] = "'" + std::to_string(i) + "'", chain[i] = std::string(i % 97, 'a') + " a";
    values.push_back(strings(distinct)), values.push_back(strings(chain));
  }
  values.push_back(strings({std::string(1 << 20, 'a')}));
  return values;
}

/// Loads and works, or says what is wrong; any other exception is a failure of the test.
void exercise(const std::string& path) {
  try {
    const auto model = TextModel::from_gguf(gguf::File::open(path));
    const tokenizers::Tokenizer& t = *model.tokenizer;
    for (const std::string_view text : {std::string_view("abc  a▁b<s>\xff ##b"), std::string_view("")}) {
      try {
        const auto ids = t.encode(text, {.add_special = true});
        for (const tokenizers::Id id : ids) ASSERT_TRUE(id >= 0 && static_cast<std::size_t>(id) < t.size());
        t.decode(ids);
        t.encode_located(text);
      } catch (const Error& error) {
        ASSERT_EQ(error.code(), Code::data_corrupt) << error.what();  // a character that nothing spells
      }
    }
  } catch (const Error& error) {
    ASSERT_TRUE(error.code() == Code::data_corrupt || error.code() == Code::unsupported || error.code() == Code::resource_exhausted)
        << error.what();
  }
}

class HostileVocabulary : public ::testing::TestWithParam<const char*> {};

TEST_P(HostileVocabulary, whatever_a_key_is_loading_gives_an_error_or_a_tokenizer_that_works_in_little_time) {
  const std::string path = ::testing::TempDir() + "hostile_vocabulary." + std::to_string(getpid()) + "." + GetParam() + ".gguf";
  const std::vector<Entry> entries = good(GetParam());
  const std::vector<Put> values = hostile_values();
  const auto write = [&](std::size_t changed, const Put* value) {
    gguf::Writer out;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const std::string key = "tokenizer.ggml." + entries[i].key;
      if (i != changed)
        entries[i].put(out, key);
      else if (value)
        (*value)(out, key);
    }
    out.write(path);
  };
  write(entries.size(), nullptr);
  ASSERT_NO_THROW(TextModel::from_gguf(gguf::File::open(path)).tokenizer->encode("abc"));
  for (std::size_t changed = 0; changed < entries.size(); ++changed) {
    // What takes time must be in the arrays and texts; an id or a flag is only ever of one.
    const bool is_large = changed >= 2 && changed <= 5;
    for (std::size_t v = 0; v <= values.size(); ++v) {
      if (!is_large && v >= 60 && v < values.size() && v % 7 != 0) continue;
      SCOPED_TRACE(entries[changed].key + ", value " + std::to_string(v));
      write(changed, v < values.size() ? &values[v] : nullptr);  // the last: the key is not there
      const std::clock_t begin = std::clock();
      exercise(path);
      ASSERT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 2);
    }
  }
  std::filesystem::remove(path);
}

INSTANTIATE_TEST_SUITE_P(OfEachModel, HostileVocabulary, ::testing::ValuesIn(kModels));

}  // namespace
}  // namespace quern::engine
