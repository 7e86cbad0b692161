#include <immintrin.h>

#include "backends/cpu/kernels/linear/job.h"

namespace quern::cpu {
namespace {

struct Halves {
  __m256i of[2];
};

template <int kGroups, int kFit>
inline __attribute__((always_inline)) Halves dot(const std::uint8_t* x, const std::uint8_t* q) {
  Halves total = {{_mm256_setzero_si256(), _mm256_setzero_si256()}};
  for (int g = 0; g < kGroups; ++g) {
    std::int32_t bits;
    __builtin_memcpy(&bits, x + 4 * g, 4);
    const __m256i four = _mm256_set1_epi32(bits);
    for (int half = 0; half < 2; ++half)
      total.of[half] =
          _mm256_dpbusd_avx_epi32(total.of[half], four, _mm256_load_si256(reinterpret_cast<const __m256i*>(q + 64 * g + 32 * half)));
  }
  return total;
}

}  // namespace
}  // namespace quern::cpu

#include "backends/cpu/kernels/linear/ymm.inc"

namespace quern::cpu {

void linear_integer_avxvnni(const LinearJob& job) { all_formats(job); }

}  // namespace quern::cpu
