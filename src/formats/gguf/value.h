#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace quern::gguf {

/// The kinds of metadata, with the numbers the file writes.
enum class ValueType : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

/// "u8" … "bool", "string", "array".
std::string_view name(ValueType type);

/// What a metadata value can be read as.
template <class T>
concept Readable = std::same_as<T, std::string_view> || std::same_as<T, std::string> || std::integral<T> || std::floating_point<T>;

/// The strings of an array, one after the other, without a copy: for (std::string_view token : value.strings()).
class Strings {
 public:
  class Iterator {
   public:
    using value_type = std::string_view;
    using difference_type = std::ptrdiff_t;

    Iterator() = default;
    Iterator(const std::byte* at, std::uint64_t left) : at_(at), left_(left) {}
    std::string_view operator*() const;
    Iterator& operator++();
    Iterator operator++(int) {
      Iterator old = *this;
      ++*this;
      return old;
    }
    friend bool operator==(const Iterator& a, const Iterator& b) { return a.left_ == b.left_; }

   private:
    const std::byte* at_ = nullptr;
    std::uint64_t left_ = 0;
  };

  Strings(const std::byte* data, std::uint64_t size) : data_(data), size_(size) {}
  Iterator begin() const { return {data_, size_}; }
  Iterator end() const { return {nullptr, 0}; }
  std::size_t size() const { return size_; }

 private:
  const std::byte* data_;
  std::uint64_t size_;
};

/// One metadata entry: a key and a scalar, a string, or an array of either. A view into the file (16 bytes, no copy of the contents), valid
/// as long as the File it came from. The reader has checked all lengths.
///
/// Reading is typed. An integer of any width converts to any other that holds its value (converters differ in the width they write); a
/// float converts between f32 and f64; nothing else converts. Errors: data_corrupt, naming the key, what was found and what was asked for.
class Value {
 public:
  /// `entry` is an entry of a file from the first byte of its key's length on, already checked.
  explicit Value(const std::byte* entry);

  std::string_view key() const { return {reinterpret_cast<const char*>(key_), key_bytes_}; }
  bool is_array() const { return is_array_; }
  /// The type of the scalar, or of the array's elements; never `array` (arrays of arrays are refused).
  ValueType element_type() const { return element_type_; }
  /// Elements of the array; 1 for a scalar.
  std::size_t size() const;
  /// The bytes of the elements as the file has them: numbers little-endian at any address, each string after its u64 length.
  std::span<const std::byte> bytes() const;

  /// The value of a scalar.
  template <Readable T>
  T get() const {
    require_scalar();
    return element<T>(0);
  }

  /// The elements of an array, converted as get() does. For string_view they point into the file.
  template <Readable T, class Container = std::vector<T>>
  Container array() const {
    require_array();
    Container out;
    const std::size_t count = size();
    out.reserve(count);
    if constexpr (std::same_as<T, std::string_view> || std::same_as<T, std::string>) {
      for (std::string_view text : strings()) out.emplace_back(text);
    } else {
      for (std::uint64_t i = 0; i < count; ++i) out.push_back(element<T>(i));
    }
    return out;
  }

  /// The strings of an array of strings.
  Strings strings() const;

  /// For people: `"llama"`, `[1, 2, 3, … 49152 in all]`; long strings are cut and control characters escaped.
  std::string text(std::size_t max_elements = 8, std::size_t max_characters = 60) const;

 private:
  template <class T>
  T element(std::uint64_t i) const {
    if constexpr (std::same_as<T, std::string_view> || std::same_as<T, std::string>) {
      return T(string());
    } else if constexpr (std::same_as<T, bool>) {
      return boolean(i);
    } else if constexpr (std::integral<T>) {
      using Limits = std::numeric_limits<T>;
      return static_cast<T>(integer(i, std::int64_t(Limits::min()), std::uint64_t(Limits::max())));
    } else {
      return static_cast<T>(floating(i));
    }
  }

  void require_scalar() const;
  void require_array() const;
  std::string_view string() const;
  bool boolean(std::uint64_t i) const;
  std::uint64_t integer(std::uint64_t i, std::int64_t min, std::uint64_t max) const;  // two's complement
  double floating(std::uint64_t i) const;
  [[noreturn]] void wrong_type(std::string_view wanted) const;

  const std::byte* data() const { return key_ + key_bytes_ + (is_array_ ? 16 : 4); }  // past the type, or types and length

  const std::byte* key_;
  std::uint16_t key_bytes_;
  bool is_array_;
  ValueType element_type_;
};

}  // namespace quern::gguf
