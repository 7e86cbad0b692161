#include "ir/detail/text_values.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/float16.h"

namespace quern::ir::detail {
namespace {

/// Bytes of the UTF-8 character that starts at `at`; 0 when there is none.
std::size_t utf8_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(at);
  const std::size_t length = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
  const unsigned second = byte(at + 1);
  const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool outside = (first == 0xed && second >= 0xa0) || (first == 0xf4 && second >= 0x90);  // surrogates; above U+10FFFF
  return overlong || outside ? 0 : length;
}

/// The bits that plain "nan" stands for.
template <class Bits>
constexpr Bits kQuietNan = 0;
template <>
constexpr std::uint32_t kQuietNan<std::uint32_t> = 0x7fc00000u;
template <>
constexpr std::uint64_t kQuietNan<std::uint64_t> = 0x7ff8000000000000u;
constexpr std::uint16_t kQuietNanF16 = 0x7e00, kQuietNanBf16 = 0x7fc0;

template <class Integer>
std::string nan_text(Integer bits, Integer quiet) {
  if (bits == quiet) return "nan";
  char digits[24];
  return "nan(0x" + std::string(digits, std::to_chars(digits, digits + sizeof digits, bits, 16).ptr) + ")";
}

/// "nan" or "nan(0x…)": the bits, which the caller checks to be a NaN.
template <class Integer>
std::optional<Integer> nan_bits(std::string_view text, Integer quiet) {
  if (text == "nan") return quiet;
  if (!text.starts_with("nan(0x") || !text.ends_with(')')) return std::nullopt;
  text = text.substr(6, text.size() - 7);
  Integer bits = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bits, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return bits;
}

template <class Float>
std::string finite_text(Float value) {
  char digits[64];
  std::string out(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
  if (out.find_first_not_of("-0123456789") == std::string::npos) out += ".0";
  return out;
}

template <class Float, class Bits>
std::string float_text_of(Float value) {
  return std::isnan(value) ? nan_text(std::bit_cast<Bits>(value), kQuietNan<Bits>) : finite_text(value);
}

/// Numbers without the hexadecimal and long forms that from_chars would also take for NaN and infinity.
template <class Number>
std::optional<Number> number_from_text(std::string_view text) {
  if constexpr (std::is_floating_point_v<Number>)
    if (text.find_first_not_of("+-.0123456789eE") != std::string_view::npos && text != "inf" && text != "-inf") return std::nullopt;
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

template <class Float, class Bits>
std::optional<Float> float_from_text_of(std::string_view text) {
  if (const auto bits = nan_bits<Bits>(text, kQuietNan<Bits>)) {
    const auto value = std::bit_cast<Float>(*bits);
    return std::isnan(value) ? std::optional(value) : std::nullopt;
  }
  return number_from_text<Float>(text);
}

template <class Number>
bool store(const std::optional<Number>& value, std::byte* data) {
  if (value) std::memcpy(data, &*value, sizeof(Number));
  return value.has_value();
}

template <class Integer>
std::string load_integer(const std::byte* data) {
  Integer value;
  std::memcpy(&value, data, sizeof value);
  return std::to_string(value);
}

template <class Widen>
std::string half_text(const std::byte* data, Widen widen, std::uint16_t quiet) {
  std::uint16_t bits;
  std::memcpy(&bits, data, 2);
  const float value = widen(bits);
  return std::isnan(value) ? nan_text(bits, quiet) : finite_text(value);
}

template <class Widen, class Narrow>
std::optional<std::uint16_t> half_from_text(std::string_view text, Widen widen, Narrow narrow, std::uint16_t quiet) {
  if (const auto bits = nan_bits<std::uint16_t>(text, quiet)) return std::isnan(widen(*bits)) ? bits : std::nullopt;
  const auto value = number_from_text<float>(text);
  return value ? std::optional<std::uint16_t>(narrow(*value)) : std::nullopt;
}

bool same_bits(double a, double b) { return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b); }

}  // namespace

bool is_plain_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  });
}

std::string quoted(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (std::size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    const std::size_t length = utf8_length(text, i);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += text[i++];
    } else if (c == '\n' || c == '\t') {
      out += c == '\n' ? "\\n" : "\\t";
      ++i;
    } else if (length == 0 || c < 0x20 || c == 0x7f) {
      out += "\\x";
      out += kHex[c >> 4];
      out += kHex[c & 15];
      ++i;
    } else {
      out += text.substr(i, length);
      i += length;
    }
  }
  return out + '"';
}

std::string_view implied_name(const Value* value) {
  if (value == nullptr) return {};
  const std::string_view name = value->name;
  const bool made_up = name.size() > 1 && name[0] == 'v' && name.find_first_not_of("0123456789", 1) == std::string_view::npos;
  return made_up ? std::string_view() : name;
}

std::string float_text(double value) { return float_text_of<double, std::uint64_t>(value); }
std::optional<double> float_from_text(std::string_view text) { return float_from_text_of<double, std::uint64_t>(text); }

std::string element_text(DType dtype, const std::byte* data) {
  switch (dtype) {
    case DType::boolean:
    case DType::u8: return load_integer<std::uint8_t>(data);
    case DType::i8: return load_integer<std::int8_t>(data);
    case DType::i16: return load_integer<std::int16_t>(data);
    case DType::u16: return load_integer<std::uint16_t>(data);
    case DType::i32: return load_integer<std::int32_t>(data);
    case DType::u32: return load_integer<std::uint32_t>(data);
    case DType::i64: return load_integer<std::int64_t>(data);
    case DType::u64: return load_integer<std::uint64_t>(data);
    case DType::f16: return half_text(data, f16_to_f32, kQuietNanF16);
    case DType::bf16: return half_text(data, bf16_to_f32, kQuietNanBf16);
    case DType::f32: {
      float value;
      std::memcpy(&value, data, sizeof value);
      return float_text_of<float, std::uint32_t>(value);
    }
    default: {
      double value;
      std::memcpy(&value, data, sizeof value);
      return float_text(value);
    }
  }
}

bool element_from_text(DType dtype, std::string_view text, std::byte* data) {
  switch (dtype) {
    case DType::boolean:
    case DType::u8: return store(number_from_text<std::uint8_t>(text), data);
    case DType::i8: return store(number_from_text<std::int8_t>(text), data);
    case DType::i16: return store(number_from_text<std::int16_t>(text), data);
    case DType::u16: return store(number_from_text<std::uint16_t>(text), data);
    case DType::i32: return store(number_from_text<std::int32_t>(text), data);
    case DType::u32: return store(number_from_text<std::uint32_t>(text), data);
    case DType::i64: return store(number_from_text<std::int64_t>(text), data);
    case DType::u64: return store(number_from_text<std::uint64_t>(text), data);
    case DType::f16: return store(half_from_text(text, f16_to_f32, f32_to_f16, kQuietNanF16), data);
    case DType::bf16: return store(half_from_text(text, bf16_to_f32, f32_to_bf16, kQuietNanBf16), data);
    case DType::f32: return store(float_from_text_of<float, std::uint32_t>(text), data);
    case DType::f64: return store(float_from_text(text), data);
    default: return false;
  }
}

bool same_attribute(const Attribute& a, const Attribute& b) {
  if (a.index() != b.index()) return false;
  if (const auto* x = std::get_if<double>(&a)) return same_bits(*x, std::get<double>(b));
  if (const auto* x = std::get_if<std::vector<double>>(&a)) {
    const auto& y = std::get<std::vector<double>>(b);
    return std::equal(x->begin(), x->end(), y.begin(), y.end(), same_bits);
  }
  return a == b;
}

}  // namespace quern::ir::detail
