#include <immintrin.h>

#include "backends/cpu/kernels/linear/job.h"
#include "backends/cpu/kernels/linear/zmm.inc"

namespace quern::cpu {
namespace {

constexpr std::int64_t kPanelRows =
    17;  // from so many rows on, unpacking the tile once to memory costs less than once for every eight rows

template <WeightLayout kLayout, bool kMinimum>
void loop(const LinearJob& job) {
  const std::int64_t tile_bytes = job.k / kBlockColumns * job.block_bytes;
  for (std::int64_t tile = job.tile_begin; tile < job.tile_end; ++tile) {
    const std::uint8_t* w = job.weights + tile * tile_bytes;
    if (job.row_end - job.row_begin >= kPanelRows) {
      make_panel<kLayout>(job, w);
      some_rows<kLayout, kMinimum, true>(job, job.scratch, tile, job.row_begin, job.row_end);
    } else {
      some_rows<kLayout, kMinimum, false>(job, w, tile, job.row_begin, job.row_end);
    }
  }
}

}  // namespace

void linear_w4_avx512vnni(const LinearJob& job) { loop<WeightLayout::w4, true>(job); }

void linear_w8_avx512vnni(const LinearJob& job) {
  job.minimum == Minimum::none ? loop<WeightLayout::w8, false>(job) : loop<WeightLayout::w8, true>(job);
}

}  // namespace quern::cpu
