#include <immintrin.h>

#include "backends/cpu/measure/loops.h"

namespace quern::cpu {
namespace {

struct alignas(64) TileConfig {
  std::uint8_t palette, start_row, reserved[14];
  std::uint16_t bytes[16];
  std::uint8_t rows[16];
};
// Tiles 0-3 are sums, 4-5 hold the left factor, 6-7 the right one; all are 16 rows of 64 bytes.
constexpr TileConfig kConfig = {1, 0, {}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};

// Not every compiler knows that the tile instructions read and write memory.
inline void memory_barrier() { asm volatile("" ::: "memory"); }

void load_tiles(const std::uint8_t* factors) {
  _tile_loadconfig(&kConfig);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, factors, 64);
  _tile_loadd(5, factors, 64);
  _tile_loadd(6, factors, 64);
  _tile_loadd(7, factors, 64);
}

float store_tiles(std::uint32_t* sums) {
  float total = 0;
  _tile_stored(0, sums, 64);
  _tile_stored(1, sums + 256, 64);
  _tile_stored(2, sums + 512, 64);
  _tile_stored(3, sums + 768, 64);
  _tile_release();
  memory_barrier();
  for (int i = 0; i < 1024; ++i) total += static_cast<float>(sums[i]);
  return total;
}

}  // namespace

float int8_amx(std::int64_t rounds) {
  alignas(64) std::uint8_t factors[1024];
  alignas(64) std::uint32_t sums[1024];
  for (int i = 0; i < 1024; ++i) factors[i] = static_cast<std::uint8_t>(i & 15);
  memory_barrier();
  load_tiles(factors);
  for (std::int64_t r = 0; r < rounds; ++r) {
    _tile_dpbusd(0, 4, 6);
    _tile_dpbusd(1, 4, 7);
    _tile_dpbusd(2, 5, 6);
    _tile_dpbusd(3, 5, 7);
  }
  return store_tiles(sums);
}

float bf16_amx(std::int64_t rounds) {
  alignas(64) std::uint8_t factors[1024];
  alignas(64) std::uint32_t sums[1024];
  for (int i = 0; i < 1024; ++i) factors[i] = i % 2 == 0 ? static_cast<std::uint8_t>(i >> 3) : 0x3c;  // about 0.01
  memory_barrier();
  load_tiles(factors);
  for (std::int64_t r = 0; r < rounds; ++r) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  return store_tiles(sums);
}

}  // namespace quern::cpu
