#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

// The wire format of Protocol Buffers, read in place: nothing is copied, every length is checked against the bytes that remain.
namespace quern::onnx::wire {

/// The bytes that messages are views of; turns a view into the offset that an error tells.
struct Source {
  std::string_view bytes;
  std::string path;

  std::uint64_t offset(const char* position) const { return static_cast<std::uint64_t>(position - bytes.data()); }
  [[noreturn]] void fail(Code code, std::string message, const char* position) const {
    throw Error(code, std::move(message)).at(path, offset(position));
  }
  [[noreturn]] void corrupt(std::string message, const char* position) const { fail(Code::data_corrupt, std::move(message), position); }
};

/// One field of a message. Its getters check that the field was written with the wire type that its declaration asks for.
class Field {
 public:
  std::uint32_t number = 0;

  std::string_view bytes() const;  // a nested message, or raw bytes
  std::string_view text() const;   // a string: valid UTF-8, no NUL
  std::int64_t integer() const;    // int32, int64, enum
  float number32() const;          // float
  const char* position() const { return at_; }

  /// Calls `take` for each element of a repeated number, packed or not.
  template <class F>
  void integers(F take) const;
  template <class F>
  void floats(F take) const;
  template <class F>
  void doubles(F take) const;

 private:
  friend class Reader;
  enum Kind : std::uint8_t { varint = 0, fixed64 = 1, length = 2, fixed32 = 5 };
  void expect(Kind kind) const;
  template <class T, class F>
  void fixed(Kind kind, F take) const;

  const Source* source_ = nullptr;
  const char* at_ = nullptr;
  Kind kind_ = varint;
  std::uint64_t value_ = 0;
  std::string_view bytes_;
};

/// Walks the fields of one message. Errors: data_corrupt with the offset.
class Reader {
 public:
  Reader(const Source& source, std::string_view message) : source_(source), at_(message.data()), end_(message.data() + message.size()) {}

  bool next(Field& field);
  std::uint64_t varint();
  bool done() const { return at_ == end_; }

 private:
  std::string_view take(std::uint64_t bytes);

  const Source& source_;
  const char* at_;
  const char* end_;
};

template <class F>
void Field::integers(F take) const {
  if (kind_ == varint) return take(static_cast<std::int64_t>(value_));
  expect(length);
  for (Reader reader(*source_, bytes_); !reader.done();) take(static_cast<std::int64_t>(reader.varint()));
}

template <class T, class F>
void Field::fixed(Kind kind, F take) const {
  T value;
  if (kind_ == kind) {
    __builtin_memcpy(&value, &value_, sizeof(T));  // x86 and ARM are little-endian, as is the wire
    return take(value);
  }
  expect(length);
  if (bytes_.size() % sizeof(T) != 0) source_->corrupt("a packed list of numbers has a broken length", at_);
  for (std::size_t i = 0; i < bytes_.size(); i += sizeof(T)) {
    __builtin_memcpy(&value, bytes_.data() + i, sizeof(T));
    take(value);
  }
}
template <class F>
void Field::floats(F take) const {
  fixed<float>(fixed32, take);
}
template <class F>
void Field::doubles(F take) const {
  fixed<double>(fixed64, take);
}

}  // namespace quern::onnx::wire
