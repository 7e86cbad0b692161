// Which loops run on which instruction set, and how a product is divided.
#include "backends/cpu/kernels/linear/linear.h"

#include <algorithm>

namespace quern::cpu {
namespace {

// Narrowest first. AVX-512 without VNNI takes the 256-bit integer loops.
constexpr LinearLoops kLoops[] = {
    {Isa::baseline, "baseline", linear_w4_portable, linear_w8_portable, linear_f32_portable, quantize_a8_portable, 20, 150},
#if defined(__x86_64__)
    {Isa::avx2, "avx2", linear_w4_avx2, linear_w8_avx2, linear_f32_avx2, quantize_a8_avx2, 12, 10},
    {Isa::avxvnni, "avxvnni", linear_w4_avxvnni, linear_w8_avxvnni, linear_f32_avx2, quantize_a8_avx2, 12, 6},
    {Isa::avx512, "avx512", linear_w4_avx2, linear_w8_avx2, linear_f32_avx512, quantize_a8_avx2, 12, 10},
    {Isa::avx512vnni, "avx512vnni", linear_w4_avx512vnni, linear_w8_avx512vnni, linear_f32_avx512, quantize_a8_avx2, 8, 2.2f},
    {Isa::amx, "amx", linear_w4_amx, linear_w8_amx, linear_f32_avx512, quantize_a8_avx2, 8, 1},
#endif
};

constexpr std::int64_t kActivationBytes = 512 << 10;  // half of the second-level cache of today's servers (1 to 2 MiB)

}  // namespace

std::span<const LinearLoops> all_linear_loops() { return kLoops; }

const LinearLoops& linear_loops() {
  for (const LinearLoops& loops : kLoops)
    if (loops.isa == best_isa()) return loops;
  return kLoops[0];
}

LinearUnits linear_units(const PackedWeights& w, std::int64_t m) {
  const std::int64_t row_bytes = w.layout() == WeightLayout::f32 ? w.k() * std::int64_t(sizeof(float)) : w.k() / kBlockColumns * kA8Bytes;
  const std::int64_t fit = std::max<std::int64_t>(64, kActivationBytes / std::max<std::int64_t>(row_bytes, 1));
  const std::int64_t blocks = std::max<std::int64_t>(1, (m + fit - 1) / fit);
  const std::int64_t rows = std::max<std::int64_t>(1, ((m + blocks - 1) / blocks + 31) / 32 * 32);  // even shares of whole register tiles
  return {rows, (m + rows - 1) / rows, w.tiles()};
}

double linear_unit_nanoseconds(const LinearLoops& loops, const PackedWeights& w, std::int64_t rows) {
  const double blocks = double(w.k()) / kBlockColumns, slower = w.layout() == WeightLayout::f32 ? 8 : 1;
  return 20 + slower * blocks * (double(loops.block_nanoseconds) + double(loops.row_nanoseconds) * double(rows));
}

std::int64_t linear_scratch_bytes(const PackedWeights& w) {
  return w.layout() == WeightLayout::f32 ? 0 : kScratchTiles * (w.k() / kBlockColumns) * kPanelBytes;
}

void linear_run(const LinearLoops& loops, const PackedWeights& w, const std::byte* x, std::int64_t m, float* y, std::int64_t begin,
                std::int64_t end, std::byte* scratch) noexcept {
  const LinearUnits units = linear_units(w, m);
  const LinearLoop loop = w.layout() == WeightLayout::w4 ? loops.w4 : w.layout() == WeightLayout::w8 ? loops.w8 : loops.f32;
  LinearJob job{};
  job.weights = w.data();
  job.layout = w.layout();
  job.minimum = w.minimum();
  job.block_bytes = w.block_bytes();
  job.n = w.n();
  job.k = w.k();
  job.x = reinterpret_cast<const std::uint8_t*>(x);
  job.x_stride = w.layout() == WeightLayout::f32 ? w.k() * std::int64_t(sizeof(float)) : w.k() / kBlockColumns * kA8Bytes;
  job.y = y;
  job.y_stride = w.n();
  job.scratch = reinterpret_cast<std::uint8_t*>(scratch);
  while (begin < end) {  // one row block after the other
    const std::int64_t block = begin / units.tiles, next = std::min(end, (block + 1) * units.tiles);
    job.row_begin = block * units.rows_per_block;
    job.row_end = std::min(m, job.row_begin + units.rows_per_block);
    job.tile_begin = begin - block * units.tiles;
    job.tile_end = next - block * units.tiles;
    loop(job);
    begin = next;
  }
}

}  // namespace quern::cpu
