#pragma once

// What the loops of one instruction set share with the rest: plain data only, so that no inline function compiled for a wide instruction
// set can end up in a program that runs on a narrow one.
#include <cstdint>

namespace quern::cpu {

/// How packed weights lie: tiles of 16 rows (n), each tile a run of blocks of 32 columns (k). All numbers are little-endian.
///   w4   256 bytes: byte (g*64 + n*4 + j), g < 4: low nibble is column 4g + j, high nibble column 16 + 4g + j of row n; unsigned 0 … 15
///   w8   512 bytes: byte (g*64 + n*4 + j), g < 8: column 4g + j of row n; signed
///   both then 16 f16 scales, and 16 f16 minimums where the format has them: value = scale * q + minimum
///   f32  [k][16] floats: row n of the tile at column k
enum class WeightLayout : std::uint8_t { w4, w8, f32 };

/// Where a block's minimum comes from: there is none, it is stored, or it is -8 times the scale (q4_0).
enum class Minimum : std::uint8_t { none, stored, minus_8_scales };

constexpr int kTileRows = 16;
constexpr int kBlockColumns = 32;
constexpr int kA8Bytes = 44, kA8Sum = 4, kA8Zero = 8, kA8Quants = 12;  // offsets in dtypes::A8Block

/// One block of 16 rows made ready for products with many rows of activations: w4 and w8 alike, as signed bytes with f32 scales.
///   0    64 bytes: w4: for each row 4 signed bytes whose sum is -(sum of its q); w8: that number as i32
///   64   512 bytes: q as in w8
///   576  16 f32 scales, then 16 f32 minimums
constexpr int kPanelZero = 0, kPanelQuants = 64, kPanelScales = 576, kPanelMinimums = 640, kPanelBytes = 704;

// How far ahead of its use packed weights are asked for when each is used once: the hardware's own prefetch stops at every page of 4 KiB.
constexpr int kPrefetchBytes = 2048;

constexpr int kScratchTiles = 2;  // how many tiles are unpacked at once

/// Products of rows [row_begin, row_end) of x with tiles [tile_begin, tile_end) of w.
struct LinearJob {
  const std::uint8_t* weights;
  WeightLayout layout;
  Minimum minimum;
  std::int64_t block_bytes;  // of a tile; unused for f32
  std::int64_t n, k;
  const std::uint8_t* x;  // a8 rows of k/32 blocks, or f32 rows of k
  std::int64_t x_stride;  // bytes from row to row
  float* y;
  std::int64_t y_stride;  // floats from row to row
  std::int64_t row_begin, row_end, tile_begin, tile_end;
  std::uint8_t* scratch;  // kScratchTiles * k/32 * kPanelBytes bytes, aligned to 64
};

/// The loops of one instruction set. Each element of y is summed in one order that depends on nothing but k:
///   integer: s = 0; for each block b: s = fma(minimum, x.sum, s); s = fma(x.scale * float(exact integer dot), scale, s)
///   float:   s = 0; for each column: s = fma(x, w, s)
using LinearLoop = void (*)(const LinearJob&);
using QuantizeLoop = void (*)(const float* x, std::uint8_t* y, std::int64_t blocks);

#define QUERN_LINEAR_LOOPS(isa)           \
  void linear_w4_##isa(const LinearJob&); \
  void linear_w8_##isa(const LinearJob&);
QUERN_LINEAR_LOOPS(portable)
QUERN_LINEAR_LOOPS(avx2)
QUERN_LINEAR_LOOPS(avxvnni)
QUERN_LINEAR_LOOPS(avx512vnni)
QUERN_LINEAR_LOOPS(amx)
#undef QUERN_LINEAR_LOOPS
void linear_f32_portable(const LinearJob&);
void linear_f32_avx2(const LinearJob&);
void linear_f32_avx512(const LinearJob&);
void quantize_a8_portable(const float* x, std::uint8_t* y, std::int64_t blocks);
void quantize_a8_avx2(const float* x, std::uint8_t* y, std::int64_t blocks);

}  // namespace quern::cpu
