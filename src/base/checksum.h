#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace quern {

/// A 64-bit number of these bytes, for telling damage and names of cache files: any change gives another number but for a chance of 2^-64.
/// No defence against someone who wants two inputs with one number. The same on every machine; some 15 GB/s a core.
std::uint64_t checksum(std::span<const std::byte> bytes, std::uint64_t seed = 0);

}  // namespace quern
