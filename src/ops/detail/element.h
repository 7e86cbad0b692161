#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/float16.h"
#include "ir/dtype.h"
#include "ir/tensor_view.h"

namespace quern::ops::detail {

using ir::DType;
using ir::TensorView;

// Storage of the two 16-bit floats; arithmetic on them is done in f32 and rounded once.
struct Half {
  std::uint16_t bits;
};
struct Bfloat {
  std::uint16_t bits;
};

/// The C++ type that stands for an element type.
template <class T>
struct ElementType;
#define QUERN_ELEMENT(type, tag)               \
  template <>                                  \
  struct ElementType<type> {                   \
    static constexpr DType dtype = DType::tag; \
  };
QUERN_ELEMENT(bool, boolean)
QUERN_ELEMENT(std::int8_t, i8)
QUERN_ELEMENT(std::int16_t, i16)
QUERN_ELEMENT(std::int32_t, i32)
QUERN_ELEMENT(std::int64_t, i64)
QUERN_ELEMENT(std::uint8_t, u8)
QUERN_ELEMENT(std::uint16_t, u16)
QUERN_ELEMENT(std::uint32_t, u32)
QUERN_ELEMENT(std::uint64_t, u64)
QUERN_ELEMENT(Half, f16)
QUERN_ELEMENT(Bfloat, bf16)
QUERN_ELEMENT(float, f32)
QUERN_ELEMENT(double, f64)
#undef QUERN_ELEMENT

template <class... Ts>
struct Types {};
template <class... As, class... Bs>
Types<As..., Bs...> operator+(Types<As...>, Types<Bs...>);  // only for decltype

using Floats = Types<Half, Bfloat, float, double>;
using Integers = Types<std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>;
using Numbers = decltype(Floats{} + Integers{});
using Plain = decltype(Numbers{} + Types<bool>{});

template <class... Ts>
constexpr bool contains(Types<Ts...>, DType t) {
  return ((ElementType<Ts>::dtype == t) || ...);
}

/// Calls f.operator()<T>() for the T of the list that stands for `t`; inference has made sure that there is one.
template <class... Ts, class F>
void dispatch(Types<Ts...>, DType t, F&& f) {
  (void)((ElementType<Ts>::dtype == t && (f.template operator()<Ts>(), true)) || ...);
}

template <class T>
constexpr bool is_half = std::is_same_v<T, Half> || std::is_same_v<T, Bfloat>;
/// The type in which an element is computed.
template <class T>
using Compute = std::conditional_t<is_half<T>, float, T>;
/// The type in which elements are summed.
template <class T>
using Sum = std::conditional_t<is_half<T> || std::is_floating_point_v<T>, double,
                               std::conditional_t<std::is_unsigned_v<T>, std::uint64_t, std::int64_t>>;

/// A double to the f32 from which one more rounding, to 16 bits, gives what rounding the double at once would ("round to odd").
inline float toward_odd(double v) {
  const float f = static_cast<float>(v);
  std::uint32_t bits = std::bit_cast<std::uint32_t>(f);
  if (double(f) == v || v != v || (bits & 0x7f800000u) == 0x7f800000u || (bits & 1u)) return f;
  const bool away = (double(f) < v) == (v > 0);  // whether the exact value lies further from zero than f
  return std::bit_cast<float>(away ? bits + 1 : bits - 1);
}

/// Element i of plain bytes; nothing is asked of their alignment.
template <class T>
Compute<T> load(const std::byte* data, std::int64_t i) {
  const std::byte* at = data + i * std::int64_t(sizeof(T));
  if constexpr (std::is_same_v<T, bool>) {
    return *at != std::byte{0};
  } else {
    T v;
    std::memcpy(&v, at, sizeof(T));
    if constexpr (std::is_same_v<T, Half>)
      return f16_to_f32(v.bits);
    else if constexpr (std::is_same_v<T, Bfloat>)
      return bf16_to_f32(v.bits);
    else
      return v;
  }
}

/// Stores a value of any arithmetic type whose range the caller has seen to; 16-bit floats are rounded once, from the value given.
template <class T, class V>
void store(std::byte* data, std::int64_t i, V value) {
  std::byte* at = data + i * std::int64_t(sizeof(T));
  if constexpr (is_half<T>) {
    float f;
    if constexpr (std::is_same_v<V, double>)
      f = toward_odd(value);
    else
      f = static_cast<float>(value);
    const T v{std::is_same_v<T, Half> ? f32_to_f16(f) : f32_to_bf16(f)};
    std::memcpy(at, &v, sizeof(T));
  } else {
    const T v = static_cast<T>(value);
    std::memcpy(at, &v, sizeof(T));
  }
}

/// Element i of a tensor of integers (or booleans), whatever their width; of a tensor of numbers.
std::int64_t integer_at(const TensorView& view, std::int64_t i);
double number_at(const TensorView& view, std::int64_t i);

}  // namespace quern::ops::detail
