#pragma once

#include <bit>
#include <cstring>

namespace quern {

/// Reads a little-endian number that may lie at any address.
template <class T>
T load(const void* src) {
  static_assert(std::endian::native == std::endian::little);
  T value;
  std::memcpy(&value, src, sizeof value);
  return value;
}

}  // namespace quern
