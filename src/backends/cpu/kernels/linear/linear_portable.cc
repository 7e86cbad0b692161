// Plain C++ for machines without AVX2, written so that compilers make vectors of the 16 rows of a tile.
#include <cstring>

#include "backends/cpu/kernels/linear/job.h"
#include "base/float16.h"
#include "dtypes/a8.h"

namespace quern::cpu {
namespace {

float half_at(const std::uint8_t* p) {
  std::uint16_t h;
  std::memcpy(&h, p, 2);
  return f16_to_f32(h);
}

struct Block {
  std::int16_t q[8][kTileRows][4];
  std::int32_t sum[kTileRows];
  float scale[kTileRows], minimum[kTileRows];
};

template <WeightLayout kLayout>
void load(const LinearJob& job, const std::uint8_t* p, Block& block) {
  if (kLayout == WeightLayout::w4) {
    for (int i = 0; i < 256; ++i) {
      (&block.q[0][0][0])[i] = p[i] & 15;
      (&block.q[4][0][0])[i] = p[i] >> 4;
    }
    p += 256;
  } else {
    for (int i = 0; i < 512; ++i) (&block.q[0][0][0])[i] = static_cast<std::int8_t>(p[i]);
    p += 512;
  }
  for (int n = 0; n < kTileRows; ++n) {
    block.sum[n] = 0;
    for (int g = 0; g < 8; ++g)
      for (int j = 0; j < 4; ++j) block.sum[n] += block.q[g][n][j];
    block.scale[n] = half_at(p + 2 * n);
    block.minimum[n] = job.minimum == Minimum::stored ? half_at(p + 32 + 2 * n) : -8 * block.scale[n];
  }
}

template <WeightLayout kLayout>
void integer_loop(const LinearJob& job) {
  const std::int64_t blocks = job.k / kBlockColumns;
  constexpr int kRows = 8;  // rows that share one look at the weights
  for (std::int64_t tile = job.tile_begin; tile < job.tile_end; ++tile) {
    const std::int64_t columns = job.n - tile * kTileRows < kTileRows ? job.n - tile * kTileRows : kTileRows;
    for (std::int64_t row = job.row_begin; row < job.row_end; row += kRows) {
      const std::int64_t rows = job.row_end - row < kRows ? job.row_end - row : kRows;
      float total[kRows][kTileRows] = {};
      const std::uint8_t* w = job.weights + tile * blocks * job.block_bytes;
      for (std::int64_t b = 0; b < blocks; ++b, w += job.block_bytes) {
        Block block;
        load<kLayout>(job, w, block);
        for (std::int64_t r = 0; r < rows; ++r) {
          dtypes::A8Block x;
          std::memcpy(&x, job.x + (row + r) * job.x_stride + b * kA8Bytes, sizeof x);
          std::int32_t dot[kTileRows];
          for (int n = 0; n < kTileRows; ++n) dot[n] = -std::int32_t(x.z[0]) * block.sum[n];
          for (int g = 0; g < 8; ++g)
            for (int n = 0; n < kTileRows; ++n)
              for (int j = 0; j < 4; ++j) dot[n] += std::int32_t(x.q[4 * g + j]) * block.q[g][n][j];
          for (int n = 0; n < kTileRows; ++n) {
            if (job.minimum != Minimum::none) total[r][n] += block.minimum[n] * x.sum;
            total[r][n] += (x.scale * static_cast<float>(dot[n])) * block.scale[n];
          }
        }
      }
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t n = 0; n < columns; ++n) job.y[(row + r) * job.y_stride + tile * kTileRows + n] = total[r][n];
    }
  }
}

}  // namespace

void linear_w4_portable(const LinearJob& job) { integer_loop<WeightLayout::w4>(job); }
void linear_w8_portable(const LinearJob& job) { integer_loop<WeightLayout::w8>(job); }

void linear_f32_portable(const LinearJob& job) {
  constexpr int kRows = 4;
  for (std::int64_t tile = job.tile_begin; tile < job.tile_end; ++tile) {
    const std::int64_t columns = job.n - tile * kTileRows < kTileRows ? job.n - tile * kTileRows : kTileRows;
    const float* w = reinterpret_cast<const float*>(job.weights) + tile * job.k * kTileRows;
    for (std::int64_t row = job.row_begin; row < job.row_end; row += kRows) {
      const std::int64_t rows = job.row_end - row < kRows ? job.row_end - row : kRows;
      float total[kRows][kTileRows] = {};
      for (std::int64_t k = 0; k < job.k; ++k)
        for (std::int64_t r = 0; r < rows; ++r) {
          const float x = reinterpret_cast<const float*>(job.x + (row + r) * job.x_stride)[k];
          for (int n = 0; n < kTileRows; ++n) total[r][n] += x * w[k * kTileRows + n];
        }
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t n = 0; n < columns; ++n) job.y[(row + r) * job.y_stride + tile * kTileRows + n] = total[r][n];
    }
  }
}

void quantize_a8_portable(const float* x, std::uint8_t* y, std::int64_t blocks) {
  dtypes::quantize_a8(x, reinterpret_cast<std::byte*>(y), blocks);
}

}  // namespace quern::cpu
