#pragma once

#include <array>
#include <cstdint>

namespace quern::sampling {

/// What a random number is for; each purpose has numbers of its own, so that one never shifts the others.
enum class Purpose : std::uint32_t { token = 0 };

/// Philox 4x32 with 10 rounds: 128 random bits of a counter and a key, and no state. Source: Salmon et al. 2011, "Parallel random numbers".
constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * counter[0], b = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

/// A number in [0, 1), a multiple of 2^-53, that depends on its arguments alone: what else runs, in which order, and how often a step is
/// repeated change nothing. `position` is that of the token to be drawn in its sequence.
constexpr double uniform(std::uint64_t seed, std::uint64_t position, Purpose purpose) {
  const auto bits =
      philox({static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(position >> 32), 0, static_cast<std::uint32_t>(purpose)},
             {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  return static_cast<double>((std::uint64_t{bits[0]} << 21) ^ (bits[1] >> 11)) * 0x1p-53;
}

/// A seed from the operating system.
std::uint64_t fresh_seed();

}  // namespace quern::sampling
