// Every family against a float64 implementation of what its papers say; make_families.py made the data.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "formats/gguf/writer.h"
#include "models/family.h"
#include "runtime/language_model.h"
#include "sequences.h"

namespace quern::runtime {
namespace {

struct Case {
  std::string architecture;
  std::vector<std::pair<std::string, std::string>> keys;
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> tensors;
  std::vector<std::int32_t> ids;
  std::map<std::size_t, std::vector<double>> logits;  // by token
};

template <class T>
std::vector<T> rest_of(std::istringstream& in) {
  std::vector<T> values;
  for (T value; in >> value;) values.push_back(value);
  return values;
}

const std::vector<Case>& cases() {
  static const std::vector<Case> list = [] {
    std::vector<Case> read;
    std::ifstream file(QUERN_SOURCE_DIR "/tests/runtime/data/families.txt");
    for (std::string line, what, name; std::getline(file, line);) {
      std::istringstream in(line);
      in >> what;
      if (what == "ids") {
        read.back().ids = rest_of<std::int32_t>(in);
        continue;
      }
      in >> name;
      if (what == "model") {
        read.emplace_back().architecture = name;
      } else if (what == "set") {
        read.back().keys.emplace_back(name, rest_of<std::string>(in).at(0));
      } else if (what == "tensor") {
        read.back().tensors.emplace_back(name, rest_of<std::int64_t>(in));
      } else {
        read.back().logits[std::stoul(name)] = rest_of<double>(in);
      }
    }
    return read;
  }();
  return list;
}

/// The weights of values() in make_families.py.
std::vector<float> weights(const std::string& name, std::size_t count) {
  std::uint32_t seed = 2166136261u;
  for (const char c : name) seed = (seed ^ static_cast<unsigned char>(c)) * 16777619u;
  std::vector<float> made(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t h = static_cast<std::uint32_t>(i) * 2654435761u + seed;
    h ^= h >> 15;
    h *= 2246822519u;
    h ^= h >> 13;
    const float v = (static_cast<float>(h & 0xFF) - 127.5f) / 128;
    made[i] = name.ends_with("norm.weight") ? 1 + v / 4 : name.starts_with("token_embd") ? v : name.ends_with("bias") ? v / 2 : v / 4;
  }
  return made;
}

void write(const std::string& path, const Case& model) {
  gguf::Writer out;
  out.set("general.architecture", model.architecture);
  for (const auto& [key, value] : model.keys) {
    const std::string whole = model.architecture + "." + key;
    if (value.find_first_not_of("0123456789.e-") != value.npos)
      out.set(whole, value);
    else if (value.find_first_of(".e") != value.npos)
      out.set(whole, std::strtof(value.c_str(), nullptr));
    else
      out.set(whole, static_cast<std::uint32_t>(std::stoul(value)));
  }
  std::deque<std::vector<float>> kept;
  for (const auto& [name, shape] : model.tensors) {
    std::size_t count = 1;
    for (const std::int64_t n : shape) count *= static_cast<std::size_t>(n);
    out.add_tensor(name, ir::DType::f32, shape, std::as_bytes(std::span(kept.emplace_back(weights(name, count)))));
  }
  out.write(path);
}

class FamiliesTest : public ::testing::TestWithParam<std::size_t> {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  std::string path_ = ::testing::TempDir() + "families_test." + std::to_string(getpid()) + ".gguf";
};

TEST_P(FamiliesTest, a_model_answers_what_its_papers_say) {
  const Case& model = cases()[GetParam()];
  write(path_, model);
  ThreadPool pool(2);
  LanguageRunner runner(LanguageModel::load(path_, {.precision = Precision::exact}), pool, 2, 1, 2);
  const std::vector<float> logits = testing::all_logits(runner, model.ids, model.ids.size());
  ASSERT_EQ(model.logits.size(), 3u);
  for (const auto& [token, expected] : model.logits) {
    double largest = 0;
    for (const double x : expected) largest = std::max(largest, std::abs(x));
    // Some 60 products one after another, each of whose sums is off by a few roundings of its largest parts; measured 2e-6.
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(logits[token * expected.size() + i], expected[i], 2e-5 * largest) << "token " << token << ", logit " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(, FamiliesTest, ::testing::Range(std::size_t{0}, cases().size()),
                         [](const auto& instance) { return cases()[instance.param].architecture; });

TEST(Families, each_has_a_case_or_is_a_variant_of_one_that_has) {
  std::set<std::string> covered = {"smollm3"};  // llama with layers that go without positions: models_test
  for (const Case& model : cases()) covered.insert(model.architecture);
  for (const models::Family& family : models::families())
    EXPECT_TRUE(covered.contains(std::string(family.architecture))) << family.architecture;
}

}  // namespace
}  // namespace quern::runtime
