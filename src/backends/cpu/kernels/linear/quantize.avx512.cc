// dtypes::quantize_a8 on 512-bit vectors, the same bits: four blocks at a time, whose extremes are found together and whose scales are one
// vector.
#include <immintrin.h>

#include "backends/cpu/kernels/linear/job.h"

namespace quern::cpu {
namespace {

constexpr int kBlocks = 4;

/// The least element of each of four vectors.
inline __m128 least_of_each(const __m512* v) {
  // 128 bits of each in turn, then pairs of lanes, then lanes.
  const __m512 a = _mm512_min_ps(_mm512_shuffle_f32x4(v[0], v[1], 0x44), _mm512_shuffle_f32x4(v[0], v[1], 0xee));  // 0 0 1 1
  const __m512 b = _mm512_min_ps(_mm512_shuffle_f32x4(v[2], v[3], 0x44), _mm512_shuffle_f32x4(v[2], v[3], 0xee));  // 2 2 3 3
  const __m512 c = _mm512_min_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));              // 0 1 2 3
  const __m512 d = _mm512_min_ps(c, _mm512_permute_ps(c, 0x4e));
  const __m512 e = _mm512_min_ps(d, _mm512_permute_ps(d, 0xb1));
  return _mm512_castps512_ps128(_mm512_permutexvar_ps(_mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), e));
}

void quantize_four(const float* x, std::uint8_t* y) {
  __m512 v[kBlocks][2], low[kBlocks], minus_high[kBlocks];
  const __m512 none = _mm512_setzero_ps();
  unsigned faults = 0;
  for (int b = 0; b < kBlocks; ++b) {
    for (int i = 0; i < 2; ++i) v[b][i] = _mm512_loadu_ps(x + kBlockColumns * b + 16 * i);
    low[b] = _mm512_min_ps(_mm512_min_ps(v[b][0], v[b][1]), none);
    minus_high[b] = _mm512_sub_ps(none, _mm512_max_ps(_mm512_max_ps(v[b][0], v[b][1]), none));
    constexpr int kNanOrInfinity = 0x99;
    faults |=
        unsigned(_mm512_fpclass_ps_mask(v[b][0], kNanOrInfinity) | _mm512_fpclass_ps_mask(v[b][1], kNanOrInfinity)) != 0u ? 1u << b : 0u;
  }
  const __m128 least = least_of_each(low), minus_highest = least_of_each(minus_high), part = _mm_set1_ps(1.0f / 254);
  const __m128 scale = _mm_sub_ps(_mm_mul_ps(_mm_sub_ps(_mm_setzero_ps(), minus_highest), part), _mm_mul_ps(least, part));
  const unsigned usable = unsigned(_mm_cmp_ps_mask(scale, _mm_set1_ps(0x1p-120f), _CMP_GE_OQ)) & ~faults;
  if (usable != 15) {
    quantize_a8_avx2(x, y, kBlocks);
    return;
  }
  const __m128 inverse = _mm_div_ps(_mm_set1_ps(1.0f), scale);
  const __m128i zero = _mm_cvtps_epi32(_mm_mul_ps(_mm_sub_ps(_mm_setzero_ps(), least), inverse));
  alignas(16) float inverses[kBlocks];
  alignas(16) std::int32_t zeros[kBlocks];
  _mm_store_ps(inverses, inverse);
  _mm_store_si128(reinterpret_cast<__m128i*>(zeros), zero);
  __m256i sums[kBlocks];  // of eight bytes at a time
  for (int b = 0; b < kBlocks; ++b) {
    __m128i bytes[2];
    for (int i = 0; i < 2; ++i) {
      const __m512i q =
          _mm512_add_epi32(_mm512_cvtps_epi32(_mm512_mul_ps(v[b][i], _mm512_set1_ps(inverses[b]))), _mm512_set1_epi32(zeros[b]));
      bytes[i] = _mm512_cvtusepi32_epi8(_mm512_max_epi32(q, _mm512_setzero_si512()));
    }
    const __m256i block = _mm256_set_m128i(bytes[1], bytes[0]);
    sums[b] = _mm256_sad_epu8(block, _mm256_setzero_si256());
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + kA8Bytes * b + kA8Quants), block);
  }
  // Lanes 0 and 1 of `halves`: low and high half of the first block, and so on.
  const __m256i first = _mm256_add_epi64(_mm256_unpacklo_epi64(sums[0], sums[1]), _mm256_unpackhi_epi64(sums[0], sums[1])),
                second = _mm256_add_epi64(_mm256_unpacklo_epi64(sums[2], sums[3]), _mm256_unpackhi_epi64(sums[2], sums[3]));
  // first: low halves of blocks 0 and 1, then their high halves
  const __m128i low_halves = _mm256_cvtepi64_epi32(_mm256_permute2x128_si256(first, second, 0x20)),
                high_halves = _mm256_cvtepi64_epi32(_mm256_permute2x128_si256(first, second, 0x31));
  const __m128i low_sum = _mm_sub_epi32(low_halves, _mm_slli_epi32(zero, 4)),
                sum = _mm_sub_epi32(_mm_add_epi32(low_halves, high_halves), _mm_slli_epi32(zero, 5));
  static_assert(kBlockColumns == 32 && kA8Sum == 4 && kA8LowSum == 8 && kA8Zero == 12);
  // The 16 bytes before the quants: scale, sum, sum of the low half, and the zero point four times.
  __m128 row0 = scale, row1 = _mm_mul_ps(scale, _mm_cvtepi32_ps(sum)), row2 = _mm_mul_ps(scale, _mm_cvtepi32_ps(low_sum)),
         row3 = _mm_castsi128_ps(_mm_mullo_epi32(zero, _mm_set1_epi32(0x01010101)));
  _MM_TRANSPOSE4_PS(row0, row1, row2, row3);
  const __m128 heads[] = {row0, row1, row2, row3};
  for (int b = 0; b < kBlocks; ++b) _mm_storeu_ps(reinterpret_cast<float*>(y + kA8Bytes * b), heads[b]);
}

}  // namespace

void quantize_a8_avx512(const float* x, std::uint8_t* y, std::int64_t blocks) {
  for (; blocks >= kBlocks; blocks -= kBlocks, x += kBlocks * kBlockColumns, y += kBlocks * kA8Bytes) quantize_four(x, y);
  if (blocks > 0) quantize_a8_avx2(x, y, blocks);
}

}  // namespace quern::cpu
