#include "ops/kv_layout.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/float16.h"

namespace quern::ops {
namespace {

using ir::DType;

constexpr std::int64_t kGroup = 32;

void put(std::byte* p, std::int64_t at, std::uint16_t value) { std::memcpy(p + 2 * at, &value, 2); }
std::uint16_t get(const std::byte* p, std::int64_t at) {
  std::uint16_t value;
  std::memcpy(&value, p + 2 * at, 2);
  return value;
}

/// The smallest f16 of at least x / steps, so that no integer has to be cut off; x ≥ 0. NaN when x is infinite or not a number.
std::uint16_t scale_for(float x, float steps) {
  constexpr std::uint16_t kNan = 0x7e00, kLargest = 0x7bff;
  if (!std::isfinite(x)) return kNan;
  const std::uint16_t scale = std::min(f32_to_f16(x / steps), kLargest);
  return scale < kLargest && f16_to_f32(scale) * steps < x ? static_cast<std::uint16_t>(scale + 1) : scale;
}

int nearest(float x, float inverse, int low, int high) {
  const float scaled = x * inverse;
  return scaled > float(low) ? scaled < float(high) ? static_cast<int>(std::lrint(scaled)) : high : low;  // NaN: low
}

}  // namespace

bool KvLayout::supports(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::q8_0 || dtype == DType::q4_1;
}

void KvLayout::store(std::byte* piece, std::int64_t token, const float* x) const {
  const std::int64_t step = transposed ? tokens : 1;  // between elements of one token
  if (!is_block(dtype)) {
    const std::int64_t at = transposed ? token : token * dim;
    if (dtype == DType::f32)
      for (std::int64_t i = 0; i < dim; ++i) std::memcpy(piece + 4 * (at + i * step), x + i, 4);
    else if (dtype == DType::f16)
      for (std::int64_t i = 0; i < dim; ++i) put(piece, at + i * step, f32_to_f16(x[i]));
    else
      for (std::int64_t i = 0; i < dim; ++i) put(piece, at + i * step, f32_to_bf16(x[i]));
    return;
  }
  const std::int64_t groups = dim / kGroup;
  for (std::int64_t g = 0; g < groups; ++g, x += kGroup) {
    const std::int64_t of_group = transposed ? g * tokens + token : token * groups + g;
    float low = x[0], high = x[0], sum = 0;
    for (std::int64_t i = 0; i < kGroup; ++i) {
      low = std::min(low, x[i]);
      high = std::max(high, x[i]);
      sum += x[i] * 0.0f;  // NaN when anything is not finite
    }
    if (dtype == DType::q8_0) {
      const std::uint16_t scale = scale_for(std::max(-low, high) + sum, 127);
      const float inverse = scale == 0 ? 0.0f : 1 / f16_to_f32(scale);
      put(piece, of_group, scale);
      auto* q = reinterpret_cast<std::int8_t*>(piece + 2 * groups * tokens) +
                (transposed ? g * kGroup * tokens + token : token * dim + g * kGroup);
      for (std::int64_t i = 0; i < kGroup; ++i) q[i * step] = static_cast<std::int8_t>(nearest(x[i], inverse, -127, 127));
    } else {
      const std::uint16_t minimum = f32_to_f16(std::clamp(low, -65504.0f, 65504.0f)), scale = scale_for(high - low + sum, 15);
      const float inverse = scale == 0 ? 0.0f : 1 / f16_to_f32(scale), base = f16_to_f32(minimum);
      put(piece, of_group, scale);
      put(piece, groups * tokens + of_group, minimum);
      auto* q = reinterpret_cast<std::uint8_t*>(piece + 4 * groups * tokens) +
                (transposed ? g * kGroup / 2 * tokens + token : (token * dim + g * kGroup) / 2);
      for (std::int64_t i = 0; i < kGroup / 2; ++i)
        q[i * step] = static_cast<std::uint8_t>(nearest(x[i] - base, inverse, 0, 15) | nearest(x[i + 16] - base, inverse, 0, 15) << 4);
    }
  }
}

float KvLayout::load(const std::byte* piece, std::int64_t token, std::int64_t i) const {
  const std::int64_t at = transposed ? i * tokens + token : token * dim + i;
  if (dtype == DType::f32) {
    float value;
    std::memcpy(&value, piece + 4 * at, 4);
    return value;
  }
  if (dtype == DType::f16) return f16_to_f32(get(piece, at));
  if (dtype == DType::bf16) return bf16_to_f32(get(piece, at));
  const std::int64_t groups = dim / kGroup, g = i / kGroup, of_group = transposed ? g * tokens + token : token * groups + g;
  const float scale = f16_to_f32(get(piece, of_group));
  if (dtype == DType::q8_0) return scale * float(reinterpret_cast<const std::int8_t*>(piece + 2 * groups * tokens)[at]);
  const std::int64_t byte = g * kGroup / 2 + i % 16;
  const auto pair =
      reinterpret_cast<const std::uint8_t*>(piece + 4 * groups * tokens)[transposed ? byte * tokens + token : token * dim / 2 + byte];
  return float(double(scale) * (i % kGroup < 16 ? pair & 15 : pair >> 4) + double(f16_to_f32(get(piece, groups * tokens + of_group))));
}

KvLayout kv_layout(const ir::TensorView& cache, bool transposed) {
  const bool turned = transposed && !ir::is_block(cache.dtype);
  return {cache.dtype, cache.dims[turned ? 3 : 2], cache.dims[turned ? 2 : 3], transposed};
}

}  // namespace quern::ops
