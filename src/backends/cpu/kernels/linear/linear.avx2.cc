#include <immintrin.h>

#include "backends/cpu/kernels/linear/job.h"

namespace quern::cpu {
namespace {

inline __m256i broadcast4(const std::uint8_t* p) {
  std::int32_t bits;
  __builtin_memcpy(&bits, p, 4);
  return _mm256_set1_epi32(bits);
}

// Small quants: sums of pairs are at most 2 * 255 * 32, so two of them fit 16 bits. Others do not even alone: bytes are widened first.
template <int kGroups, bool kSmall>
inline __attribute__((always_inline)) __m256i dot(const std::uint8_t* x, const std::uint8_t* q) {
  const auto load = [q](int g) __attribute__((always_inline)) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(q + 64 * g)); };
  __m256i total = _mm256_setzero_si256();
  for (int g = 0; g < kGroups; g += 2) {
    if (kSmall) {
      const __m256i sum = _mm256_add_epi16(_mm256_maddubs_epi16(broadcast4(x + 4 * g), load(g)),
                                           _mm256_maddubs_epi16(broadcast4(x + 4 * g + 4), load(g + 1)));
      total = _mm256_add_epi32(total, _mm256_madd_epi16(sum, _mm256_set1_epi16(1)));
      continue;
    }
    for (int i = g; i < g + 2; ++i) {
      const __m256i a = broadcast4(x + 4 * i), b = load(i);
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

void linear_integer_avx2(const LinearJob& job) { all_formats(job); }

}  // namespace quern::cpu
