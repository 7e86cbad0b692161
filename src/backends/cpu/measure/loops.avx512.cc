#include <immintrin.h>

#include "backends/cpu/measure/loops.h"

namespace quern::cpu {
namespace {

float sum(const __m512* v) {
  alignas(64) float lanes[16];
  float total = 0;
  for (int i = 0; i < kAccumulators; ++i) {
    _mm512_store_ps(lanes, v[i]);
    for (const float lane : lanes) total += lane;
  }
  return total;
}

}  // namespace

float f32_avx512(std::int64_t rounds) {
  const __m512 a = _mm512_set1_ps(0.5f), b = _mm512_set1_ps(0.25f);
  __m512 x[kAccumulators];
  for (int i = 0; i < kAccumulators; ++i) x[i] = _mm512_set1_ps(float(i));
  for (std::int64_t r = 0; r < rounds; ++r)
#pragma GCC unroll 12
    for (int i = 0; i < kAccumulators; ++i) x[i] = _mm512_fmadd_ps(x[i], a, b);
  return sum(x);
}

float bf16_avx512(std::int64_t rounds) {
  alignas(64) std::uint32_t pairs[kBf16Pairs];
  for (int i = 0; i < kBf16Pairs; ++i) pairs[i] = 0x3c003c00u + std::uint32_t(i);
  const __m512 scale = _mm512_set1_ps(1e-3f);
  const __m512i high = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
  __m512 x[kAccumulators];
  for (int i = 0; i < kAccumulators; ++i) x[i] = _mm512_setzero_ps();
  for (std::int64_t r = 0; r < rounds; ++r)
    for (int i = 0; i < kBf16Pairs; i += 16 * kAccumulators / 2)
#pragma GCC unroll 6
      for (int j = 0; j < kAccumulators / 2; ++j) {
        const __m512i two = _mm512_load_si512(pairs + i + 16 * j);
        x[2 * j] = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32(two, 16)), scale, x[2 * j]);
        x[2 * j + 1] = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_and_si512(two, high)), scale, x[2 * j + 1]);
      }
  return sum(x);
}

float int8_avx512(std::int64_t rounds) {
  const __m512i weights = _mm512_set1_epi8(3), ones = _mm512_set1_epi16(1);
  __m512i x[kAccumulators];
  for (int i = 0; i < kAccumulators; ++i) x[i] = _mm512_set1_epi32(i);
  for (std::int64_t r = 0; r < rounds; ++r)
#pragma GCC unroll 12
    for (int i = 0; i < kAccumulators; ++i) x[i] = _mm512_add_epi32(x[i], _mm512_madd_epi16(_mm512_maddubs_epi16(x[i], weights), ones));
  __m512 total[kAccumulators];
  for (int i = 0; i < kAccumulators; ++i) total[i] = _mm512_cvtepi32_ps(x[i]);
  return sum(total);
}

std::uint64_t read_avx512(const std::byte* data, std::size_t bytes) {
  __m512i x[8];
  for (int i = 0; i < 8; ++i) x[i] = _mm512_setzero_si512();
  for (std::size_t at = 0; at < bytes; at += 512) {
#pragma GCC unroll 8
    for (int line = 0; line < 8; ++line) _mm_prefetch(reinterpret_cast<const char*>(data + at + kReadAhead) + 64 * line, _MM_HINT_T0);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) x[i] = _mm512_add_epi64(x[i], _mm512_load_si512(data + at + 64 * i));
  }
  alignas(64) std::uint64_t lanes[8];
  std::uint64_t total = 0;
  for (int i = 0; i < 8; ++i) {
    _mm512_store_si512(lanes, x[i]);
    for (const std::uint64_t lane : lanes) total += lane;
  }
  return total;
}

}  // namespace quern::cpu
