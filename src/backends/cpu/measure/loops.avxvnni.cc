#include <immintrin.h>

#include "backends/cpu/measure/loops.h"

namespace quern::cpu {

float int8_avxvnni(std::int64_t rounds) {
  const __m256i u = _mm256_set1_epi8(1), s = _mm256_set1_epi8(3);
  __m256i x[kAccumulators];
  for (int i = 0; i < kAccumulators; ++i) x[i] = _mm256_set1_epi32(i);
  for (std::int64_t r = 0; r < rounds; ++r)
#pragma GCC unroll 12
    for (int i = 0; i < kAccumulators; ++i) x[i] = _mm256_dpbusd_avx_epi32(x[i], u, s);
  alignas(32) std::int32_t lanes[8];
  float total = 0;
  for (int i = 0; i < kAccumulators; ++i) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), x[i]);
    for (const std::int32_t lane : lanes) total += static_cast<float>(lane);
  }
  return total;
}

}  // namespace quern::cpu
