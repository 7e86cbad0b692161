// dtypes::quantize_a8 on 256-bit vectors, the same bits.
#include <immintrin.h>

#include "backends/cpu/kernels/linear/job.h"

namespace quern::cpu {
namespace {

inline float reduce(__m256 v, bool largest) {
  __m128 h = largest ? _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1))
                     : _mm_min_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  h = largest ? _mm_max_ps(h, _mm_movehl_ps(h, h)) : _mm_min_ps(h, _mm_movehl_ps(h, h));
  h = largest ? _mm_max_ss(h, _mm_shuffle_ps(h, h, 1)) : _mm_min_ss(h, _mm_shuffle_ps(h, h, 1));
  return _mm_cvtss_f32(h);
}

inline int sum_of(__m256i v) {
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

inline void put(std::uint8_t* y, float scale, float sum, float low_sum) {
  __builtin_memcpy(y, &scale, 4);
  __builtin_memcpy(y + kA8Sum, &sum, 4);
  __builtin_memcpy(y + kA8LowSum, &low_sum, 4);
}

}  // namespace

void quantize_a8_avx2(const float* x, std::uint8_t* y, std::int64_t blocks) {
  const __m256i exponent = _mm256_set1_epi32(0x7f800000);
  for (std::int64_t b = 0; b < blocks; ++b, x += kBlockColumns, y += kA8Bytes) {
    __m256 v[4], low = _mm256_setzero_ps(), high = _mm256_setzero_ps();
    __m256i fault = _mm256_setzero_si256();
    for (int i = 0; i < 4; ++i) {
      v[i] = _mm256_loadu_ps(x + 8 * i);
      low = _mm256_min_ps(v[i], low);
      high = _mm256_max_ps(v[i], high);
      fault = _mm256_or_si256(fault, _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_castps_si256(v[i]), exponent), exponent));
    }
    const float least = reduce(low, false), scale = reduce(high, true) * (1.0f / 254) - least * (1.0f / 254);
    const bool finite = _mm256_testz_si256(fault, fault);
    if (!finite || !(scale >= 0x1p-120f)) {
      __builtin_memset(y, 0, kA8Bytes);
      if (!finite) put(y, __builtin_nanf(""), __builtin_nanf(""), __builtin_nanf(""));
      continue;
    }
    const float inverse = 1.0f / scale;
    const int z = _mm_cvtss_si32(_mm_set_ss(-least * inverse));
    const __m256i zero = _mm256_set1_epi32(z);
    __m256i q[4];
    for (int i = 0; i < 4; ++i) {
      q[i] = _mm256_add_epi32(_mm256_cvtps_epi32(_mm256_mul_ps(v[i], _mm256_set1_ps(inverse))), zero);
      q[i] = _mm256_min_epi32(_mm256_max_epi32(q[i], _mm256_setzero_si256()), _mm256_set1_epi32(255));
    }
    // Packing works in halves of 128 bits: the last shuffle puts the groups of four back in order.
    const __m256i words01 = _mm256_packus_epi32(q[0], q[1]), words23 = _mm256_packus_epi32(q[2], q[3]);
    const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(words01, words23), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    const int low_half = sum_of(_mm256_add_epi32(q[0], q[1])), high_half = sum_of(_mm256_add_epi32(q[2], q[3]));
    const int low_sum = low_half - kBlockColumns / 2 * z;
    put(y, scale, scale * static_cast<float>(low_half + high_half - kBlockColumns * z), scale * static_cast<float>(low_sum));
    __builtin_memset(y + kA8Zero, z, 4);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + kA8Quants), bytes);
  }
}

}  // namespace quern::cpu
