#include <immintrin.h>

#include "backends/cpu/kernels/linear/job.h"
#include "backends/cpu/kernels/linear/zmm.inc"

namespace quern::cpu {
namespace {

constexpr std::int64_t kPanelRows =
    17;  // from so many rows on, unpacking the tile once to memory costs less than once for every eight rows

template <WeightLayout kLayout, bool kMinimum>
void loop(const LinearJob& job) {
  const std::int64_t blocks = job.k / kBlockColumns, tile_bytes = blocks * job.block_bytes;
  const std::uint8_t* w = job.weights + job.tile_begin * tile_bytes;
  std::int64_t tile = job.tile_begin;
  if (job.row_end - job.row_begin < kPanelRows) {
    for (; tile < job.tile_end; ++tile, w += tile_bytes) some_rows<kLayout, kMinimum, false, 1>(job, w, tile, job.row_begin, job.row_end);
    return;
  }
  for (; tile + 2 <= job.tile_end; tile += 2, w += 2 * tile_bytes) {
    make_panel<kLayout>(job, w, job.scratch);
    make_panel<kLayout>(job, w + tile_bytes, job.scratch + blocks * kPanelBytes);
    some_rows<kLayout, kMinimum, true, 2>(job, job.scratch, tile, job.row_begin, job.row_end);
  }
  if (tile < job.tile_end) {
    make_panel<kLayout>(job, w, job.scratch);
    some_rows<kLayout, kMinimum, true, 1>(job, job.scratch, tile, job.row_begin, job.row_end);
  }
}

}  // namespace

void linear_w4_avx512vnni(const LinearJob& job) { loop<WeightLayout::w4, true>(job); }

void linear_w8_avx512vnni(const LinearJob& job) {
  job.minimum == Minimum::none ? loop<WeightLayout::w8, false>(job) : loop<WeightLayout::w8, true>(job);
}

}  // namespace quern::cpu
