#include <immintrin.h>

#include "backends/cpu/kernels/linear/job.h"

namespace quern::cpu {
namespace {

inline __m256i broadcast4(const std::uint8_t* p) {
  std::int32_t bits;
  __builtin_memcpy(&bits, p, 4);
  return _mm256_set1_epi32(bits);
}

// w4: sums of pairs are at most 2 * 255 * 15, so four of them fit 16 bits. w8: 255 * 128 * 2 does not: bytes are widened first.
template <WeightLayout kLayout>
inline __attribute__((always_inline)) __m256i dot_of_32(const std::uint8_t* x, const std::uint8_t* q) {
  __m256i total = _mm256_setzero_si256();
  if (kLayout == WeightLayout::w4) {
    for (int g = 0; g < 8; g += 4) {
      __m256i sum = _mm256_maddubs_epi16(broadcast4(x + 4 * g), _mm256_load_si256(reinterpret_cast<const __m256i*>(q + 64 * g)));
      for (int i = 1; i < 4; ++i)
        sum = _mm256_add_epi16(
            sum, _mm256_maddubs_epi16(broadcast4(x + 4 * (g + i)), _mm256_load_si256(reinterpret_cast<const __m256i*>(q + 64 * (g + i)))));
      total = _mm256_add_epi32(total, _mm256_madd_epi16(sum, _mm256_set1_epi16(1)));
    }
  } else {
    for (int g = 0; g < 8; ++g) {
      const __m256i a = broadcast4(x + 4 * g), b = _mm256_load_si256(reinterpret_cast<const __m256i*>(q + 64 * g));
      const __m256i even = _mm256_madd_epi16(_mm256_and_si256(a, _mm256_set1_epi16(255)), _mm256_srai_epi16(_mm256_slli_epi16(b, 8), 8));
      const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(a, 8), _mm256_srai_epi16(b, 8));
      total = _mm256_add_epi32(total, _mm256_add_epi32(even, odd));
    }
  }
  return total;
}

}  // namespace
}  // namespace quern::cpu

#include "backends/cpu/kernels/linear/ymm.inc"

namespace quern::cpu {

void linear_w4_avx2(const LinearJob& job) { integer_loop<WeightLayout::w4, true>(job); }
void linear_w8_avx2(const LinearJob& job) {
  job.minimum == Minimum::none ? integer_loop<WeightLayout::w8, false>(job) : integer_loop<WeightLayout::w8, true>(job);
}

}  // namespace quern::cpu
