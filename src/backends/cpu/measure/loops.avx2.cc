#include <immintrin.h>

#include "backends/cpu/measure/loops.h"

namespace quern::cpu {
namespace {

float sum(const __m256* v) {
  alignas(32) float lanes[8];
  float total = 0;
  for (int i = 0; i < kAccumulators; ++i) {
    _mm256_store_ps(lanes, v[i]);
    for (const float lane : lanes) total += lane;
  }
  return total;
}

}  // namespace

float f32_avx2(std::int64_t rounds) {
  // x = x * a + b goes to b / (1 - a) and never leaves the ordinary numbers; different starts keep the chains apart.
  const __m256 a = _mm256_set1_ps(0.5f), b = _mm256_set1_ps(0.25f);
  __m256 x[kAccumulators];
  for (int i = 0; i < kAccumulators; ++i) x[i] = _mm256_set1_ps(float(i));
  for (std::int64_t r = 0; r < rounds; ++r)
#pragma GCC unroll 12
    for (int i = 0; i < kAccumulators; ++i) x[i] = _mm256_fmadd_ps(x[i], a, b);
  return sum(x);
}

float bf16_avx2(std::int64_t rounds) {
  alignas(64) std::uint32_t pairs[kBf16Pairs];
  for (int i = 0; i < kBf16Pairs; ++i) pairs[i] = 0x3c003c00u + std::uint32_t(i);
  const __m256 scale = _mm256_set1_ps(1e-3f);
  const __m256i high = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
  __m256 x[kAccumulators];
  for (int i = 0; i < kAccumulators; ++i) x[i] = _mm256_setzero_ps();
  for (std::int64_t r = 0; r < rounds; ++r)
    for (int i = 0; i < kBf16Pairs; i += 8 * kAccumulators / 2)
#pragma GCC unroll 6
      for (int j = 0; j < kAccumulators / 2; ++j) {
        const __m256i two = _mm256_load_si256(reinterpret_cast<const __m256i*>(pairs + i) + j);
        x[2 * j] = _mm256_fmadd_ps(_mm256_castsi256_ps(_mm256_slli_epi32(two, 16)), scale, x[2 * j]);
        x[2 * j + 1] = _mm256_fmadd_ps(_mm256_castsi256_ps(_mm256_and_si256(two, high)), scale, x[2 * j + 1]);
      }
  return sum(x);
}

float int8_avx2(std::int64_t rounds) {
  const __m256i weights = _mm256_set1_epi8(3), ones = _mm256_set1_epi16(1);
  __m256i x[kAccumulators];
  for (int i = 0; i < kAccumulators; ++i) x[i] = _mm256_set1_epi32(i);
  for (std::int64_t r = 0; r < rounds; ++r)
#pragma GCC unroll 12
    for (int i = 0; i < kAccumulators; ++i) x[i] = _mm256_add_epi32(x[i], _mm256_madd_epi16(_mm256_maddubs_epi16(x[i], weights), ones));
  __m256 total[kAccumulators];
  for (int i = 0; i < kAccumulators; ++i) total[i] = _mm256_cvtepi32_ps(x[i]);
  return sum(total);
}

std::uint64_t read_avx2(const std::byte* data, std::size_t bytes) {
  __m256i x[8];
  for (int i = 0; i < 8; ++i) x[i] = _mm256_setzero_si256();
  for (std::size_t at = 0; at < bytes; at += 256) {
#pragma GCC unroll 4
    for (int line = 0; line < 4; ++line) _mm_prefetch(reinterpret_cast<const char*>(data + at + kReadAhead) + 64 * line, _MM_HINT_T0);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) x[i] = _mm256_add_epi64(x[i], _mm256_load_si256(reinterpret_cast<const __m256i*>(data + at) + i));
  }
  alignas(32) std::uint64_t lanes[4];
  std::uint64_t total = 0;
  for (int i = 0; i < 8; ++i) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), x[i]);
    for (const std::uint64_t lane : lanes) total += lane;
  }
  return total;
}

}  // namespace quern::cpu
