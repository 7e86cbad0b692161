#include "cli/step_times_file.h"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace quern::cli {
namespace {

using Json = nlohmann::ordered_json;

double duration(const Json& value) {
  const double seconds = value.get<double>();
  if (!std::isfinite(seconds) || seconds < 0) throw Error(Code::data_corrupt, "a duration is " + std::to_string(seconds));
  return seconds;
}

engine::StepTimes::Points points(const Json& json) {
  engine::StepTimes::Points points;
  for (const Json& point : json) {
    const auto count = point.at(0).get<std::int64_t>();
    if (count < 1 || (!points.empty() && points.back().first >= count)) throw Error(Code::data_corrupt, "the numbers do not ascend");
    points.emplace_back(count, duration(point.at(1)));
  }
  if (points.empty()) throw Error(Code::data_corrupt, "it has no times");
  return points;
}

}  // namespace

void write_step_times(const std::string& path, const engine::StepTimes& times, std::string_view model, unsigned threads) {
  const Json json = {{"model", model},
                     {"threads", threads},
                     {"tokens", times.tokens},
                     {"rows", times.rows},
                     {"keys", times.keys},
                     {"prompt_key", times.prompt_key},
                     {"new_sizes", times.new_sizes},
                     {"request", times.request},
                     {"token", times.token}};
  std::ofstream file(path);
  file << json.dump(1, ' ', false, Json::error_handler_t::replace) << "\n";
  file.close();
  if (!file) throw Error(Code::invalid_argument, "cannot write it").at(path);
}

engine::StepTimes read_step_times(const std::string& path) {
  constexpr std::size_t kMost = 1 << 20;
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(Code::not_found, "cannot open it").at(path);
  std::string text(kMost, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  engine::StepTimes times;
  try {
    const Json json = Json::parse(text);
    times.tokens = points(json.at("tokens"));
    times.rows = points(json.at("rows"));
    times.keys = points(json.at("keys"));
    times.prompt_key = duration(json.at("prompt_key"));
    times.new_sizes = duration(json.at("new_sizes"));
    times.request = duration(json.at("request"));
    times.token = duration(json.at("token"));
  } catch (const std::exception& e) {
    throw Error(Code::data_corrupt, e.what()).at(path).hint("`quern bench MODEL --cost F.json` writes such files");
  }
  return times;
}

}  // namespace quern::cli
