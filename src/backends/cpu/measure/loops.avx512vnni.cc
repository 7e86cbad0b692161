#include <immintrin.h>

#include "backends/cpu/measure/loops.h"

namespace quern::cpu {

float int8_avx512vnni(std::int64_t rounds) {
  const __m512i u = _mm512_set1_epi8(1), s = _mm512_set1_epi8(3);
  __m512i x[kAccumulators];
  for (int i = 0; i < kAccumulators; ++i) x[i] = _mm512_set1_epi32(i);
  for (std::int64_t r = 0; r < rounds; ++r)
#pragma GCC unroll 12
    for (int i = 0; i < kAccumulators; ++i) x[i] = _mm512_dpbusd_epi32(x[i], u, s);
  alignas(64) std::int32_t lanes[16];
  float total = 0;
  for (int i = 0; i < kAccumulators; ++i) {
    _mm512_store_si512(lanes, x[i]);
    for (const std::int32_t lane : lanes) total += static_cast<float>(lane);
  }
  return total;
}

}  // namespace quern::cpu
