#include "formats/npy/npy.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace quern::npy {
namespace {

using ir::DType;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kData = std::string(QUERN_SOURCE_DIR) + "/tests/formats/npy/data/";

template <class T>
std::vector<T> values(const Array& a) {
  std::vector<T> out(a.bytes.size() / sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), a.bytes.data(), a.bytes.size());
  return out;
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Array read_text(const std::string& bytes) { return read(std::as_bytes(std::span(bytes)), nullptr, "test.npy"); }

std::string refusal(const std::string& bytes, Code code) {
  try {
    read_text(bytes);
  } catch (const Error& e) {
    EXPECT_EQ(name(e.code()), name(code)) << e.what();
    return e.what();
  }
  return "";
}

/// A file of version 1 with this dictionary and so many bytes of data.
std::string file_of(const std::string& dict, std::size_t data = 0) {
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(dict.size() & 0xff) + static_cast<char>(dict.size() >> 8) + dict +
         std::string(data, '\0');
}

struct Plain {
  const char* file;
  DType dtype;
};
constexpr Plain kPlain[] = {{"bool", DType::boolean}, {"int8", DType::i8},     {"int16", DType::i16},   {"int32", DType::i32},
                            {"int64", DType::i64},    {"uint8", DType::u8},    {"uint16", DType::u16},  {"uint32", DType::u32},
                            {"uint64", DType::u64},   {"float16", DType::f16}, {"float32", DType::f32}, {"float64", DType::f64}};

TEST(Npy, reads_every_plain_type_and_writes_the_very_bytes_that_numpy_wrote) {
  const std::string copy = std::filesystem::temp_directory_path() / ("quern_npy_test_" + std::to_string(::getpid()) + ".npy");
  for (const Plain& p : kPlain) {
    SCOPED_TRACE(p.file);
    const Array a = read_file(kData + p.file + ".npy");
    EXPECT_EQ(a.dtype, p.dtype);
    EXPECT_THAT(a.shape, ElementsAre(2, 3));
    write_file(copy, a);
    EXPECT_EQ(contents(copy), contents(kData + p.file + ".npy"));
  }
  for (const char* file : {"scalar", "empty", "version1"}) {
    write_file(copy, read_file(kData + file + ".npy"));
    EXPECT_EQ(contents(copy), contents(kData + file + ".npy")) << file;
  }
  std::filesystem::remove(copy);
}

TEST(Npy, reads_the_numbers_that_numpy_wrote) {
  EXPECT_THAT(values<std::int32_t>(read_file(kData + "int32.npy")), ElementsAre(-3, -2, -1, 0, 1, 2));
  EXPECT_THAT(values<float>(read_file(kData + "float32.npy")), ElementsAre(-3, -2, -1, 0, 1, 2));
  EXPECT_THAT(values<float>(read_file(kData + "scalar.npy")), ElementsAre(2.5f));
  EXPECT_TRUE(read_file(kData + "scalar.npy").shape.empty());
  EXPECT_THAT(read_file(kData + "empty.npy").shape, ElementsAre(0, 7));
}

TEST(Npy, reads_all_three_versions_of_the_header) {
  for (const char* file : {"version1.npy", "version2.npy", "version3.npy"})
    EXPECT_THAT(values<std::int32_t>(read_file(kData + file)), ElementsAre(0, 1, 2, 3, 4)) << file;
}

TEST(Npy, a_column_major_array_is_brought_into_row_major_order) {
  const Array a = read_file(kData + "fortran.npy");
  EXPECT_THAT(a.shape, ElementsAre(2, 3, 4));
  std::vector<std::int16_t> expected(24);
  for (int i = 0; i < 24; ++i) expected[i] = static_cast<std::int16_t>(i);
  EXPECT_EQ(values<std::int16_t>(a), expected);
}

TEST(Npy, bfloat16_survives_writing_and_reading) {
  const std::string bytes = header(DType::bf16, std::vector<std::int64_t>{2}) + std::string("\x80\x3f\x00\xc0", 4);
  const Array a = read_text(bytes);
  EXPECT_EQ(a.dtype, DType::bf16);
  EXPECT_THAT(values<std::uint16_t>(a), ElementsAre(0x3f80, 0xc000));
}

TEST(Npy, what_is_not_a_plain_little_endian_array_is_unsupported) {
  EXPECT_THAT(refusal(contents(kData + "big_endian.npy"), Code::unsupported), HasSubstr("big-endian"));
  EXPECT_THAT(refusal(contents(kData + "complex.npy"), Code::unsupported), HasSubstr("<c8"));
  EXPECT_THAT(refusal(contents(kData + "structured.npy"), Code::unsupported), HasSubstr("structured"));
  EXPECT_THAT(refusal(contents(kData + "text.npy"), Code::unsupported), HasSubstr("<U2"));
  EXPECT_THROW(header(DType::q4_0, {}), Error);
}

TEST(Npy, hostile_headers_are_refused) {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
  EXPECT_THAT(values<float>(read_text(file_of(good, 8))), ElementsAre(0, 0));
  const auto shape = [](const std::string& s) { return file_of("{'descr': '<f4', 'fortran_order': False, 'shape': " + s + "}"); };
  EXPECT_THAT(refusal(shape("(4294967296, 4294967296)"), Code::data_corrupt), HasSubstr("overflows"));
  EXPECT_THAT(refusal(shape("(99999999999999999999,)"), Code::data_corrupt), HasSubstr("64 bits"));
  EXPECT_THAT(refusal(shape("(-1,)"), Code::data_corrupt), HasSubstr("not negative"));
  EXPECT_THAT(refusal(shape("(1000000000,)"), Code::data_corrupt), HasSubstr("4000000000 bytes"));
  EXPECT_THAT(refusal(shape("(" + std::string(500, '1') + ")"), Code::data_corrupt), HasSubstr("64 bits"));
  std::string many = "(";
  for (int i = 0; i < 1000; ++i) many += "1,";
  EXPECT_THAT(refusal(shape(many + ")"), Code::unsupported), HasSubstr("32 dimensions"));
  EXPECT_THAT(refusal(file_of(good, 7), Code::data_corrupt), HasSubstr("8 bytes of data, but the file has 7"));
  EXPECT_THAT(refusal(file_of(good, 9), Code::data_corrupt), HasSubstr("has 9"));
  EXPECT_THAT(refusal(file_of(good + "x", 8), Code::data_corrupt), HasSubstr("goes on"));
  EXPECT_THAT(refusal(file_of("{'shape': (), 'shape': ()}"), Code::data_corrupt), HasSubstr("repeated"));
  EXPECT_THAT(refusal(file_of("{'shape': ()}"), Code::data_corrupt), HasSubstr("lacks"));
  EXPECT_THAT(refusal(file_of("{'descr': __import__('os')}"), Code::data_corrupt), HasSubstr("string expected"));
  EXPECT_THAT(refusal(file_of(""), Code::data_corrupt), HasSubstr("'{' expected"));
  EXPECT_THAT(refusal(std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12), Code::data_corrupt), HasSubstr("ends inside"));
  EXPECT_THAT(refusal(std::string("\x93NUMPY\x09\x00\x00\x00", 10), Code::unsupported), HasSubstr("version 9"));
  EXPECT_THAT(refusal("PK\x03\x04", Code::data_corrupt), HasSubstr("not a .npy"));
}

TEST(Npy, a_truncated_file_is_refused_at_every_length) {
  const std::string whole = contents(kData + "float32.npy");
  for (std::size_t n = 0; n < whole.size(); ++n) EXPECT_NE(refusal(whole.substr(0, n), Code::data_corrupt), "") << n;
}

TEST(Npy, an_empty_column_major_array_with_absurd_other_dimensions_is_empty) {
  EXPECT_TRUE(
      read_text(file_of("{'descr': '<f8', 'fortran_order': True, 'shape': (9223372036854775807, 9223372036854775807, 0)}")).bytes.empty());
}

TEST(Npy, bytes_that_do_not_fit_the_shape_are_not_written) {
  const std::byte four[4] = {};
  EXPECT_THROW(write_file("/nonexistent/x.npy", DType::f32, std::vector<std::int64_t>{2}, four), Error);
  EXPECT_THROW(write_file("/nonexistent/x.npy", DType::f32, std::vector<std::int64_t>{1}, four), Error);
}

}  // namespace
}  // namespace quern::npy
