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

}  // namespace

void write_step_times(const std::string& path, const engine::StepTimes& times, std::string_view model, unsigned threads) {
  const Json json = {{"model", model},           {"threads", threads},  {"tokens", times.tokens},
                     {"row", times.row},         {"key", times.key},    {"prompt_key", times.prompt_key},
                     {"request", times.request}, {"token", times.token}};
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
    for (const Json& point : json.at("tokens")) {
      times.tokens.emplace_back(point.at(0).get<std::int64_t>(), duration(point.at(1)));
      const std::size_t n = times.tokens.size();
      if (times.tokens.back().first < 1 || (n > 1 && times.tokens[n - 2].first >= times.tokens[n - 1].first))
        throw Error(Code::data_corrupt, "the numbers of tokens do not ascend");
    }
    if (times.tokens.empty()) throw Error(Code::data_corrupt, "it has no times");
    times.row = duration(json.at("row"));
    times.key = duration(json.at("key"));
    times.prompt_key = duration(json.at("prompt_key"));
    times.request = duration(json.at("request"));
    times.token = duration(json.at("token"));
  } catch (const Json::exception& e) {
    throw Error(Code::data_corrupt, e.what()).at(path).hint("`quern bench MODEL --cost F.json` writes such files");
  }
  return times;
}

}  // namespace quern::cli
