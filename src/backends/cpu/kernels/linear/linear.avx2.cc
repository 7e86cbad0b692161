#include <immintrin.h>

#include "backends/cpu/kernels/linear/job.h"

namespace quern::cpu {
namespace {

inline __m256i broadcast4(const std::uint8_t* p) {
  std::int32_t bits;
  __builtin_memcpy(&bits, p, 4);
  return _mm256_set1_epi32(bits);
}

// Products of a pair are at most 2 * 255 * |q| in all, so that kFit of them fit 16 bits; of quants up to 128 not even one does. Then x is
// cut into half bytes, of which eight pairs do: first the 32 low ones, then the high ones.
template <int kFit>
constexpr bool kPrepared = kFit == 0;

template <int kFit>
inline __attribute__((always_inline)) void prepare(const std::uint8_t* x, std::uint8_t* to) {
  const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)), low = _mm256_set1_epi8(15);
  _mm256_store_si256(reinterpret_cast<__m256i*>(to), _mm256_and_si256(bytes, low));
  _mm256_store_si256(reinterpret_cast<__m256i*>(to + 32), _mm256_and_si256(_mm256_srli_epi16(bytes, 4), low));
}

constexpr int kHalves = 1;

/// Sums of products of kCount groups of four, in 16 bits.
template <int kCount>
inline __attribute__((always_inline)) __m256i pairs(const std::uint8_t* x, const __m256i (*q)[kHalves]) {
  __m256i sum = _mm256_maddubs_epi16(broadcast4(x), q[0][0]);
#pragma GCC unroll 8
  for (int g = 1; g < kCount; ++g) sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(broadcast4(x + 4 * g), q[g][0]));
  return sum;
}

template <int kGroups, int kFit>
inline __attribute__((always_inline)) void dot(const std::uint8_t* x, const __m256i (&q)[kGroups][kHalves], __m256i (&sums)[kHalves]) {
  if constexpr (kFit > 0) {
    sums[0] = _mm256_madd_epi16(pairs<kFit>(x, q), _mm256_set1_epi16(1));
#pragma GCC unroll 4
    for (int g = kFit; g < kGroups; g += kFit)
      sums[0] = _mm256_add_epi32(sums[0], _mm256_madd_epi16(pairs<kFit>(x + 4 * g, q + g), _mm256_set1_epi16(1)));
  } else {
    sums[0] = _mm256_add_epi32(_mm256_madd_epi16(pairs<kGroups>(x, q), _mm256_set1_epi16(1)),
                               _mm256_madd_epi16(pairs<kGroups>(x + 32, q), _mm256_set1_epi16(16)));
  }
}

}  // namespace
}  // namespace quern::cpu

#include "backends/cpu/kernels/linear/ymm.inc"

namespace quern::cpu {

void linear_integer_avx2(const LinearJob& job) { all_formats(job); }

}  // namespace quern::cpu
