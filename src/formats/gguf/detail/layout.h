#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "formats/gguf/value.h"

namespace quern::gguf::detail {

// What the format fixes, and the limits we set on what a file may claim. The limits are far above any real model (some 100 keys, some
// 50,000 tensors when every expert is one) and bound what the reader allocates to a few MB, whatever the file says.
inline constexpr std::uint32_t kMagic = 0x46554747;  // "GGUF"
inline constexpr std::uint32_t kVersion = 3;
inline constexpr std::uint64_t kMaxKeys = 1u << 16;
inline constexpr std::uint64_t kMaxTensors = 1u << 17;
inline constexpr std::uint64_t kMaxKeyBytes = 65535;       // the specification's limit
inline constexpr std::uint64_t kMaxTensorNameBytes = 255;  // the specification says 64; some tools write longer ones
inline constexpr std::uint64_t kMaxStringBytes = 1u << 30;
inline constexpr std::uint32_t kMaxDims = 4;
inline constexpr std::uint64_t kDefaultAlignment = 32;
inline constexpr std::uint64_t kMinAlignment = 8;  // the specification asks for a multiple of 8: then f64 data is aligned for f64
inline constexpr std::string_view kAlignmentKey = "general.alignment";

/// Bytes of one element; 0 for string and array. Nothing for a number that is no type.
inline std::optional<std::uint64_t> element_bytes(ValueType type) {
  switch (type) {
    case ValueType::u8:
    case ValueType::i8:
    case ValueType::boolean: return 1;
    case ValueType::u16:
    case ValueType::i16: return 2;
    case ValueType::u32:
    case ValueType::i32:
    case ValueType::f32: return 4;
    case ValueType::u64:
    case ValueType::i64:
    case ValueType::f64: return 8;
    case ValueType::string:
    case ValueType::array: return 0;
  }
  return std::nullopt;
}

inline bool is_power_of_two(std::uint64_t x) { return x != 0 && (x & (x - 1)) == 0; }

/// a + b, a * b and a rounded up to a power of two, or nothing when 64 bits do not hold it.
inline std::optional<std::uint64_t> add(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::nullopt : std::optional(sum);
}
inline std::optional<std::uint64_t> multiply(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::nullopt : std::optional(product);
}
inline std::optional<std::uint64_t> align_up(std::uint64_t a, std::uint64_t alignment) {
  const auto sum = add(a, alignment - 1);
  return sum ? std::optional(*sum & ~(alignment - 1)) : std::nullopt;
}

/// A name out of a file for a message: quoted, cut to `max` characters, control characters and quotes escaped.
std::string quoted(std::string_view text, std::size_t max = 80, char quote = '\'');

}  // namespace quern::gguf::detail
