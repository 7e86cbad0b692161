#include "engine/embedding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"

namespace quern::engine {
namespace {

double norm_of(const std::vector<float>& x, const Norm& norm) {
  double sum = 0;
  switch (norm.kind) {
    case Norm::Kind::none: return 1;
    case Norm::Kind::max_abs:
      for (const float v : x) sum = std::max(sum, std::abs(static_cast<double>(v)));
      return sum / 32760.0;
    case Norm::Kind::p: break;
  }
  if (norm.p == 2) {
    for (const float v : x) sum += static_cast<double>(v) * static_cast<double>(v);
    return std::sqrt(sum);
  }
  // Scaled by the largest, lest a high power overflows.
  double largest = 0;
  for (const float v : x) largest = std::max(largest, std::abs(static_cast<double>(v)));
  if (largest == 0) return 0;
  for (const float v : x) sum += std::pow(std::abs(static_cast<double>(v)) / largest, norm.p);
  return largest * std::pow(sum, 1.0 / norm.p);
}

}  // namespace

void cut_and_normalize(std::vector<float>& embedding, std::int64_t dimensions, const Norm& norm) {
  const auto size = static_cast<std::int64_t>(embedding.size());
  if (dimensions < 0 || dimensions > size)
    throw Error(Code::invalid_argument, fmt::format("{} dimensions are asked for; the model's embeddings have {}", dimensions, size));
  if (dimensions > 0) embedding.resize(static_cast<std::size_t>(dimensions));
  const double length = norm_of(embedding, norm);
  if (length == 0) return;
  for (float& v : embedding) v = static_cast<float>(static_cast<double>(v) / length);
}

Pooling pooling_of(const gguf::File& file) {
  const auto architecture = file.get<std::string>("general.architecture", "");
  const std::string key = architecture + ".pooling_type";
  if (file.find(key) == nullptr) return Pooling::last;
  switch (file.get<std::int64_t>(key, -1)) {  // llama.cpp's numbers
    case 0: return Pooling::last;             // one state a token: none is better than the last
    case 1: return Pooling::mean;
    case 2: return Pooling::first;
    case 3: return Pooling::last;
    default: throw Error(Code::unsupported, "the file's pooling is of a kind that Quern does not have").at(file.path());
  }
}

Pooling pooling_named(std::string_view name) {
  if (name == "last") return Pooling::last;
  if (name == "cls" || name == "first") return Pooling::first;
  if (name == "mean") return Pooling::mean;
  throw Error(Code::invalid_argument, fmt::format("'{}' is no pooling; there are last, cls and mean", name));
}

}  // namespace quern::engine
