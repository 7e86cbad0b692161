#include "formats/onnx/detail/wire.h"

#include <gmock/gmock.h>

#include <cstring>

#include "formats/onnx/detail/model.h"
#include "proto.h"

namespace quern::onnx {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;

std::string walk(const std::string& bytes) {
  const wire::Source source{bytes, "file"};
  try {
    wire::Field f;
    for (wire::Reader reader(source, bytes); reader.next(f);) continue;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::data_corrupt);
    return e.what();
  }
  return "fine";
}

TEST(OnnxWire, unknown_fields_of_every_wire_type_are_skipped) {
  EXPECT_EQ(walk(number(999, -1) + tag(1000, 1) + "12345678" + text(1001, "abc") + tag(1002, 5) + "1234"), "fine");
}

TEST(OnnxWire, broken_bytes_are_refused_with_their_offset) {
  EXPECT_THAT(walk(number(1, 1) + std::string(11, '\xff')), testing::AllOf(HasSubstr("longer than 64 bits"), HasSubstr("offset 2")));
  EXPECT_THAT(walk("\x80"), HasSubstr("ends inside a number"));
  EXPECT_THAT(walk(tag(1, 2) + varint(~std::uint64_t{0}) + "x"), HasSubstr("ends past its message"));
  EXPECT_THAT(walk(tag(1, 1) + "1234567"), HasSubstr("ends past its message"));
  EXPECT_THAT(walk(tag(1, 3) + tag(1, 4)), HasSubstr("wire type 3"));
  EXPECT_THAT(walk(tag(1, 6)), HasSubstr("wire type 6"));
  EXPECT_THAT(walk(tag(0, 0) + "\x01"), HasSubstr("field number 0"));
}

TEST(OnnxWire, repeated_numbers_are_read_packed_and_not_packed) {
  const std::string bytes = number(8, 1) + text(8, varint(2) + varint(~std::uint64_t{0})) + number(8, 300);
  const AttributeProto a = parse_attribute({bytes, "file"}, bytes);
  EXPECT_THAT(a.integers, ElementsAre(1, 2, -1, 300));
  float values[] = {1.5f, -2};
  const std::string packed(reinterpret_cast<const char*>(values), 8);
  const std::string floats = text(7, packed) + tag(7, 5) + packed.substr(0, 4);
  EXPECT_THAT(parse_attribute({floats, "file"}, floats).numbers, ElementsAre(1.5f, -2, 1.5f));
}

TEST(OnnxWire, a_field_of_the_wrong_wire_type_is_refused) {
  const std::string bytes = number(1, 5);  // AttributeProto.name as a number
  EXPECT_THROW(parse_attribute({bytes, "file"}, bytes), Error);
}

TEST(OnnxWire, names_must_be_text) {
  for (const std::string& bad : {std::string("\0", 1), std::string("\xff"), std::string("\xc0\x80"), std::string("\xed\xa0\x80"),
                                 std::string("\xe2\x82"), std::string("\xf5\x80\x80\x80")}) {
    const std::string bytes = text(1, bad);
    EXPECT_THROW(parse_attribute({bytes, "file"}, bytes), Error) << testing::PrintToString(bad);
  }
  const std::string good = text(1, "größe/層/🙂");
  EXPECT_EQ(parse_attribute({good, "file"}, good).name, "größe/層/🙂");
}

}  // namespace
}  // namespace quern::onnx
