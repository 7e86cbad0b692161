// Weights of a file into tiles, and back.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "backends/cpu/kernels/linear/linear.h"
#include "backends/cpu/kernels/linear/weight_memory.h"
#include "base/error.h"
#include "base/float16.h"
#include "dtypes/dequantize.h"

namespace quern::cpu {
namespace {

/// Takes one block of 32 elements apart: integers q and where its f16 scale and minimum lie. value = scale * q + minimum.
struct Format {
  ir::DType type;
  WeightLayout layout;
  Minimum minimum;
  void (*quants)(const std::uint8_t* block, int* q);
  int minimum_offset;  // of the f16 minimum in the file's block; the scale is always at 0
};

void nibbles(const std::uint8_t* p, int* q) {
  for (int i = 0; i < 16; ++i) {
    q[i] = p[i] & 15;
    q[i + 16] = p[i] >> 4;
  }
}

void nibbles_and_fifth_bits(const std::uint8_t* bits, const std::uint8_t* p, int subtract, int* q) {
  std::uint32_t high;
  std::memcpy(&high, bits, 4);
  nibbles(p, q);
  for (int i = 0; i < 32; ++i) q[i] += static_cast<int>((high >> i) & 1u) * 16 - subtract;
}

void signed_bytes(const std::uint8_t* p, int* q) {
  for (int i = 0; i < 32; ++i) q[i] = static_cast<std::int8_t>(p[i]);
}

// One row a format. q5 is kept in 8 bits until there is a tile of five.
constexpr Format kFormats[] = {
    {ir::DType::q4_0, WeightLayout::w4, Minimum::minus_8_scales, [](const std::uint8_t* b, int* q) { nibbles(b + 2, q); }, 0},
    {ir::DType::q4_1, WeightLayout::w4, Minimum::stored, [](const std::uint8_t* b, int* q) { nibbles(b + 4, q); }, 2},
    {ir::DType::q5_0, WeightLayout::w8, Minimum::none, [](const std::uint8_t* b, int* q) { nibbles_and_fifth_bits(b + 2, b + 6, 16, q); },
     0},
    {ir::DType::q5_1, WeightLayout::w8, Minimum::stored, [](const std::uint8_t* b, int* q) { nibbles_and_fifth_bits(b + 4, b + 8, 0, q); },
     2},
    {ir::DType::q8_0, WeightLayout::w8, Minimum::none, [](const std::uint8_t* b, int* q) { signed_bytes(b + 2, q); }, 0},
};

const Format* find(ir::DType type) {
  for (const Format& format : kFormats)
    if (format.type == type) return &format;
  return nullptr;
}

constexpr std::int64_t quant_bytes(WeightLayout layout) { return layout == WeightLayout::w4 ? 256 : 512; }

void pack_block(const Format& format, const std::uint8_t* src, int row, std::uint8_t* dst) {
  int q[kBlockColumns];
  format.quants(src, q);
  if (format.layout == WeightLayout::w4) {
    for (int i = 0; i < 16; ++i) dst[(i / 4) * 64 + row * 4 + i % 4] = static_cast<std::uint8_t>(q[i] | q[i + 16] << 4);
  } else {
    for (int i = 0; i < 32; ++i) dst[(i / 4) * 64 + row * 4 + i % 4] = static_cast<std::uint8_t>(q[i]);
  }
  std::uint8_t* scales = dst + quant_bytes(format.layout);
  std::memcpy(scales + 2 * row, src, 2);
  if (format.minimum == Minimum::stored) std::memcpy(scales + 32 + 2 * row, src + format.minimum_offset, 2);
}

float half_at(const std::uint8_t* p) {
  std::uint16_t h;
  std::memcpy(&h, p, 2);
  return f16_to_f32(h);
}

}  // namespace

bool PackedWeights::can_pack_integer(ir::DType type, std::int64_t k) { return find(type) != nullptr && k % kBlockColumns == 0; }

bool PackedWeights::can_pack_float(ir::DType type, std::int64_t k) {
  if (type == ir::DType::a8 || type == ir::DType::f64 || !(ir::is_block(type) || ir::is_float(type))) return false;
  return k % ir::block_elements(type) == 0;
}

PackedWeights PackedWeights::integer(ir::DType type, std::int64_t n, std::int64_t k) {
  const Format* format = find(type);
  QUERN_ASSERT(format != nullptr && k % kBlockColumns == 0);
  const std::int64_t bytes = quant_bytes(format->layout) + (format->minimum == Minimum::stored ? 64 : 32);
  return PackedWeights(type, format->layout, format->minimum, bytes, n, k);
}

PackedWeights PackedWeights::floating(ir::DType type, std::int64_t n, std::int64_t k) {
  QUERN_ASSERT(can_pack_float(type, k));
  return PackedWeights(type, WeightLayout::f32, Minimum::none, 0, n, k);
}

std::int64_t PackedWeights::tile_bytes() const {
  return layout_ == WeightLayout::f32 ? k_ * kTileRows * std::int64_t(sizeof(float)) : k_ / kBlockColumns * block_bytes_;
}

PackedWeights::PackedWeights(ir::DType type, WeightLayout layout, Minimum minimum, std::int64_t block_bytes, std::int64_t n, std::int64_t k)
    : type_(type),
      layout_(layout),
      minimum_(minimum),
      block_bytes_(block_bytes),
      n_(n),
      k_(k),
      data_(allocate_weights(static_cast<std::size_t>(bytes()))) {}

void PackedWeights::pack_tiles(const std::byte* src, std::int64_t begin, std::int64_t end) {
  const std::int64_t row_bytes = k_ / ir::block_elements(type_) * ir::block_bytes(type_);
  const Format* format = find(type_);
  std::vector<float> row(layout_ == WeightLayout::f32 ? static_cast<std::size_t>(k_) : 0);
  for (std::int64_t tile = begin; tile < end; ++tile) {
    std::uint8_t* dst = data_.get() + tile * tile_bytes();
    const int rows = static_cast<int>(std::min<std::int64_t>(kTileRows, n_ - tile * kTileRows));
    if (rows < kTileRows) std::memset(dst, 0, static_cast<std::size_t>(tile_bytes()));
    for (int r = 0; r < rows; ++r) {
      const std::byte* from = src + (tile * kTileRows + r) * row_bytes;
      if (layout_ == WeightLayout::f32) {
        dtypes::dequantize(type_, from, row.data(), k_);
        float* panel = reinterpret_cast<float*>(dst);
        for (std::int64_t i = 0; i < k_; ++i) panel[i * kTileRows + r] = row[static_cast<std::size_t>(i)];
      } else {
        const auto* block = reinterpret_cast<const std::uint8_t*>(from);
        for (std::int64_t b = 0; b < k_ / kBlockColumns; ++b, block += ir::block_bytes(type_))
          pack_block(*format, block, r, dst + b * block_bytes_);
      }
    }
  }
}

void PackedWeights::unpack_row(std::int64_t row, float* dst) const {
  const std::uint8_t* tile = data_.get() + row / kTileRows * tile_bytes();
  const int r = static_cast<int>(row % kTileRows);
  if (layout_ == WeightLayout::f32) {
    for (std::int64_t i = 0; i < k_; ++i) dst[i] = reinterpret_cast<const float*>(tile)[i * kTileRows + r];
    return;
  }
  for (std::int64_t b = 0; b < k_ / kBlockColumns; ++b, tile += block_bytes_, dst += kBlockColumns) {
    const std::uint8_t* scales = tile + quant_bytes(layout_);
    const float scale = half_at(scales + 2 * r);
    for (int i = 0; i < kBlockColumns; ++i) {
      const std::uint8_t* byte = tile + (i % (layout_ == WeightLayout::w4 ? 16 : 32)) / 4 * 64 + r * 4 + i % 4;
      const int q = layout_ == WeightLayout::w8 ? static_cast<std::int8_t>(*byte) : i < 16 ? *byte & 15 : *byte >> 4;
      switch (minimum_) {
        case Minimum::none: dst[i] = static_cast<float>(q) * scale; break;
        case Minimum::stored: dst[i] = static_cast<float>(q) * scale + half_at(scales + 32 + 2 * r); break;
        case Minimum::minus_8_scales: dst[i] = static_cast<float>(q - 8) * scale; break;
      }
    }
  }
}

}  // namespace quern::cpu
