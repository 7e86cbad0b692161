#include <immintrin.h>

#include "backends/cpu/kernels/linear/job.h"

namespace quern::cpu {
namespace {

template <int kGroups, bool kSmall>
inline __attribute__((always_inline)) __m256i dot(const std::uint8_t* x, const std::uint8_t* q) {
  __m256i total = _mm256_setzero_si256();
  for (int g = 0; g < kGroups; ++g) {
    std::int32_t bits;
    __builtin_memcpy(&bits, x + 4 * g, 4);
    total = _mm256_dpbusd_avx_epi32(total, _mm256_set1_epi32(bits), _mm256_load_si256(reinterpret_cast<const __m256i*>(q + 64 * g)));
  }
  return total;
}

}  // namespace
}  // namespace quern::cpu

#include "backends/cpu/kernels/linear/ymm.inc"

namespace quern::cpu {

void linear_integer_avxvnni(const LinearJob& job) { all_formats(job); }

}  // namespace quern::cpu
