// Which loops run on which instruction set, and how a product is divided.
#include "backends/cpu/kernels/linear/linear.h"

#include <algorithm>

namespace quern::cpu {
namespace {

// Narrowest first. AVX-512 without VNNI takes the 256-bit integer loops.
constexpr LinearLoops kLoops[] = {
    {Isa::baseline, "baseline", linear_integer_portable, nullptr, linear_float_portable, quantize_a8_portable, 20, 150},
#if defined(__x86_64__)
    {Isa::avx2, "avx2", linear_integer_avx2, nullptr, linear_float_avx2, quantize_a8_avx2, 12, 10},
    {Isa::avxvnni, "avxvnni", linear_integer_avxvnni, nullptr, linear_float_avx2, quantize_a8_avx2, 12, 6},
    {Isa::avx512, "avx512", linear_integer_avx2, nullptr, linear_float_avx512, quantize_a8_avx512, 12, 10},
    {Isa::avx512vnni, "avx512vnni", linear_integer_avx512vnni, nullptr, linear_float_avx512, quantize_a8_avx512, 8, 2.2f},
    {Isa::avx512bf16, "avx512bf16", linear_integer_avx512vnni, linear_bf16_avx512bf16, linear_float_avx512, quantize_a8_avx512, 8, 2.2f},
    {Isa::amx, "amx", linear_integer_amx, linear_bf16_amx, linear_float_avx512, quantize_a8_avx512, 8, 1},
#elif defined(__aarch64__)  // costs by counting instructions: not measured yet
    {Isa::neon, "neon", linear_integer_neon, nullptr, linear_float_neon, quantize_a8_neon, 16, 40},
    {Isa::neondot, "neondot", linear_integer_neondot, nullptr, linear_float_neon, quantize_a8_neon, 16, 8},
    {Isa::i8mm, "i8mm", linear_integer_i8mm, nullptr, linear_float_neon, quantize_a8_neon, 16, 5},
#endif
};

constexpr std::int64_t kActivationBytes = 512 << 10;  // half of the second-level cache of today's servers (1 to 2 MiB)

/// Bytes of one row of x.
std::int64_t x_row_bytes(const PackedWeights& w) { return w.k() / ir::block_elements(w.x_type()) * ir::block_bytes(w.x_type()); }

/// What the loops need; behind it lies a tile of unpacked() weights.
std::int64_t loop_scratch_bytes(const PackedWeights& w) {
  if (w.x_type() == ir::DType::f32) return 0;
  if (w.x_type() == ir::DType::bf16) return kTileUnitBf16Scratch;
  return std::max<std::int64_t>(kScratchTiles * (w.k() / kBlockColumns) * kMaxPanelBytes, kTileUnitScratch);
}

}  // namespace

std::span<const LinearLoops> all_linear_loops() { return kLoops; }

const LinearLoops& linear_loops() {
  for (const LinearLoops& loops : kLoops)
    if (loops.isa == best_isa()) return loops;
  return kLoops[0];
}

ir::DType best_activations(ir::DType weights, std::int64_t k) {
  for (const ir::DType x : {ir::DType::a8, ir::DType::bf16})
    if (PackedWeights::can_pack(x, weights, k)) return x;
  return ir::DType::f32;
}

LinearUnits linear_units(std::span<const PackedWeights> weights, std::int64_t m) {
  const std::int64_t row_bytes = x_row_bytes(weights[0]);
  // bf16 weights are many bytes to fetch again for every row block.
  const std::int64_t least = weights[0].x_type() == ir::DType::bf16 ? 256 : 64;
  const std::int64_t fit = std::max<std::int64_t>(least, kActivationBytes / std::max<std::int64_t>(row_bytes, 1));
  const std::int64_t blocks = std::max<std::int64_t>(1, (m + fit - 1) / fit);
  const std::int64_t rows = std::max<std::int64_t>(1, ((m + blocks - 1) / blocks + 31) / 32 * 32);  // even shares of whole register tiles
  std::int64_t tiles = 0;
  for (const PackedWeights& w : weights) tiles += w.tiles();
  return {rows, (m + rows - 1) / rows, tiles};
}

double linear_unit_nanoseconds(const LinearLoops& loops, const PackedWeights& w, std::int64_t rows) {
  const double blocks = double(w.k()) / kBlockColumns, slower = w.x_type() == ir::DType::f32 ? 8 : w.x_type() == ir::DType::bf16 ? 4 : 1;
  return 20 + slower * blocks * (double(loops.block_nanoseconds) + double(loops.row_nanoseconds) * double(rows));
}

std::int64_t linear_scratch_bytes(const PackedWeights& w) { return loop_scratch_bytes(w) + (w.data() == nullptr ? w.tile_bytes() : 0); }

void linear_tiles(const LinearLoops& loops, const PackedWeights& w, const std::byte* x, std::int64_t rows, std::int64_t tile_begin,
                  std::int64_t tile_end, float* y, std::int64_t y_stride, std::byte* scratch) noexcept {
  const LinearLoop loop = w.x_type() == ir::DType::a8 ? loops.integer : w.x_type() == ir::DType::bf16 ? loops.bf16 : loops.floating;
  LinearJob job{};
  job.packing = w.packing();
  job.tile_bytes = w.tile_bytes();
  job.k = w.k();
  job.x = reinterpret_cast<const std::uint8_t*>(x);
  job.x_stride = x_row_bytes(w);
  job.y_stride = y_stride;
  job.row_end = rows;
  job.scratch = reinterpret_cast<std::uint8_t*>(scratch);
  const auto run = [&](const std::uint8_t* tiles, std::int64_t begin, std::int64_t end) {
    job.weights = tiles;
    job.n = std::min(w.n(), end * kTileRows) - begin * kTileRows;
    job.y = y + (begin - tile_begin) * kTileRows;
    job.tile_end = end - begin;
    loop(job);
  };
  if (w.data() != nullptr) {
    run(w.data() + tile_begin * w.tile_bytes(), tile_begin, tile_end);
    return;
  }
  std::uint8_t* tile_memory = job.scratch + loop_scratch_bytes(w);
  for (std::int64_t tile = tile_begin; tile < tile_end; ++tile) {
    w.pack_tile(tile, tile_memory);
    run(tile_memory, tile, tile + 1);
  }
}

void linear_run(const LinearLoops& loops, std::span<const PackedWeights> weights, const std::byte* x, std::int64_t m, float* const* y,
                std::int64_t begin, std::int64_t end, std::byte* scratch) noexcept {
  const LinearUnits units = linear_units(weights, m);
  while (begin < end) {  // one row block after the other, in each one weight after the other
    const std::int64_t block = begin / units.tiles, next = std::min(end, (block + 1) * units.tiles);
    const std::int64_t row = block * units.rows_per_block, rows = std::min(m - row, units.rows_per_block);
    std::int64_t first = block * units.tiles;  // the unit of the weight's first tile
    for (std::size_t i = 0; i < weights.size(); first += weights[i++].tiles()) {
      const PackedWeights& w = weights[i];
      const std::int64_t tile_begin = std::max<std::int64_t>(begin - first, 0), tile_end = std::min(next - first, w.tiles());
      if (tile_begin < tile_end)
        linear_tiles(loops, w, x + row * x_row_bytes(w), rows, tile_begin, tile_end, y[i] + row * w.n() + tile_begin * kTileRows, w.n(),
                     scratch);
    }
    begin = next;
  }
}

}  // namespace quern::cpu
