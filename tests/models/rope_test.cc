#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "models/blocks/config.h"
#include "stub_checkpoint.h"

namespace quern::models {
namespace {

using testing::StubCheckpoint;

struct RopeCase {
  std::string name;
  StubCheckpoint checkpoint = StubCheckpoint::small();
  double magnitude = 0;
  std::vector<double> radians;
};

std::vector<RopeCase> cases() {
  std::ifstream file(QUERN_SOURCE_DIR "/tests/models/data/rope.txt");
  std::vector<RopeCase> all;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key;
    words >> key;
    if (key == "case") {
      all.emplace_back();
      std::getline(words >> std::ws, all.back().name);
      continue;
    }
    RopeCase& c = all.back();
    if (key == "tensor") {
      std::string tensor;
      words >> tensor;
      std::vector<float> values;
      for (float v; words >> v;) values.push_back(v);
      c.checkpoint.add_floats(tensor, values);
    } else if (key == "expect") {
      words >> c.magnitude;
      for (double v; words >> v;) c.radians.push_back(v);
    } else {
      std::string value;
      words >> value;
      if (key == "rope.scaling.type")
        c.checkpoint.keys[key] = value;
      else if (value.find('.') == std::string::npos)
        c.checkpoint.keys[key] = std::stoll(value);
      else
        c.checkpoint.keys[key] = std::stod(value);
    }
  }
  return all;
}

TEST(Rope, frequencies_are_those_of_the_papers) {
  const std::vector<RopeCase> all = cases();
  ASSERT_GE(all.size(), 15u);
  for (const RopeCase& c : all) {
    SCOPED_TRACE(c.name);
    Config config{};
    config.rope_dim = std::get<std::int64_t>(c.checkpoint.keys.at("rope.dimension_count"));
    config.context_length = std::get<std::int64_t>(c.checkpoint.keys.at("context_length"));
    const RopeFrequencies rope = rope_frequencies(c.checkpoint, config, config.context_length);
    EXPECT_NEAR(rope.magnitude, c.magnitude, 1e-12);
    ASSERT_EQ(rope.radians.size(), c.radians.size());
    // Rounded to f32 once, and the factors of a tensor to nine digits before.
    for (std::size_t i = 0; i < c.radians.size(); ++i)
      EXPECT_NEAR(rope.radians[i], c.radians[i], c.radians[i] * 1.5 * 0x1p-24) << "pair " << i;
  }
}

TEST(Rope, longrope_goes_by_the_context_that_is_asked_for) {
  for (RopeCase& c : cases()) {
    if (c.name != "longrope 131072") continue;
    Config config{};
    config.rope_dim = 32;
    config.context_length = 131072;
    EXPECT_EQ(rope_frequencies(c.checkpoint, config, 4096).radians[0], 1.0f);         // short factors begin with 1
    EXPECT_EQ(rope_frequencies(c.checkpoint, config, 4097).radians[0], 1.0f / 1.5f);  // long ones with 1.5
  }
}

}  // namespace
}  // namespace quern::models
