#include "sampling/row.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "base/error.h"

namespace quern::sampling {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::size_t kLanes = 8;  // independent sums, which the compiler keeps in vector registers

/// Highest of a block; `bad` becomes true when one is NaN or +inf.
float max_of(std::span<const float> x, bool& bad) {
  float lanes[kLanes];
  std::uint32_t not_below[kLanes] = {};
  std::fill_n(lanes, kLanes, -kInfinity);
  std::size_t i = 0;
  for (; i + kLanes <= x.size(); i += kLanes)
    for (std::size_t j = 0; j < kLanes; ++j) {
      const float v = x[i + j];
      lanes[j] = v > lanes[j] ? v : lanes[j];
      not_below[j] |= v < kInfinity ? 0u : 1u;
    }
  for (std::size_t j = 0; i < x.size(); ++i, ++j) {
    lanes[j] = std::max(lanes[j], x[i]);
    not_below[j] |= x[i] < kInfinity ? 0u : 1u;
  }
  for (const std::uint32_t b : not_below) bad |= b != 0;
  return *std::max_element(lanes, lanes + kLanes);
}

// 2^n * p(r) with x = n ln 2 + r, |r| <= ln 2 / 2; coefficients: Taylor, whose error there is below that of f32.
inline float exp_step(float x) {
  const float clamped = x < -87.0f ? -87.0f : x;
  const float shifted = clamped * 1.44269504f + 12582912.0f;  // 1.5 * 2^23: rounds to a whole number in the low bits
  const float n = shifted - 12582912.0f;
  const float r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.0f / 5040.0f;
  p = p * r + 1.0f / 720.0f;
  p = p * r + 1.0f / 120.0f;
  p = p * r + 1.0f / 24.0f;
  p = p * r + 1.0f / 6.0f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const std::uint32_t scale = (std::bit_cast<std::uint32_t>(shifted) << 23) + 0x3f800000u;
  const float value = p * std::bit_cast<float>(scale);
  return x < -87.0f ? 0.0f : value;
}

}  // namespace

float exp_nonpositive(float x) { return exp_step(x); }

Row::Row(std::size_t vocabulary) {
  const std::size_t blocks = (vocabulary + kBlock - 1) / kBlock;
  block_max_.resize(blocks);
  selection_.reserve(blocks);
  block_sum_.resize(blocks);
}

void Row::look(std::span<const float> logits) {
  QUERN_ASSERT(!logits.empty() && logits.size() <= block_max_.size() * kBlock);
  logits_ = logits;
  bool bad = false;
  max_ = -kInfinity;
  for (std::size_t b = 0; b < blocks(); ++b) {
    block_max_[b] = max_of(block(b), bad);
    max_ = std::max(max_, block_max_[b]);
  }
  if (bad)
    throw Error(Code::data_corrupt, std::any_of(logits.begin(), logits.end(), [](float x) { return std::isnan(x); })
                                        ? "the model computed NaN"
                                        : "the model computed infinity")
        .hint("its weights may be damaged: get the file again and compare its checksum");
}

std::int32_t Row::argmax() const {
  std::size_t b = 0;
  while (block_max_[b] != max_) ++b;
  const std::span<const float> x = block(b);
  return static_cast<std::int32_t>(b * kBlock + static_cast<std::size_t>(std::find(x.begin(), x.end(), max_) - x.begin()));
}

void Row::collect(float threshold, std::vector<Candidate>& out) const {
  threshold = std::max(threshold, std::numeric_limits<float>::lowest());
  for (std::size_t b = 0; b < blocks(); ++b) {
    if (block_max_[b] < threshold) continue;
    const std::span<const float> x = block(b);
    for (std::size_t i = 0; i < x.size(); ++i)
      if (x[i] >= threshold) out.push_back({x[i], static_cast<std::int32_t>(b * kBlock + i)});
  }
}

void Row::collect_top(std::size_t k, std::vector<Candidate>& out) {
  const std::size_t first = out.size();
  float threshold = -kInfinity;
  if (k <= blocks()) {  // k blocks have a maximum of at least this, so k tokens have
    selection_.assign(block_max_.begin(), block_max_.begin() + static_cast<std::ptrdiff_t>(blocks()));
    const auto kth = selection_.begin() + static_cast<std::ptrdiff_t>(k) - 1;
    std::nth_element(selection_.begin(), kth, selection_.end(), std::greater<>());
    threshold = *kth;
  }
  collect(threshold, out);
  if (out.size() - first <= k) return;
  const auto begin = out.begin() + static_cast<std::ptrdiff_t>(first);
  std::nth_element(begin, begin + static_cast<std::ptrdiff_t>(k) - 1, out.end(), more_probable);
  out.resize(first + k);
}

double Row::sum_exp(float temperature) {
  temperature_ = temperature;
  double sum = 0;
  for (std::size_t b = 0; b < blocks(); ++b) {
    const std::span<const float> x = block(b);
    double lanes[kLanes] = {};
    std::size_t i = 0;
    for (; i + kLanes <= x.size(); i += kLanes) {
      float e[kLanes];
      for (std::size_t j = 0; j < kLanes; ++j) e[j] = exp_step((x[i + j] - max_) / temperature);
      for (std::size_t j = 0; j < kLanes; ++j) lanes[j] += e[j];
    }
    for (std::size_t j = 0; i < x.size(); ++i, ++j) lanes[j] += exp_step((x[i] - max_) / temperature);
    block_sum_[b] = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
    sum += block_sum_[b];
  }
  return sum;
}

std::int32_t Row::find_mass(double mass) const {
  std::size_t b = 0, last_alive = 0;
  for (; b < blocks(); ++b) {
    if (block_sum_[b] > 0) last_alive = b;
    if (mass < block_sum_[b]) break;
    mass -= block_sum_[b];
  }
  if (b == blocks()) b = last_alive;  // rounding: past the end of the sum
  const std::span<const float> x = block(b);
  std::size_t chosen = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double weight = exp_step((x[i] - max_) / temperature_);
    if (weight == 0) continue;
    chosen = i;
    if (mass < weight) break;
    mass -= weight;
  }
  return static_cast<std::int32_t>(b * kBlock + chosen);
}

}  // namespace quern::sampling
