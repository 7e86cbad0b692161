#include "base/checksum.h"

#include <cstring>

#include "base/unaligned.h"

namespace quern {
namespace {

// Odd, with as many ones as zeros in no order: the golden ratio and the square roots of 2 and 3, as 64-bit fractions.
constexpr std::uint64_t kA = 0x9e3779b97f4a7c15, kB = 0x6a09e667f3bcc909, kC = 0xbb67ae8584caa73b;

/// Both halves of a product of 128 bits, added without carry: a change of one word spreads over the sum in a way that depends on the rest,
/// so that no second change is bound to undo it.
std::uint64_t mix(std::uint64_t sum, std::uint64_t word) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(sum ^ word) * kA;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

}  // namespace

std::uint64_t checksum(std::span<const std::byte> bytes, std::uint64_t seed) {
  // Four lanes: a multiplication takes three cycles and one can begin in each.
  std::uint64_t lane[4] = {seed ^ kA, seed ^ kB, seed ^ kC, seed + kB};
  const std::byte* p = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 32; left -= 32, p += 32)
    for (int i = 0; i < 4; ++i) lane[i] = mix(lane[i], load<std::uint64_t>(p + 8 * i));
  std::byte tail[32] = {};
  if (left > 0) std::memcpy(tail, p, left);
  for (int i = 0; i < 4; ++i) lane[i] = mix(lane[i], load<std::uint64_t>(tail + 8 * i));
  std::uint64_t sum = bytes.size();
  for (const std::uint64_t l : lane) sum = mix(sum + kC, l);
  sum *= kB;
  return sum ^ sum >> 29;
}

}  // namespace quern
