#include "formats/gguf/value.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/unaligned.h"
#include "formats/gguf/detail/layout.h"

namespace quern::gguf {
namespace {

// An integer of any width; `magnitude_bits` is its two's complement in 64 bits.
struct Integer {
  bool is_signed;
  std::uint64_t bits;
};

std::optional<Integer> load_integer(ValueType type, const std::byte* data, std::uint64_t i) {
  switch (type) {
    case ValueType::u8: return Integer{false, load<std::uint8_t>(data + i)};
    case ValueType::u16: return Integer{false, load<std::uint16_t>(data + 2 * i)};
    case ValueType::u32: return Integer{false, load<std::uint32_t>(data + 4 * i)};
    case ValueType::u64: return Integer{false, load<std::uint64_t>(data + 8 * i)};
    case ValueType::i8: return Integer{true, static_cast<std::uint64_t>(load<std::int8_t>(data + i))};
    case ValueType::i16: return Integer{true, static_cast<std::uint64_t>(load<std::int16_t>(data + 2 * i))};
    case ValueType::i32: return Integer{true, static_cast<std::uint64_t>(load<std::int32_t>(data + 4 * i))};
    case ValueType::i64: return Integer{true, static_cast<std::uint64_t>(load<std::int64_t>(data + 8 * i))};
    default: return std::nullopt;
  }
}

std::string decimal(Integer n) { return n.is_signed ? fmt::format("{}", static_cast<std::int64_t>(n.bits)) : fmt::format("{}", n.bits); }

}  // namespace

std::string detail::quoted(std::string_view text, std::size_t max, char quote) {
  std::string out(1, quote);
  std::size_t end = std::min(text.size(), max);
  while (end < text.size() && end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // not inside a character
  for (const char c : text.substr(0, end)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n')
      out += "\\n";
    else if (byte < 0x20 || byte == 0x7f)
      out += fmt::format("\\x{:02x}", byte);
    else if (c == quote || c == '\\')
      (out += '\\') += c;
    else
      out += c;
  }
  if (end < text.size()) out += "…";
  return out += quote;
}

std::string_view name(ValueType type) {
  switch (type) {
    case ValueType::u8: return "u8";
    case ValueType::i8: return "i8";
    case ValueType::u16: return "u16";
    case ValueType::i16: return "i16";
    case ValueType::u32: return "u32";
    case ValueType::i32: return "i32";
    case ValueType::f32: return "f32";
    case ValueType::boolean: return "bool";
    case ValueType::string: return "string";
    case ValueType::array: return "array";
    case ValueType::u64: return "u64";
    case ValueType::i64: return "i64";
    case ValueType::f64: return "f64";
  }
  return "unknown";
}

std::string_view Strings::Iterator::operator*() const {
  return {reinterpret_cast<const char*>(at_ + 8), static_cast<std::size_t>(load<std::uint64_t>(at_))};
}

Strings::Iterator& Strings::Iterator::operator++() {
  at_ += 8 + load<std::uint64_t>(at_);
  --left_;
  return *this;
}

Value::Value(const std::byte* entry) : key_(entry + 8), key_bytes_(static_cast<std::uint16_t>(load<std::uint64_t>(entry))) {
  element_type_ = static_cast<ValueType>(load<std::uint32_t>(key_ + key_bytes_));
  is_array_ = element_type_ == ValueType::array;
  if (is_array_) element_type_ = static_cast<ValueType>(load<std::uint32_t>(key_ + key_bytes_ + 4));
}

std::size_t Value::size() const { return is_array_ ? load<std::uint64_t>(key_ + key_bytes_ + 8) : 1; }

std::span<const std::byte> Value::bytes() const {
  if (element_type_ != ValueType::string) return {data(), static_cast<std::size_t>(size() * *detail::element_bytes(element_type_))};
  std::size_t total = 0;
  for (std::string_view text : Strings(data(), size())) total += 8 + text.size();
  return {data(), total};
}

Strings Value::strings() const {
  if (!is_array_ || element_type_ != ValueType::string) wrong_type("an array of strings");
  return {data(), size()};
}

void Value::wrong_type(std::string_view wanted) const {
  throw Error(Code::data_corrupt, fmt::format("metadata {} is {}{}, where {} is expected", detail::quoted(key()),
                                              is_array_ ? "an array of " : "", name(element_type_), wanted));
}

void Value::require_scalar() const {
  if (is_array_) wrong_type("a single value");
}

void Value::require_array() const {
  if (!is_array_) wrong_type("an array");
}

std::string_view Value::string() const {
  if (element_type_ != ValueType::string) wrong_type("a string");
  return *Strings::Iterator(data(), 1);
}

bool Value::boolean(std::uint64_t i) const {
  if (element_type_ != ValueType::boolean) wrong_type("a boolean");
  return load<std::uint8_t>(data() + i) != 0;
}

std::uint64_t Value::integer(std::uint64_t i, std::int64_t min, std::uint64_t max) const {
  const auto n = load_integer(element_type_, data(), i);
  if (!n) wrong_type("an integer");
  const bool negative = n->is_signed && static_cast<std::int64_t>(n->bits) < 0;
  if (negative ? static_cast<std::int64_t>(n->bits) < min : n->bits > max)
    throw Error(Code::data_corrupt, fmt::format("metadata {} is {}, outside {} to {}", detail::quoted(key()), decimal(*n), min, max));
  return n->bits;
}

double Value::floating(std::uint64_t i) const {
  if (element_type_ == ValueType::f32) return load<float>(data() + 4 * i);
  if (element_type_ == ValueType::f64) return load<double>(data() + 8 * i);
  wrong_type("a float");
}

std::string Value::text(std::size_t max_elements, std::size_t max_characters) const {
  const auto one = [&](std::uint64_t i) -> std::string {
    if (const auto n = load_integer(element_type_, data(), i)) return decimal(*n);
    if (element_type_ == ValueType::boolean) return boolean(i) ? "true" : "false";
    return element_type_ == ValueType::f32 ? fmt::format("{}", load<float>(data() + 4 * i)) : fmt::format("{}", floating(i));
  };
  const std::size_t shown = std::min<std::size_t>(size(), is_array_ ? max_elements : 1);
  std::string out;
  Strings::Iterator next(data(), size());
  for (std::size_t i = 0; i < shown; ++i) {
    if (i > 0) out += ", ";
    out += element_type_ == ValueType::string ? detail::quoted(*next++, max_characters, '"') : one(i);
  }
  if (!is_array_) return out;
  if (shown < size()) out += fmt::format("{}… {} in all", shown > 0 ? ", " : "", size());
  return "[" + out + "]";
}

}  // namespace quern::gguf
