#include <immintrin.h>

#include "backends/cpu/kernels/linear/job.h"

namespace quern::cpu {
namespace {

inline __m256i broadcast4(const std::uint8_t* p) {
  std::int32_t bits;
  __builtin_memcpy(&bits, p, 4);
  return _mm256_set1_epi32(bits);
}

template <int kFit>
constexpr bool kPrepared = false;

template <int kFit>
void prepare(const std::uint8_t*, std::uint8_t*) {}

constexpr int kHalves = 2;

template <int kGroups, int kFit>
inline __attribute__((always_inline)) void dot(const std::uint8_t* x, const __m256i (&q)[kGroups][kHalves], __m256i (&sums)[kHalves]) {
  sums[0] = sums[1] = _mm256_setzero_si256();
#pragma GCC unroll 8
  for (int g = 0; g < kGroups; ++g) {
    const __m256i four = broadcast4(x + 4 * g);
    for (int half = 0; half < kHalves; ++half) sums[half] = _mm256_dpbusd_avx_epi32(sums[half], four, q[g][half]);
  }
}

}  // namespace
}  // namespace quern::cpu

#include "backends/cpu/kernels/linear/ymm.inc"

namespace quern::cpu {

void linear_integer_avxvnni(const LinearJob& job) { all_formats(job); }

}  // namespace quern::cpu
