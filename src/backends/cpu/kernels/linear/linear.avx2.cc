#include <immintrin.h>

#include "backends/cpu/kernels/linear/job.h"

namespace quern::cpu {
namespace {

struct Halves {
  __m256i of[2];
};

inline __m256i broadcast4(const std::uint8_t* p) {
  std::int32_t bits;
  __builtin_memcpy(&bits, p, 4);
  return _mm256_set1_epi32(bits);
}

// Sums of pairs are at most 2 * 255 * |q|, so that kFit of them fit 16 bits; none: bytes are widened first.
template <int kGroups, int kFit>
inline __attribute__((always_inline)) Halves dot(const std::uint8_t* x, const std::uint8_t* q) {
  const auto load = [q](int g, int half) __attribute__((always_inline)) {
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(q + 64 * g + 32 * half));
  };
  Halves total = {{_mm256_setzero_si256(), _mm256_setzero_si256()}};
  if constexpr (kFit > 0) {
    for (int first = 0; first < kGroups; first += kFit) {
      __m256i sum[2];
      for (int g = first; g < first + kFit; ++g) {
        const __m256i four = broadcast4(x + 4 * g);
        for (int half = 0; half < 2; ++half) {
          const __m256i pairs = _mm256_maddubs_epi16(four, load(g, half));
          sum[half] = g == first ? pairs : _mm256_add_epi16(sum[half], pairs);
        }
      }
      for (int half = 0; half < 2; ++half)
        total.of[half] = _mm256_add_epi32(total.of[half], _mm256_madd_epi16(sum[half], _mm256_set1_epi16(1)));
    }
  } else {
    for (int g = 0; g < kGroups; ++g) {
      const __m256i four = broadcast4(x + 4 * g);
      const __m256i even = _mm256_and_si256(four, _mm256_set1_epi16(255)), odd = _mm256_srli_epi16(four, 8);
      for (int half = 0; half < 2; ++half) {
        const __m256i b = load(g, half);
        total.of[half] =
            _mm256_add_epi32(total.of[half], _mm256_add_epi32(_mm256_madd_epi16(even, _mm256_srai_epi16(_mm256_slli_epi16(b, 8), 8)),
                                                              _mm256_madd_epi16(odd, _mm256_srai_epi16(b, 8))));
      }
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
