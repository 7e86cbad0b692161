#pragma once

#include <cstddef>
#include <cstdint>

/// The loops that measure_speed() times, by instruction set. Read by files of one instruction set, so there is nothing with a body here.
namespace quern::cpu {

/// What one round of a loop computes: `accumulators` vectors of `lanes` products and additions, times what one instruction sums.
/// Every loop returns something that depends on all it computed, so that nothing can be left out.
using RegisterLoop = float (*)(std::int64_t rounds);

constexpr int kAccumulators = 12;  // fused multiply-adds take 4 cycles and start two a cycle: 8 at least must be under way
constexpr int kBf16Pairs =
    384;  // 32-bit words with two bf16 values each that one round of an emulated loop reads: the first-level cache holds them
constexpr int kTileAccumulators = 4;  // a tile product takes 52 cycles and starts every 16

// Operations of one round.
constexpr double kOpsF32Baseline = 2.0 * 4 * kAccumulators;
constexpr double kOpsF32Avx2 = 2.0 * 8 * kAccumulators;
constexpr double kOpsF32Avx512 = 2.0 * 16 * kAccumulators;
constexpr double kOpsBf16Emulated = 2.0 * 2 * kBf16Pairs;
constexpr double kOpsBf16Amx = 2.0 * 16 * 16 * 32 * kTileAccumulators;
constexpr int kInt8Bytes = 1536;  // that one round of the portable loop reads
constexpr double kOpsInt8Baseline = 2.0 * kInt8Bytes;
constexpr double kOpsInt8Ymm = 2.0 * 32 * kAccumulators;
constexpr double kOpsInt8Zmm = 2.0 * 64 * kAccumulators;
constexpr double kOpsInt8Amx = 2.0 * 16 * 16 * 64 * kTileAccumulators;

float f32_avx2(std::int64_t rounds);
float f32_avx512(std::int64_t rounds);
float bf16_avx2(std::int64_t rounds);
float bf16_avx512(std::int64_t rounds);
float bf16_amx(std::int64_t rounds);
float int8_avx2(std::int64_t rounds);
float int8_avxvnni(std::int64_t rounds);
float int8_avx512(std::int64_t rounds);
float int8_avx512vnni(std::int64_t rounds);
float int8_amx(std::int64_t rounds);

/// Reads every byte of whole blocks of 1 KiB, aligned to 64.
using ReadLoop = std::uint64_t (*)(const std::byte* data, std::size_t bytes);
constexpr std::size_t kReadBlock = 1024;
constexpr std::size_t kReadAhead = 4096;  // bytes asked for early: the hardware's own look-ahead stops at the end of each page
std::uint64_t read_avx2(const std::byte* data, std::size_t bytes);
std::uint64_t read_avx512(const std::byte* data, std::size_t bytes);

}  // namespace quern::cpu
