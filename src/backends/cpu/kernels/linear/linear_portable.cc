// Plain C++ for machines without AVX2, written so that compilers make vectors of the 16 rows of a tile.
#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels/linear/block.h"
#include "base/float16.h"
#include "base/unaligned.h"
#include "dtypes/a8.h"

namespace quern::cpu {
namespace {

/// Adds one block to the totals of a row.
void add_block(const Format& format, const UnpackedBlock& block, const dtypes::A8Block& x, float* total) {
  for (int part = 0; part < format.parts; ++part) {
    const int columns = kBlockColumns / format.parts;
    std::int32_t dot[kTileRows] = {};
    for (int i = part * columns; i < (part + 1) * columns; ++i)
      for (int n = 0; n < kTileRows; ++n) dot[n] += (std::int32_t(x.q[i]) - x.z[0]) * block.q[i][n];
    const float sum = format.parts == 1 ? x.sum : part == 0 ? x.low_sum : x.sum - x.low_sum;
    for (int n = 0; n < kTileRows; ++n) {
      if (format.minimum) total[n] += block.minimum[part][n] * sum;
      total[n] += (x.scale * static_cast<float>(dot[n])) * block.scale[part][n];
    }
  }
}

void store(const LinearJob& job, std::int64_t tile, std::int64_t row, const float* total) {
  const auto columns = static_cast<std::size_t>(std::min<std::int64_t>(job.n - tile * kTileRows, kTileRows));
  std::memcpy(job.y + row * job.y_stride + tile * kTileRows, total, columns * sizeof(float));
}

float weight(const LinearJob& job, const std::uint8_t* w, std::int64_t i) {
  return job.packing == Packing::f32   ? load<float>(w + 4 * i)
         : job.packing == Packing::f16 ? f16_to_f32(load<std::uint16_t>(w + 2 * i))
                                       : bf16_to_f32(load<std::uint16_t>(w + 2 * i));
}

}  // namespace

void linear_integer_portable(const LinearJob& job) {
  constexpr std::int64_t kRows = 8;  // rows that share one look at the weights
  const Format& format = kFormats[int(job.packing)];
  const std::int64_t group_bytes = format.header + format.blocks * kQuantBytes[int(format.bits)];
  for (std::int64_t tile = job.tile_begin; tile < job.tile_end; ++tile)
    for (std::int64_t row = job.row_begin; row < job.row_end; row += kRows) {
      const std::int64_t rows = std::min(job.row_end - row, kRows);
      float total[kRows][kTileRows] = {};
      for (std::int64_t b = 0; b < job.k / kBlockColumns; ++b) {
        UnpackedBlock block;
        unpack_block(format, job.weights + tile * job.tile_bytes + b / format.blocks * group_bytes, static_cast<int>(b % format.blocks),
                     block);
        for (std::int64_t r = 0; r < rows; ++r)
          add_block(format, block, load<dtypes::A8Block>(job.x + (row + r) * job.x_stride + b * kA8Bytes), total[r]);
      }
      for (std::int64_t r = 0; r < rows; ++r) store(job, tile, row + r, total[r]);
    }
}

void linear_float_portable(const LinearJob& job) {
  constexpr std::int64_t kRows = 4;
  for (std::int64_t tile = job.tile_begin; tile < job.tile_end; ++tile)
    for (std::int64_t row = job.row_begin; row < job.row_end; row += kRows) {
      const std::int64_t rows = std::min(job.row_end - row, kRows);
      float total[kRows][kTileRows] = {};
      for (std::int64_t k = 0; k < job.k; ++k) {
        float w[kTileRows];
        for (int n = 0; n < kTileRows; ++n) w[n] = weight(job, job.weights + tile * job.tile_bytes, k * kTileRows + n);
        for (std::int64_t r = 0; r < rows; ++r) {
          const float x = load<float>(job.x + (row + r) * job.x_stride + 4 * k);
          for (int n = 0; n < kTileRows; ++n) total[r][n] += x * w[n];
        }
      }
      for (std::int64_t r = 0; r < rows; ++r) store(job, tile, row + r, total[r]);
    }
}

void quantize_a8_portable(const float* x, std::uint8_t* y, std::int64_t blocks) {
  dtypes::quantize_a8(x, reinterpret_cast<std::byte*>(y), blocks);
}

}  // namespace quern::cpu
