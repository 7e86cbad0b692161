// Weights of a file into tiles, and back.
#include <algorithm>
#include <cstring>
#include <string>

#include "backends/cpu/kernels/linear/block.h"
#include "backends/cpu/kernels/linear/linear.h"
#include "backends/cpu/kernels/linear/weight_memory.h"
#include "base/error.h"
#include "base/float16.h"
#include "base/unaligned.h"
#include "dtypes/dequantize.h"

namespace quern::cpu {
namespace {

constexpr int kGroupColumns = kMaxGroupBlocks * kBlockColumns;

/// One group of a tile, taken out of the file's blocks: stored quants, and the numbers of the header (job.h says which kind uses which).
struct Group {
  std::uint8_t q[kTileRows][kGroupColumns];
  std::uint16_t d[kTileRows], m[kTileRows];
  std::uint8_t s[kTileRows * kTileRows];  // number i of row n at i * 16 + n
};

void nibbles(const std::uint8_t* p, std::uint8_t* q, int count = 16) {
  for (int i = 0; i < count; ++i) {
    q[i] = p[i] & 15;
    q[i + count] = p[i] >> 4;
  }
}

/// Sets bit `position` of 32 quants.
void add_bits(std::uint32_t bits, int position, std::uint8_t* q) {
  for (int byte = 0; byte < 4; ++byte) {
    // The byte in all eight places, of which each keeps its own bit.
    std::uint64_t spread = ((bits >> (8 * byte)) & 255) * 0x0101010101010101u & 0x8040201008040201u;
    spread += 0x7f7f7f7f7f7f7f7fu;  // now the highest bit of a place is the bit that it kept
    spread = ((spread >> 7) & 0x0101010101010101u) << position | load<std::uint64_t>(q + 8 * byte);
    std::memcpy(q + 8 * byte, &spread, 8);
  }
}

/// q[i] |= (bits `from` … `from` + width - 1 of p[i]) << position, for `count` quants (a multiple of 8), eight at a time.
void add_planes(const std::uint8_t* p, int from, int width, int position, std::uint8_t* q, int count = 32) {
  const std::uint64_t mask = ((1u << width) - 1) * 0x0101010101010101u;
  for (int i = 0; i < count; i += 8) {
    const std::uint64_t all = ((load<std::uint64_t>(p + i) >> from) & mask) << position | load<std::uint64_t>(q + i);
    std::memcpy(q + i, &all, 8);
  }
}

// The functions below take what one row has of a group; src is the file's block (see dtypes for what its bytes mean).
void take_q4_0(const std::uint8_t* src, int row, Group& g) {
  g.d[row] = load<std::uint16_t>(src);
  nibbles(src + 2, g.q[row]);
}
void take_q4_1(const std::uint8_t* src, int row, Group& g) {
  g.d[row] = load<std::uint16_t>(src);
  g.m[row] = load<std::uint16_t>(src + 2);
  nibbles(src + 4, g.q[row]);
}
void take_q5_0(const std::uint8_t* src, int row, Group& g) {
  g.d[row] = load<std::uint16_t>(src);
  nibbles(src + 6, g.q[row]);
  add_bits(load<std::uint32_t>(src + 2), 4, g.q[row]);
}
void take_q5_1(const std::uint8_t* src, int row, Group& g) {
  g.d[row] = load<std::uint16_t>(src);
  g.m[row] = load<std::uint16_t>(src + 2);
  nibbles(src + 8, g.q[row]);
  add_bits(load<std::uint32_t>(src + 4), 4, g.q[row]);
}
void take_q8_0(const std::uint8_t* src, int row, Group& g) {
  g.d[row] = load<std::uint16_t>(src);
  std::memcpy(g.q[row], src + 2, 32);
}
void take_q2_k(const std::uint8_t* src, int row, Group& g) {
  g.d[row] = load<std::uint16_t>(src + 80);
  g.m[row] = load<std::uint16_t>(src + 82);
  for (int i = 0; i < 16; ++i) g.s[i * kTileRows + row] = src[i];
  std::memset(g.q[row], 0, 256);
  for (int i = 0; i < 8; ++i) add_planes(src + 16 + i / 4 * 32, i % 4 * 2, 2, 0, g.q[row] + 32 * i);
}
void take_q3_k(const std::uint8_t* src, int row, Group& g) {
  g.d[row] = load<std::uint16_t>(src + 108);
  const std::uint8_t* s = src + 96;
  for (int i = 0; i < 16; ++i) {
    const int low = i < 8 ? s[i] & 15 : s[i - 8] >> 4, high = (s[8 + i % 4] >> (2 * (i / 4))) & 3;
    g.s[i * kTileRows + row] = static_cast<std::uint8_t>(low | high << 4);
  }
  std::memset(g.q[row], 0, 256);
  for (int i = 0; i < 8; ++i) {
    add_planes(src + 32 + i / 4 * 32, i % 4 * 2, 2, 0, g.q[row] + 32 * i);
    add_planes(src, i, 1, 2, g.q[row] + 32 * i);
  }
}
void take_pairs6(const std::uint8_t* src, int row, Group& g) {
  g.d[row] = load<std::uint16_t>(src);
  g.m[row] = load<std::uint16_t>(src + 2);
  const std::uint8_t* s = src + 4;
  for (int i = 0; i < 8; ++i) {
    g.s[i * kTileRows + row] = static_cast<std::uint8_t>(i < 4 ? s[i] & 63 : (s[i + 4] & 15) | (s[i - 4] >> 6) << 4);
    g.s[(8 + i) * kTileRows + row] = static_cast<std::uint8_t>(i < 4 ? s[i + 4] & 63 : s[i + 4] >> 4 | (s[i] >> 6) << 4);
  }
}
void take_q4_k(const std::uint8_t* src, int row, Group& g) {
  take_pairs6(src, row, g);
  for (int i = 0; i < 4; ++i) nibbles(src + 16 + 32 * i, g.q[row] + 64 * i, 32);
}
void take_q5_k(const std::uint8_t* src, int row, Group& g) {
  take_pairs6(src, row, g);
  for (int i = 0; i < 4; ++i) nibbles(src + 48 + 32 * i, g.q[row] + 64 * i, 32);
  for (int i = 0; i < 8; ++i) add_planes(src + 16, i, 1, 4, g.q[row] + 32 * i);
}
void take_q6_k(const std::uint8_t* src, int row, Group& g) {
  g.d[row] = load<std::uint16_t>(src + 208);
  for (int i = 0; i < 16; ++i) g.s[i * kTileRows + row] = src[192 + i];
  for (int half = 0; half < 2; ++half) {
    std::uint8_t* q = g.q[row] + 128 * half;
    nibbles(src + 64 * half, q, 64);
    for (int i = 0; i < 4; ++i) add_planes(src + 128 + 32 * half, 2 * i, 2, 4, q + 32 * i);
  }
}
void take_iq4_xs(const std::uint8_t* src, int row, Group& g) {
  g.d[row] = load<std::uint16_t>(src);
  const int high = load<std::uint16_t>(src + 2);
  for (int i = 0; i < 8; ++i) {
    const int low = (src[4 + i / 2] >> (4 * (i % 2))) & 15;
    g.s[i * kTileRows + row] = static_cast<std::uint8_t>((low | ((high >> (2 * i)) & 3) << 4) - 32);
    nibbles(src + 8 + 16 * i, g.q[row] + 32 * i);
  }
}
void take_mxfp4(const std::uint8_t* src, int row, Group& g) {
  g.s[row] = src[0];
  nibbles(src + 1, g.q[row]);
}
/// The scales of nvfp4 (E4M3) as exact halves, divided by two (levels are kept doubled).
struct HalvesOfE4m3 {
  std::uint16_t of[256];
  HalvesOfE4m3() {
    for (int byte = 0; byte < 256; ++byte) {
      float ones[64];
      std::uint8_t block[36] = {};
      block[0] = static_cast<std::uint8_t>(byte);
      std::memset(block + 4, 0x11, 8);  // levels of one half: the elements are half the doubled level's scale
      dtypes::dequantize(ir::DType::nvfp4, reinterpret_cast<const std::byte*>(block), ones, 64);
      of[byte] = f32_to_f16(ones[0]);
    }
  }
};

/// Half a block of the file, two parts.
void take_nvfp4(const std::uint8_t* scales, const std::uint8_t* src, int row, Group& g) {
  static const HalvesOfE4m3 halves;
  g.d[row] = halves.of[scales[0]];
  g.m[row] = halves.of[scales[1]];
  for (int part = 0; part < 2; ++part) nibbles(src + 8 * part, g.q[row] + 16 * part, 8);
}

int nibble(const std::uint8_t* bytes, int i) { return (bytes[i / 2] >> (4 * (i % 2))) & 15; }

/// The number of part i of a block of a grid type: its scale is d * unit * number.
int number_of_part(ir::DType type, const std::uint8_t* src, int i) {
  switch (type) {
    case ir::DType::iq1_s: return 2 * ((load<std::uint16_t>(src + 34 + 2 * i) >> 12) & 7) + 1;
    case ir::DType::iq1_m: return 2 * ((load<std::uint16_t>(src + 48 + 2 * (i / 4)) >> (3 * (i % 4))) & 7) + 1;
    case ir::DType::iq2_xxs: return static_cast<int>(2 * (load<std::uint32_t>(src + 6 + 8 * i) >> 28) + 1);
    case ir::DType::iq2_xs: return 2 * nibble(src + 66, i) + 1;
    case ir::DType::iq2_s: return 2 * nibble(src + 74, i) + 1;
    case ir::DType::iq3_xxs: return static_cast<int>(2 * (load<std::uint32_t>(src + 66 + 4 * i) >> 28) + 1);
    case ir::DType::iq3_s: return 2 * nibble(src + 106, i) + 1;
    default: return 1;  // ternary
  }
}

/// Takes d out of a block of a grid type and leaves a 1 in its place.
std::uint16_t take_scale(ir::DType type, std::uint8_t* block) {
  constexpr std::uint16_t kOne = 0x3c00;
  if (type == ir::DType::iq1_m) {  // a nibble above each of four words of scales
    std::uint16_t d = 0;
    for (int i = 0; i < 4; ++i) {
      std::uint8_t& top = block[49 + 2 * i];
      d = static_cast<std::uint16_t>(d | (top >> 4) << (4 * i));
      top = static_cast<std::uint8_t>((top & 15) | ((kOne >> (4 * i)) & 15) << 4);
    }
    return d;
  }
  std::uint8_t* at = block + (type == ir::DType::tq1_0 ? 52 : type == ir::DType::tq2_0 ? 64 : 0);
  const auto d = load<std::uint16_t>(at);
  std::memcpy(at, &kOne, 2);
  return d;
}

/// The stored quant of each level from -128 to 127.
struct Codes {
  std::uint8_t of[256] = {};
  constexpr explicit Codes(const Format& format) {
    for (int code = 0; code < 1 << (format.bits == Bits::bits2 ? 2 : format.bits == Bits::bits3 ? 3 : 4); ++code) {
      const int level = format.levels == Levels::none ? code - format.subtract : kLevels[int(format.levels)][code];
      if (level != 0 || format.levels == Levels::none) of[level + 128] = static_cast<std::uint8_t>(code);
    }
  }
};

/// Types whose quants are looked up in grids. With a scale of 1 the elements are level * unit * number, exactly, so the one who knows how
/// to read them finds the levels.
template <ir::DType kType, Packing kPacking>
void take_grid(const std::uint8_t* src, int row, Group& g) {
  constexpr const Format& kFormat = kFormats[int(kPacking)];
  static constexpr Codes kCodes(kFormat);
  std::uint8_t block[112];  // the largest has 110
  std::memcpy(block, src, static_cast<std::size_t>(ir::block_bytes(kType)));
  g.d[row] = take_scale(kType, block);
  float y[kGroupColumns];
  dtypes::dequantize(kType, reinterpret_cast<const std::byte*>(block), y, kGroupColumns);
  constexpr int kColumns = kBlockColumns / kFormat.parts;
  for (int i = 0; i < kGroupColumns / kColumns; ++i) {
    const int number = number_of_part(kType, src, i);
    g.s[i * kTileRows + row] = static_cast<std::uint8_t>(number);
    const float scale = kFormat.unit * static_cast<float>(number);
    std::uint8_t place[kColumns];
    for (int c = 0; c < kColumns; ++c) place[c] = static_cast<std::uint8_t>(static_cast<int>(y[i * kColumns + c] / scale) + 128);
    for (int c = 0; c < kColumns; ++c) g.q[row][i * kColumns + c] = kCodes.of[place[c]];
  }
}

struct Type {
  ir::DType type;
  Packing packing;
  void (*take)(const std::uint8_t* src, int row, Group& group);  // null: nvfp4, whose blocks are two groups; and the floats
};

template <ir::DType kType, Packing kPacking>
constexpr Type grid = {kType, kPacking, take_grid<kType, kPacking>};

// One row a type.
constexpr Type kTypes[] = {
    {ir::DType::q4_0, Packing::q4_0, take_q4_0},     {ir::DType::q4_1, Packing::q4_1, take_q4_1},
    {ir::DType::q5_0, Packing::q5_0, take_q5_0},     {ir::DType::q5_1, Packing::q5_1, take_q5_1},
    {ir::DType::q8_0, Packing::q8_0, take_q8_0},     {ir::DType::q2_K, Packing::q2_k, take_q2_k},
    {ir::DType::q3_K, Packing::q3_k, take_q3_k},     {ir::DType::q4_K, Packing::q4_k, take_q4_k},
    {ir::DType::q5_K, Packing::q5_k, take_q5_k},     {ir::DType::q6_K, Packing::q6_k, take_q6_k},
    {ir::DType::iq4_nl, Packing::iq4_nl, take_q4_0}, {ir::DType::iq4_xs, Packing::iq4_xs, take_iq4_xs},
    {ir::DType::mxfp4, Packing::mxfp4, take_mxfp4},  {ir::DType::nvfp4, Packing::nvfp4, nullptr},
    grid<ir::DType::iq1_s, Packing::iq1_s>,          grid<ir::DType::iq1_m, Packing::iq1_m>,
    grid<ir::DType::iq2_xxs, Packing::iq2_xxs>,      grid<ir::DType::iq2_xs, Packing::iq2_xs>,
    grid<ir::DType::iq2_s, Packing::iq2_xs>,         grid<ir::DType::iq3_xxs, Packing::iq3_xxs>,
    grid<ir::DType::iq3_s, Packing::iq3_s>,          grid<ir::DType::tq1_0, Packing::ternary>,
    grid<ir::DType::tq2_0, Packing::ternary>,
};

const Type* find(ir::DType type) {
  for (const Type& row : kTypes)
    if (row.type == type) return &row;
  return nullptr;
}

/// Six-bit numbers a, b, c, e of 64 bytes each into three times 64 bytes.
void pack_six(const std::uint8_t* s, std::uint8_t* dst) {
  for (int i = 0; i < 64; ++i)
    for (int part = 0; part < 3; ++part)
      dst[64 * part + i] = static_cast<std::uint8_t>(s[64 * part + i] | ((s[192 + i] >> (2 * part)) & 3) << 6);
}

void put_header(const Format& format, const Group& g, std::uint8_t* dst) {
  const auto put = [&](const void* from, int bytes) {
    std::memcpy(dst, from, static_cast<std::size_t>(bytes));
    dst += bytes;
  };
  if (format.scales == ScaleKind::exponents) return put(g.s, kTileRows);
  put(g.d, 32);
  if (format.minimum || (format.scales == ScaleKind::halves && format.parts == 2)) put(g.m, 32);
  if (format.scales == ScaleKind::pairs6 || format.scales == ScaleKind::six) pack_six(g.s, dst);
  if (format.scales == ScaleKind::bytes || format.scales == ScaleKind::nibbles) put(g.s, format.blocks * format.parts * kTileRows);
}

/// Calls use(first, width, vector, i, shift) for each run of bits [first, first + width) of words i, which lies in a vector from bit shift
/// on.
template <class Use>
void each_plane(Bits bits, Use use) {
  int vectors = 0;
  const auto plane = [&](int first, int width) {
    const int each = 8 / width;  // words a vector
    for (int i = 0; i < 8; ++i)
      width == 4 ? use(first, width, vectors + i % 4, i, i / 4 * 4) : use(first, width, vectors + i / each, i, i % each * width);
    vectors += width;
  };
  switch (bits) {
    case Bits::bits8: plane(0, 8); break;
    case Bits::bits4: plane(0, 4); break;
    case Bits::bits2: plane(0, 2); break;
    case Bits::bits3: plane(0, 2), plane(2, 1); break;
    case Bits::bits5: plane(0, 4), plane(4, 1); break;
    case Bits::bits6: plane(0, 4), plane(4, 2); break;
  }
}

/// The quants of one block; on words, so that compilers make vectors of the rows.
void put_quants(Bits bits, const Group& g, int block, std::uint8_t* dst) {
  std::uint32_t word[8][kTileRows], out[8][kTileRows] = {};
  for (int n = 0; n < kTileRows; ++n)
    for (int i = 0; i < 8; ++i) word[i][n] = load<std::uint32_t>(g.q[n] + block * kBlockColumns + 4 * i);
  each_plane(bits, [&](int first, int width, int vector, int i, int shift) {
    const std::uint32_t mask = ((1u << width) - 1) * 0x01010101u;
    for (int n = 0; n < kTileRows; ++n) out[vector][n] |= ((word[i][n] >> first) & mask) << shift;
  });
  std::memcpy(dst, out, static_cast<std::size_t>(kQuantBytes[int(bits)]));
}

float half_at(const std::uint8_t* p) { return f16_to_f32(load<std::uint16_t>(p)); }

/// The inverse of put_quants(): word i of row n, as it was stored.
void get_words(Bits bits, const std::uint8_t* src, std::uint32_t (&word)[8][kTileRows]) {
  std::uint32_t in[8][kTileRows];
  std::memcpy(in, src, static_cast<std::size_t>(kQuantBytes[int(bits)]));
  std::memset(word, 0, sizeof word);
  each_plane(bits, [&](int first, int width, int vector, int i, int shift) {
    const std::uint32_t mask = ((1u << width) - 1) * 0x01010101u;
    for (int n = 0; n < kTileRows; ++n) word[i][n] |= ((in[vector][n] >> shift) & mask) << first;
  });
}

/// Where column i of row n lies in a tile of floats, in elements.
std::int64_t float_place(Packing packing, std::int64_t n, std::int64_t i) {
  return packing == Packing::bf16_pairs ? (i / 2 * kTileRows + n) * 2 + i % 2 : i * kTileRows + n;
}

/// Number i of those that pack_six() packed.
int six_at(const std::uint8_t* p, int i) {
  if (i < 192) return p[i] & 63;
  return p[i - 192] >> 6 | (p[i - 128] >> 6) << 2 | (p[i - 64] >> 6) << 4;
}

/// What a stored quant stands for.
std::int16_t number_of(const Format& format, std::uint8_t stored) {
  if (format.levels != Levels::none) return kLevels[int(format.levels)][stored];
  return static_cast<std::int16_t>(format.bits == Bits::bits8 ? static_cast<std::int8_t>(stored) : stored - format.subtract);
}

/// Scale and minimum (0 where there is none) of one row's part of a block.
void get_scale(const Format& format, const std::uint8_t* group, int block, int part, int n, float& scale, float& minimum) {
  const int i = (block * format.parts + part) * kTileRows + n;
  const std::uint8_t* numbers = group + (format.minimum ? 64 : 32);
  minimum = 0;
  switch (format.scales) {
    case ScaleKind::halves:
      scale = half_at(group + 32 * part + 2 * n);
      if (format.minimum) minimum = half_at(group + 32 + 2 * n);
      break;
    case ScaleKind::pairs6:
      scale = half_at(group + 2 * n) * static_cast<float>(six_at(numbers, i));
      minimum = -(half_at(group + 32 + 2 * n) * static_cast<float>(six_at(numbers, 128 + i)));
      break;
    case ScaleKind::six: scale = half_at(group + 2 * n) * static_cast<float>(six_at(numbers, i) - 32); break;
    case ScaleKind::bytes: scale = half_at(group + 2 * n) * format.unit * static_cast<float>(static_cast<std::int8_t>(numbers[i])); break;
    case ScaleKind::nibbles:
      scale = half_at(group + 2 * n) * static_cast<float>(numbers[i] & 15);
      minimum = -(half_at(group + 32 + 2 * n) * static_cast<float>(numbers[i] >> 4));
      break;
    case ScaleKind::exponents: {
      const std::uint32_t e = group[n], bits = e < 2 ? 0x00200000u << e : (e - 1) << 23;
      std::memcpy(&scale, &bits, 4);
      break;
    }
  }
}

}  // namespace

void unpack_block(const Format& format, const std::uint8_t* group, int block, UnpackedBlock& out) {
  std::uint32_t word[8][kTileRows];
  get_words(format.bits, group + format.header + block * kQuantBytes[int(format.bits)], word);
  for (int column = 0; column < kBlockColumns; ++column)
    for (int n = 0; n < kTileRows; ++n)
      out.q[column][n] = number_of(format, static_cast<std::uint8_t>(word[column / 4][n] >> (column % 4 * 8)));
  for (int part = 0; part < format.parts; ++part)
    for (int n = 0; n < kTileRows; ++n) get_scale(format, group, block, part, n, out.scale[part][n], out.minimum[part][n]);
}

bool PackedWeights::can_pack(ir::DType x, ir::DType type, std::int64_t k) {
  switch (x) {
    case ir::DType::a8: return find(type) != nullptr && k % ir::block_elements(type) == 0;
    case ir::DType::bf16: return type == ir::DType::bf16 && k % 32 == 0 && linear_loops().bf16 != nullptr;
    default:
      return type != ir::DType::a8 && type != ir::DType::f64 && (ir::is_block(type) || ir::is_float(type)) &&
             k % ir::block_elements(type) == 0;
  }
}

PackedWeights PackedWeights::reserve(ir::DType x, ir::DType type, std::int64_t n, std::int64_t k) {
  PackedWeights w(x, type, n, k);
  w.data_ = allocate_weights(static_cast<std::size_t>(w.bytes()));
  return w;
}

PackedWeights PackedWeights::unpacked(ir::DType x, ir::DType type, std::int64_t n, std::int64_t k, const std::byte* src) {
  PackedWeights w(x, type, n, k);
  w.source_ = src;
  return w;
}

std::int64_t PackedWeights::tile_bytes() const {
  if (!is_integer()) return k_ * kTileRows * (packing_ == Packing::f32 ? 4 : 2);
  const Format& f = kFormats[int(packing_)];
  return k_ / (f.blocks * kBlockColumns) * (f.header + f.blocks * kQuantBytes[int(f.bits)]);
}

PackedWeights::PackedWeights(ir::DType x, ir::DType type, std::int64_t n, std::int64_t k) : x_type_(x), type_(type), n_(n), k_(k) {
  packing_ = x == ir::DType::a8        ? find(type)->packing
             : x == ir::DType::bf16    ? Packing::bf16_pairs
             : type == ir::DType::f16  ? Packing::f16
             : type == ir::DType::bf16 ? Packing::bf16
                                       : Packing::f32;
}

void PackedWeights::pack_tiles(const std::byte* src, std::int64_t begin, std::int64_t end) {
  for (std::int64_t tile = begin; tile < end; ++tile) pack(src, tile, data_.get() + tile * tile_bytes());
}

void PackedWeights::pack_tile(std::int64_t tile, std::uint8_t* dst) const noexcept { pack(source_, tile, dst); }

void PackedWeights::pack(const std::byte* src, std::int64_t tile, std::uint8_t* dst) const {
  const int rows = static_cast<int>(std::min<std::int64_t>(kTileRows, n_ - tile * kTileRows));
  const auto* from =
      reinterpret_cast<const std::uint8_t*>(src) + tile * kTileRows * k_ / ir::block_elements(type_) * ir::block_bytes(type_);
  is_integer() ? pack_integer_tile(from, rows, dst) : pack_float_tile(from, rows, dst);
}

void PackedWeights::pack_float_tile(const std::uint8_t* src, int rows, std::uint8_t* dst) const {
  if (rows < kTileRows) std::memset(dst, 0, static_cast<std::size_t>(tile_bytes()));
  const std::int64_t row_bytes = k_ / ir::block_elements(type_) * ir::block_bytes(type_);
  if (packing_ != Packing::f32) {
    for (int n = 0; n < rows; ++n)
      for (std::int64_t i = 0; i < k_; ++i) std::memcpy(dst + 2 * float_place(packing_, n, i), src + n * row_bytes + 2 * i, 2);
    return;
  }
  constexpr std::int64_t kPiece = 256;  // the largest block there is
  float values[kPiece];
  const std::int64_t piece_bytes = kPiece / ir::block_elements(type_) * ir::block_bytes(type_);
  for (int n = 0; n < rows; ++n)
    for (std::int64_t begin = 0; begin < k_; begin += kPiece) {
      const std::int64_t count = std::min(kPiece, k_ - begin);
      dtypes::dequantize(type_, reinterpret_cast<const std::byte*>(src + n * row_bytes + begin / kPiece * piece_bytes), values, count);
      for (std::int64_t i = 0; i < count; ++i) reinterpret_cast<float*>(dst)[(begin + i) * kTileRows + n] = values[i];
    }
}

void PackedWeights::pack_integer_tile(const std::uint8_t* src, int rows, std::uint8_t* dst) const {
  const Type& type = *find(type_);
  const Format& format = kFormats[int(packing_)];
  const std::int64_t block_bytes = ir::block_bytes(type_), row_bytes = k_ / ir::block_elements(type_) * block_bytes;
  Group group{};  // rows that are not there stay zeros
  for (std::int64_t i = 0; i < k_ / (format.blocks * kBlockColumns); ++i) {
    for (int n = 0; n < rows; ++n) {
      const std::uint8_t* row = src + n * row_bytes;
      if (type.take != nullptr)
        type.take(row + i * block_bytes, n, group);
      else
        take_nvfp4(row + i / 2 * block_bytes + i % 2 * 2, row + i / 2 * block_bytes + 4 + i % 2 * 16, n, group);
    }
    put_header(format, group, dst);
    dst += format.header;
    for (int b = 0; b < format.blocks; ++b, dst += kQuantBytes[int(format.bits)]) put_quants(format.bits, group, b, dst);
  }
}

void PackedWeights::unpack_row(std::int64_t row, float* dst) const {
  const std::uint8_t* tile = data_.get() + row / kTileRows * tile_bytes();
  const auto n = static_cast<std::size_t>(row % kTileRows);
  if (!is_integer()) {
    for (std::int64_t i = 0; i < k_; ++i) {
      const std::uint8_t* at = tile + float_place(packing_, row % kTileRows, i) * (packing_ == Packing::f32 ? 4 : 2);
      dst[i] = packing_ == Packing::f32   ? load<float>(at)
               : packing_ == Packing::f16 ? f16_to_f32(load<std::uint16_t>(at))
                                          : bf16_to_f32(load<std::uint16_t>(at));
    }
    return;
  }
  const Format& format = kFormats[int(packing_)];
  const std::int64_t group_bytes = format.header + format.blocks * kQuantBytes[int(format.bits)];
  const int part_columns = kBlockColumns / format.parts;
  for (std::int64_t b = 0; b < k_ / kBlockColumns; ++b) {
    const std::uint8_t* group = tile + b / format.blocks * group_bytes;
    const int block = static_cast<int>(b % format.blocks);
    const std::uint8_t* quants = group + format.header + block * kQuantBytes[int(format.bits)] + 4 * n;
    std::uint32_t word[8] = {};  // this row's alone
    each_plane(format.bits, [&](int first, int width, int vector, int i, int shift) {
      word[i] |= ((load<std::uint32_t>(quants + 64 * vector) >> shift) & (((1u << width) - 1) * 0x01010101u)) << first;
    });
    for (int part = 0; part < format.parts; ++part) {
      float scale, minimum;
      get_scale(format, group, block, part, static_cast<int>(n), scale, minimum);
      for (int i = part * part_columns; i < (part + 1) * part_columns; ++i) {
        const float value = static_cast<float>(number_of(format, static_cast<std::uint8_t>(word[i / 4] >> (i % 4 * 8)))) * scale;
        *dst++ = format.minimum ? value + minimum : value;
      }
    }
  }
}

}  // namespace quern::cpu
