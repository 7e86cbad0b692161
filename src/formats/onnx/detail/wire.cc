#include "formats/onnx/detail/wire.h"

#include <cstring>

namespace quern::onnx::wire {
namespace {

/// Names go into messages, JSON and file names, so text that is not text is refused at the door.
bool is_utf8_text(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    const std::size_t n = c < 0x80 ? 1 : c >> 5 == 6 ? 2 : c >> 4 == 14 ? 3 : c >> 3 == 30 ? 4 : 0;
    if (c == 0 || n == 0 || n > text.size() - i) return false;
    std::uint32_t point = n == 1 ? c : c & (0x7fu >> n);
    for (std::size_t j = 1; j < n; ++j) {
      const auto next = static_cast<unsigned char>(text[i + j]);
      if (next >> 6 != 2) return false;
      point = point << 6 | (next & 0x3f);
    }
    constexpr std::uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (point < kSmallest[n] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) return false;
    i += n;
  }
  return true;
}

}  // namespace

void Field::expect(Kind kind) const {
  if (kind_ != kind)
    source_->corrupt(
        "field " + std::to_string(number) + " is written as wire type " + std::to_string(kind_) + ", not " + std::to_string(kind), at_);
}

std::string_view Field::bytes() const {
  expect(length);
  return bytes_;
}

std::string_view Field::text() const {
  expect(length);
  if (!is_utf8_text(bytes_)) source_->corrupt("a name is not valid UTF-8 text", at_);
  return bytes_;
}

std::int64_t Field::integer() const {
  expect(varint);
  return static_cast<std::int64_t>(value_);
}

float Field::number32() const {
  expect(fixed32);
  float value;
  std::memcpy(&value, &value_, 4);
  return value;
}

std::uint64_t Reader::varint() {
  const char* const start = at_;
  std::uint64_t value = 0;
  for (int shift = 0; at_ != end_; shift += 7) {
    const auto byte = static_cast<unsigned char>(*at_++);
    if (shift == 63 && byte > 1) source_.corrupt("a number is longer than 64 bits", start);
    value |= std::uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
  source_.corrupt("the file ends inside a number", start);
}

std::string_view Reader::take(std::uint64_t bytes) {
  const auto left = static_cast<std::uint64_t>(end_ - at_);
  if (bytes > left)
    source_.corrupt("a field of " + std::to_string(bytes) + " bytes ends past its message, which has " + std::to_string(left) + " left",
                    at_);
  const std::string_view out(at_, static_cast<std::size_t>(bytes));
  at_ += bytes;
  return out;
}

bool Reader::next(Field& field) {
  if (at_ == end_) return false;
  field.source_ = &source_;
  field.at_ = at_;
  const std::uint64_t tag = varint();
  if (tag >> 3 == 0 || tag >> 3 > 0x1fffffff)
    source_.corrupt("field number " + std::to_string(tag >> 3) + " is impossible: is this an ONNX file?", field.at_);
  field.number = static_cast<std::uint32_t>(tag >> 3);
  const auto kind = static_cast<Field::Kind>(tag & 7);
  field.kind_ = kind;
  switch (kind) {
    case Field::varint: field.value_ = varint(); return true;
    case Field::length: field.bytes_ = take(varint()); return true;
    case Field::fixed64:
    case Field::fixed32: {
      const std::string_view bytes = take(kind == Field::fixed64 ? 8 : 4);
      field.value_ = 0;
      std::memcpy(&field.value_, bytes.data(), bytes.size());
      return true;
    }
  }
  source_.corrupt("wire type " + std::to_string(tag & 7) + " is not used by ONNX: is this an ONNX file?", field.at_);
}

}  // namespace quern::onnx::wire
