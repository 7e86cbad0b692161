// Model files that lie: loading one and running a step ends in logits or in an error that says what is wrong, never otherwise. Also built
// with sanitizers (tests/fuzz).
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/gguf/file.h"
#include "runtime/language_model.h"
#include "sequences.h"
#include "support/tiny_llama.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define QUERN_TEST_ADDRESS_SANITIZER
#endif
#endif

namespace quern::runtime {
namespace {

using testing::Step;

#ifdef QUERN_TEST_ADDRESS_SANITIZER
constexpr unsigned kCases = 10000;
#else
constexpr unsigned kCases = 2000;
#endif

class HostileModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = ::testing::TempDir() + "hostile_model_test." + std::to_string(getpid()) + ".gguf";
    quern::testing::write_tiny_llama(
        path_, {.layers = 1, .width = 32, .heads = 2, .kv_heads = 1, .head_dim = 16, .ffn_width = 64, .vocabulary = 40});
    std::ifstream file(path_, std::ios::binary);
    good_.assign(std::istreambuf_iterator<char>(file), {});
    data_begins_ = place_of("token_embd.weight");  // the first that is written
  }
  void TearDown() override { std::filesystem::remove(path_); }

  /// Where the bytes of a tensor begin in the file.
  std::size_t place_of(std::string_view name) const {
    const gguf::File file = gguf::File::open(path_);
    const std::span<const std::byte> data = file.find_tensor(name)->data;
    return good_.find(std::string(reinterpret_cast<const char*>(data.data()), data.size()));
  }
  void write(const std::string& bytes) const { std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes; }

  /// Loads the file and runs a prompt of some tokens and one more. "" when there are logits, else the error.
  std::string try_it(Precision precision = Precision::fast) {
    logits_.clear();
    try {
      const auto model = LanguageModel::load(path_, {.precision = precision});
      LanguageRunner runner(model, pool_, 2, 1, 2);
      const std::int32_t prompt[] = {1, 3, 0, 2}, next[] = {1};
      for (int i = 0; i < 2; ++i) {
        Step step(runner);
        step.add(0, i == 0 ? std::span<const std::int32_t>(prompt) : next, i == 0 ? 0 : 4);
        const auto rows = runner.run(step.batch());
        logits_.assign(rows.begin(), rows.end());
      }
    } catch (const Error& e) {
      EXPECT_NE(e.code(), Code::internal) << e.what();
      EXPECT_STRNE(e.what(), "");
      return e.what();
    }
    return "";
  }

  std::string path_, good_;
  std::size_t data_begins_ = 0;
  ThreadPool pool_{2};
  std::vector<float> logits_;
};

TEST_F(HostileModelTest, the_file_itself_is_good) {
  EXPECT_EQ(try_it(), "");
  EXPECT_EQ(try_it(Precision::exact), "");
  EXPECT_GT(data_begins_, 500u);
  EXPECT_LT(data_begins_, good_.size());
}

TEST_F(HostileModelTest, a_file_cut_anywhere_is_an_error) {
  for (std::size_t size = 0; size < good_.size(); size += size < data_begins_ ? 101 : 4096) {
    write(good_.substr(0, size));
    EXPECT_NE(try_it(), "") << "cut at " << size;
  }
}

[[maybe_unused]] std::size_t peak_memory() {  // of this process, in bytes
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stoull(line.substr(6)) * 1024;
  return 0;
}

TEST_F(HostileModelTest, random_bytes_changed_give_logits_or_an_error_and_take_no_memory) {
  try_it();
  [[maybe_unused]] const std::size_t before = peak_memory();
  int refused = 0;
  for (unsigned seed = 0; seed < kCases; ++seed) {
    std::mt19937 random(seed);
    std::string bytes = good_;
    for (std::size_t n = 1 + random() % 4; n > 0; --n) {
      // Mostly where the numbers are that decide everything.
      const std::size_t at = random() % (random() % 8 == 0 ? bytes.size() : data_begins_);
      switch (random() % 3) {
        case 0: bytes[at] = static_cast<char>(random()); break;
        case 1: bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8)); break;
        default: bytes[at] = static_cast<char>(random() % 2 == 0 ? 0 : 0xff);
      }
    }
    write(bytes);
    SCOPED_TRACE("seed " + std::to_string(seed));
    refused += !try_it().empty();
  }
  EXPECT_GT(refused, static_cast<int>(kCases / 10));
  EXPECT_LT(refused, static_cast<int>(kCases));
#ifndef QUERN_TEST_ADDRESS_SANITIZER  // which keeps freed memory
  EXPECT_LT(peak_memory() - before, std::size_t{32} << 20) << "a file of " << good_.size() << " bytes";
#endif
}

TEST_F(HostileModelTest, scales_that_are_no_numbers_make_logits_that_are_none) {
  for (const Precision precision : {Precision::fast, Precision::exact}) {
    std::string bytes = good_;
    for (std::size_t block = 0; block < 40; ++block) {  // rows of one block of q8_0, which begins with its scale
      const std::uint16_t nan = 0x7e00;
      std::memcpy(&bytes[data_begins_ + 34 * block], &nan, 2);
    }
    write(bytes);
    EXPECT_EQ(try_it(precision), "");
    ASSERT_EQ(logits_.size(), 40u);
    for (const float f : logits_) EXPECT_TRUE(std::isnan(f));
  }
}

}  // namespace
}  // namespace quern::runtime
