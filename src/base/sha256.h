#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace quern {

/// SHA-256 of bytes given in pieces: for names that nobody can make two contents for. Some 200 MB/s; checksum.h has what is for much data.
/// Source: FIPS 180-4.
class Sha256 {
 public:
  Sha256& add(std::span<const std::byte> bytes);
  /// Of all that was added; nothing can be added any more.
  std::array<std::uint8_t, 32> digest();

 private:
  void compress(const std::byte* block);

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> pending_{};
  std::uint64_t bytes_ = 0;
};

}  // namespace quern
