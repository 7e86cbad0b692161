#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf/value.h"
#include "ir/dtype.h"

namespace quern::gguf {

/// Writes a GGUF file of version 3. Metadata and tensors come out in the order they were given; what is written always opens again with
/// File (the same limits hold: keys and names given once, rows of whole blocks …; else invalid_argument).
///
///   Writer out;
///   out.set("general.architecture", std::string_view("llama"));
///   out.add_tensor("x", ir::DType::f32, {rows, columns}, bytes);
///   out.write("model.gguf");
class Writer {
 public:
  /// Gives the bytes of one tensor; they must stay until the next call of any source. Called once, in the order of the tensors, so that a
  /// model larger than memory can be written.
  using Source = std::function<std::span<const std::byte>()>;

  /// A scalar: bool, any integer, float, double or string_view, written with its own width.
  template <Readable T>
  void set(std::string_view key, const T& value) {
    if constexpr (std::same_as<T, std::string>) {
      set(key, std::string_view(value));
    } else if constexpr (std::same_as<T, std::string_view>) {
      entry(key, ValueType::string, false, 1, string_bytes({&value, 1}));
    } else {
      entry(key, value_type<T>(), false, 1, std::as_bytes(std::span(&value, 1)));
    }
  }
  void set(std::string_view key, const char* text) { set(key, std::string_view(text)); }

  /// An array of numbers, or of booleans as std::span<const bool>.
  template <class T>
    requires std::integral<T> || std::floating_point<T>
  void set_array(std::string_view key, std::span<const T> values) {
    entry(key, value_type<T>(), true, values.size(), std::as_bytes(values));
  }
  void set_array(std::string_view key, std::span<const std::string_view> values) {
    entry(key, ValueType::string, true, values.size(), string_bytes(values));
  }

  /// An entry of another file, as it is. "general.alignment", set or copied, decides the alignment of this file (32 without it).
  void copy(const Value& value);

  /// A tensor whose shape is row-major, the fastest dimension last, as the IR writes it. `data` is borrowed until write() returns.
  void add_tensor(std::string_view name, ir::DType type, std::span<const std::int64_t> shape, std::span<const std::byte> data);
  void add_tensor(std::string_view name, ir::DType type, std::span<const std::int64_t> shape, Source source);

  /// Writes beside `path` first and then renames, so that `path` is either the whole new file or what it was before.
  /// Errors: invalid_argument (cannot write there; a source gave the wrong number of bytes), resource_exhausted (no space left).
  void write(const std::string& path) const;

 private:
  struct Planned {
    std::string name;
    std::uint64_t bytes;
    Source source;
  };

  template <class T>
  static constexpr ValueType value_type() {
    if constexpr (std::same_as<T, bool>) return ValueType::boolean;
    if constexpr (std::floating_point<T>) return sizeof(T) == 4 ? ValueType::f32 : ValueType::f64;
    constexpr ValueType kSigned[] = {ValueType::i8, ValueType::i16, ValueType::i32, ValueType::i64};
    constexpr ValueType kUnsigned[] = {ValueType::u8, ValueType::u16, ValueType::u32, ValueType::u64};
    constexpr int kIndex = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
    return std::signed_integral<T> ? kSigned[kIndex] : kUnsigned[kIndex];
  }

  static std::vector<std::byte> string_bytes(std::span<const std::string_view> strings);
  void entry(std::string_view key, ValueType type, bool is_array, std::uint64_t size, std::span<const std::byte> bytes);

  std::set<std::string, std::less<>> keys_, names_;
  std::vector<std::byte> metadata_;   // the entries as the file has them
  std::vector<std::byte> infos_;      // the tensors' entries but for their offsets, which the alignment decides …
  std::vector<std::size_t> offsets_;  // … and where in infos_ these go
  std::vector<Planned> tensors_;
  std::uint64_t alignment_ = 32;
};

}  // namespace quern::gguf
