#pragma once

// What the loops of one instruction set share with the rest: plain data only, so that no inline function compiled for a wide instruction
// set can end up in a program that runs on a narrow one.
#include <cstdint>

#include "dtypes/levels.h"

namespace quern::cpu {

/// Of the layout below, which files keep: raised with any change of it (a test knows the bytes).
constexpr int kLayoutVersion = 1;

/// How packed weights lie: tiles of 16 rows (n). Integer formats: each tile is a run of groups; a group is a header of scales and then its
/// blocks of 16 rows x 32 columns (k). Float formats: [k][16] elements, row n of the tile at column k; bf16_pairs, for products with bf16:
/// [k / 2][16][2], the columns 2k and 2k + 1 of row n side by side. All numbers are little-endian.
enum class Packing : std::uint8_t {
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  iq4_nl,
  iq4_xs,
  mxfp4,
  nvfp4,
  iq1_s,
  iq1_m,
  iq2_xxs,
  iq2_xs,
  iq3_xxs,
  iq3_s,
  ternary,
  f16,
  bf16,
  bf16_pairs,
  f32
};

/// The quants of a block, in words of 4 bytes: word (g, n) holds columns 4g … 4g+3 of row n, g < 8, n < 16; a vector is the 16 words of one
/// group of four columns. Vectors in order:
///   bits8   v[g] = word g
///   bits4   v[i] = word i | word i+4 << 4, i < 4
///   bits2   v[i] = words 4i … 4i+3, each 2 bits above the one before, i < 2
///   bits3   bits2 of the low bits, then one vector with bit g = the third bit of word g
///   bits5   bits4 of the low bits, then one vector with bit g = the fifth bit of word g
///   bits6   bits4 of the low bits, then bits2 of the two high ones
enum class Bits : std::uint8_t { bits2, bits3, bits4, bits5, bits6, bits8 };

/// The header of a group; every list has the 16 rows side by side. `parts` scales belong to a block (2: one for each 16 columns).
///   halves     f16 scale; then f16 minimum where there are minimums, or the f16 scale of the second part
///   pairs6     f16 d, f16 m; 128 six-bit scales (block by block) and 128 six-bit minimums, packed as below
///   six        f16 d; 256 six-bit scales, kept with 32 added, packed as below
///   bytes      f16 d; signed bytes, part by part
///   nibbles    f16 d, f16 m; 256 bytes: low nibble scale, high nibble minimum, part by part
///   exponents  a byte e: the scale is 2^(e-128)
/// Scale = d * number (d * unit * number, see Format), minimum = -m * number. Six-bit numbers a[0…63], b, c, e are packed into 3 x 64
/// bytes: a | (e & 3) << 6, b | (e >> 2 & 3) << 6, c | (e >> 4) << 6.
enum class ScaleKind : std::uint8_t { halves, pairs6, six, bytes, nibbles, exponents };

/// What the stored quants stand for when they are no numbers themselves: indices of 16 signed bytes.
enum class Levels : std::uint8_t { none, iq4, e2m1, iq1, iq2, iq3_xxs, iq3_s };
inline constexpr const std::int8_t* kLevels[] = {
    nullptr, dtypes::kLevelsIq4, dtypes::kLevelsE2m1, dtypes::kLevelsIq1, dtypes::kLevelsIq2, dtypes::kLevelsIq3Xxs, dtypes::kLevelsIq3S};

struct Format {
  Bits bits;
  int subtract;  // from the stored quant, to get the signed one
  Levels levels;
  ScaleKind scales;
  int parts;
  bool minimum;
  int blocks;       // a group
  int header;       // bytes
  int zero_groups;  // how many words' bytes can be added without leaving a signed byte (8, 4, 2, or 1: not even two)
  int largest;      // magnitude of a signed quant
  float unit = 1;   // d is multiplied by it first, exactly
};

// One row a packing, in its order; the floats have none.
inline constexpr Format kFormats[] = {
    {Bits::bits4, 8, Levels::none, ScaleKind::halves, 1, false, 1, 32, 8, 8},             // q4_0
    {Bits::bits4, 0, Levels::none, ScaleKind::halves, 1, true, 1, 64, 8, 15},             // q4_1
    {Bits::bits5, 16, Levels::none, ScaleKind::halves, 1, false, 1, 32, 4, 16},           // q5_0
    {Bits::bits5, 0, Levels::none, ScaleKind::halves, 1, true, 1, 64, 4, 31},             // q5_1
    {Bits::bits8, 0, Levels::none, ScaleKind::halves, 1, false, 1, 32, 1, 128},           // q8_0
    {Bits::bits2, 0, Levels::none, ScaleKind::nibbles, 2, true, 8, 320, 4, 3},            // q2_K
    {Bits::bits3, 4, Levels::none, ScaleKind::six, 2, false, 8, 224, 4, 4},               // q3_K
    {Bits::bits4, 0, Levels::none, ScaleKind::pairs6, 1, true, 8, 256, 8, 15},            // q4_K
    {Bits::bits5, 0, Levels::none, ScaleKind::pairs6, 1, true, 8, 256, 4, 31},            // q5_K
    {Bits::bits6, 32, Levels::none, ScaleKind::bytes, 2, false, 8, 288, 4, 32},           // q6_K
    {Bits::bits4, 0, Levels::iq4, ScaleKind::halves, 1, false, 1, 32, 1, 127},            // iq4_nl
    {Bits::bits4, 0, Levels::iq4, ScaleKind::bytes, 1, false, 8, 160, 1, 127},            // iq4_xs
    {Bits::bits4, 0, Levels::e2m1, ScaleKind::exponents, 1, false, 1, 16, 8, 12},         // mxfp4
    {Bits::bits4, 0, Levels::e2m1, ScaleKind::halves, 2, false, 1, 64, 4, 12},            // nvfp4
    {Bits::bits3, 0, Levels::iq1, ScaleKind::bytes, 1, false, 8, 160, 8, 9, 0.125f},      // iq1_s
    {Bits::bits3, 0, Levels::iq1, ScaleKind::bytes, 2, false, 8, 288, 4, 9, 0.125f},      // iq1_m
    {Bits::bits3, 0, Levels::iq2, ScaleKind::bytes, 1, false, 8, 160, 2, 43, 0.125f},     // iq2_xxs
    {Bits::bits3, 0, Levels::iq2, ScaleKind::bytes, 2, false, 8, 288, 2, 43, 0.125f},     // iq2_xs, iq2_s
    {Bits::bits4, 0, Levels::iq3_xxs, ScaleKind::bytes, 1, false, 8, 160, 2, 62, 0.25f},  // iq3_xxs
    {Bits::bits4, 0, Levels::iq3_s, ScaleKind::bytes, 1, false, 8, 160, 8, 15},           // iq3_s
    {Bits::bits2, 1, Levels::none, ScaleKind::bytes, 1, false, 8, 160, 8, 2},             // tq1_0, tq2_0
};
inline constexpr int kFormatCount = sizeof(kFormats) / sizeof(kFormats[0]);

constexpr int kTileRows = 16;
constexpr int kBlockColumns = 32;
constexpr int kMaxGroupBlocks = 8;
constexpr int kA8Bytes = 48, kA8Sum = 4, kA8LowSum = 8, kA8Zero = 12, kA8Quants = 16;  // offsets in dtypes::A8Block

// A table and not a function: see above.
inline constexpr int kQuantBytes[] = {128, 192, 256, 320, 384, 512};  // of a block, by Bits

/// One block of 16 rows made ready for products with many rows of activations, whatever the format: quants as bits8, signed, and the
/// numbers of each part as 16 words, the parts one after the other.
///   zeros     minus the sum of a part's quants: as 4 signed bytes that add up to it (kZeroBytes), or as i32; f32 on 256-bit vectors
///   quants    512 bytes
///   scales, minimums  f32
struct Panel {
  int zeros, quants, scales, minimums, bytes;
};
inline constexpr Panel kPanels[] = {{}, {0, 64, 576, 640, 704}, {0, 128, 640, 768, 896}};  // by parts
constexpr int kMaxPanelBytes = 896;

// How far ahead of its use packed weights are asked for when each is used once: the hardware's own prefetch stops at every page of 4 KiB.
constexpr int kPrefetchBytes = 2048;

// How much of the weights is unpacked at once: so many whole tiles; on the tile unit, more tiles by fewer blocks.
constexpr int kScratchTiles = 2;
constexpr int kTileUnitRows = 16, kTileUnitTiles = 16, kTileUnitBlocks = 24, kTileUnitXBytes = 64;
constexpr int kTileUnitScratch = kTileUnitBlocks * (kTileUnitTiles * kMaxPanelBytes + kTileUnitRows * kTileUnitXBytes);
constexpr int kTileUnitColumns = 512;                                           // of bf16
constexpr int kTileUnitBf16Scratch = 2 * kTileUnitRows * kTileUnitColumns * 2;  // two blocks of rows

/// Products of rows [row_begin, row_end) of x with tiles [tile_begin, tile_end) of w.
struct LinearJob {
  const std::uint8_t* weights;
  Packing packing;
  std::int64_t tile_bytes;
  std::int64_t n, k;
  const std::uint8_t* x;  // a8 rows of k/32 blocks, or bf16 or f32 rows of k
  std::int64_t x_stride;  // bytes from row to row
  float* y;
  std::int64_t y_stride;  // floats from row to row
  std::int64_t row_begin, row_end, tile_begin, tile_end;
  std::uint8_t* scratch;  // max(kScratchTiles * k/32 * kMaxPanelBytes, kTileUnitScratch) bytes, aligned to 64; unused by float packings
};

/// The loops of one instruction set. Each element of y is summed in one order that depends on nothing but k:
///   integer: s = 0; for each part p of each block: s = fma(minimum, x.sum of p, s); s = fma(x.scale * float(exact integer dot), scale, s)
///   float:   s = 0; for each column: s = fma(x, w, s)
///   bf16:    as the machine's own instruction adds pairs, in their order
using LinearLoop = void (*)(const LinearJob&);
using QuantizeLoop = void (*)(const float* x, std::uint8_t* y, std::int64_t blocks);

void linear_integer_portable(const LinearJob&);
void linear_integer_avx2(const LinearJob&);
void linear_integer_avxvnni(const LinearJob&);
void linear_integer_avx512vnni(const LinearJob&);
void linear_integer_amx(const LinearJob&);
void linear_integer_neon(const LinearJob&);
void linear_integer_neondot(const LinearJob&);
void linear_integer_i8mm(const LinearJob&);
void linear_bf16_avx512bf16(const LinearJob&);
void linear_bf16_amx(const LinearJob&);
void linear_float_portable(const LinearJob&);
void linear_float_avx2(const LinearJob&);
void linear_float_avx512(const LinearJob&);
void linear_float_neon(const LinearJob&);
void quantize_a8_portable(const float* x, std::uint8_t* y, std::int64_t blocks);
void quantize_a8_avx2(const float* x, std::uint8_t* y, std::int64_t blocks);
void quantize_a8_avx512(const float* x, std::uint8_t* y, std::int64_t blocks);
void quantize_a8_neon(const float* x, std::uint8_t* y, std::int64_t blocks);

}  // namespace quern::cpu
