#include "formats/gguf/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "bytes.h"

namespace quern::gguf {
namespace {

using testing::Bytes;
using testing::data_path;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::read_file;
using testing::TemporaryDirectory;
using testing::write_file;

template <class F>
Error error_of(F f) {
  try {
    f();
  } catch (const Error& e) {
    return e;
  }
  return Error(Code::internal, "no error");
}

// What make_files.py wrote with the reference writer.
class GgufFile : public ::testing::Test {
 protected:
  File file_ = File::open(data_path("python.gguf"));
};

TEST_F(GgufFile, reads_every_scalar_type) {
  EXPECT_EQ(file_.version(), 3u);
  EXPECT_EQ(file_.get<std::string_view>("general.architecture"), "test");
  EXPECT_EQ(file_.get<std::uint8_t>("t.u8"), 200);
  EXPECT_EQ(file_.get<std::int8_t>("t.i8"), -100);
  EXPECT_EQ(file_.get<std::uint16_t>("t.u16"), 60000);
  EXPECT_EQ(file_.get<std::int16_t>("t.i16"), -30000);
  EXPECT_EQ(file_.get<std::uint32_t>("t.u32"), 4000000000u);
  EXPECT_EQ(file_.get<std::int32_t>("t.i32"), -2000000000);
  EXPECT_EQ(file_.get<float>("t.f32"), 0.1f);
  EXPECT_EQ(file_.get<bool>("t.true"), true);
  EXPECT_EQ(file_.get<bool>("t.false"), false);
  EXPECT_EQ(file_.get<std::string>("t.string"), "grüße\n\"q\"");
  EXPECT_EQ(file_.get<std::string_view>("t.empty"), "");
  EXPECT_EQ(file_.get<std::uint64_t>("t.u64"), 18446744073709551615u);
  EXPECT_EQ(file_.get<std::int64_t>("t.i64"), INT64_MIN);
  EXPECT_EQ(file_.get<double>("t.f64"), 0.1);
}

TEST_F(GgufFile, reads_arrays) {
  EXPECT_THAT(file_.array<std::uint8_t>("t.array.u8"), ElementsAre(1, 2, 255));
  EXPECT_THAT(file_.array<std::int64_t>("t.array.i32"), ElementsAre(-1, 0, 7));
  EXPECT_THAT(file_.array<float>("t.array.f32"), ElementsAre(0.5f, -0.25f));
  EXPECT_THAT(file_.array<bool>("t.array.bool"), ElementsAre(true, false, true));
  EXPECT_THAT(file_.array<std::string_view>("t.array.string"), ElementsAre("a", "", "ccc", "ü"));
  EXPECT_THAT(file_.array<std::string>("t.array.string"), ElementsAre("a", "", "ccc", "ü"));
  EXPECT_THAT(file_.array<std::uint64_t>("t.array.u64"), ElementsAre(0u, 9223372036854775808u));
  const Strings strings = file_.find("t.array.string")->strings();
  EXPECT_EQ(strings.size(), 4u);
  EXPECT_EQ(std::vector<std::string_view>(strings.begin(), strings.end()).at(2), "ccc");
}

TEST_F(GgufFile, converts_between_integer_widths_when_the_value_fits) {
  EXPECT_EQ(file_.get<std::int64_t>("t.u8"), 200);
  EXPECT_EQ(file_.get<std::uint64_t>("t.u32"), 4000000000u);
  EXPECT_EQ(file_.get<double>("t.f32"), static_cast<double>(0.1f));
  EXPECT_THAT(error_of([&] { file_.get<std::int8_t>("t.u8"); }).what(), HasSubstr("'t.u8' is 200, outside -128 to 127"));
  EXPECT_THAT(error_of([&] { file_.get<std::uint32_t>("t.i8"); }).what(), HasSubstr("'t.i8' is -100, outside 0 to 4294967295"));
  EXPECT_THAT(error_of([&] { file_.get<std::int64_t>("t.u64"); }).what(), HasSubstr("18446744073709551615"));
  EXPECT_THAT(error_of([&] { file_.array<std::uint32_t>("t.array.i32"); }).what(), HasSubstr("is -1, outside 0"));
}

TEST_F(GgufFile, names_file_key_and_types_when_a_type_is_wrong) {
  const Error e = error_of([&] { file_.get<std::uint32_t>("t.string"); });
  EXPECT_EQ(e.code(), Code::data_corrupt);
  EXPECT_THAT(e.what(), HasSubstr("metadata 't.string' is string, where an integer is expected"));
  EXPECT_THAT(e.what(), HasSubstr("python.gguf"));
  EXPECT_THAT(error_of([&] { file_.get<float>("t.u8"); }).what(), HasSubstr("is u8, where a float is expected"));
  EXPECT_THAT(error_of([&] { file_.get<bool>("t.u8"); }).what(), HasSubstr("where a boolean is expected"));
  EXPECT_THAT(error_of([&] { file_.get<std::uint8_t>("t.true"); }).what(), HasSubstr("is bool, where an integer"));
  EXPECT_THAT(error_of([&] { file_.get<std::uint8_t>("t.array.u8"); }).what(), HasSubstr("an array of u8, where a single value"));
  EXPECT_THAT(error_of([&] { file_.array<std::uint8_t>("t.u8"); }).what(), HasSubstr("is u8, where an array"));
  EXPECT_THAT(error_of([&] { file_.array<std::string_view>("t.array.u8"); }).what(), HasSubstr("array of strings"));
}

TEST_F(GgufFile, tells_missing_from_wrong) {
  EXPECT_EQ(file_.get<std::uint32_t>("absent", 7), 7u);
  EXPECT_EQ(file_.get<std::uint32_t>("t.u8", 7), 200u);
  EXPECT_THROW(file_.get<std::uint32_t>("t.string", 7), Error);
  EXPECT_EQ(file_.find("absent"), nullptr);
  EXPECT_THAT(error_of([&] { file_.get<std::uint32_t>("absent"); }).what(), HasSubstr("has no metadata 'absent' (at "));
  EXPECT_EQ(file_.find_tensor("absent"), nullptr);
  EXPECT_THAT(error_of([&] { file_.tensor("absent"); }).what(), HasSubstr("has no tensor 'absent'"));
}

TEST_F(GgufFile, keeps_the_order_of_the_metadata_and_prints_it) {
  std::vector<std::string> keys, texts;
  for (const Value& v : file_.metadata()) {
    keys.emplace_back(v.key());
    texts.push_back(v.text(2, 5));
  }
  EXPECT_THAT(std::vector(keys.begin(), keys.begin() + 3), ElementsAre("general.architecture", "t.u8", "t.i8"));
  EXPECT_EQ(keys.back(), "t.array.u64");
  EXPECT_THAT(texts,
              ElementsAre("\"test\"", "200", "-100", "60000", "-30000", "4000000000", "-2000000000", "0.1", "true", "false", "\"grü…\"",
                          "\"\"", "18446744073709551615", "-9223372036854775808", "0.1", "[1, 2, … 3 in all]", "[-1, 0, … 3 in all]",
                          "[0.5, -0.25]", "[true, false, … 3 in all]", "[\"a\", \"\", … 4 in all]", "[0, 9223372036854775808]"));
  EXPECT_EQ(file_.find("t.string")->text(), R"("grüße\n\"q\"")");
}

TEST_F(GgufFile, lists_tensors_with_both_orders_of_dimensions) {
  ASSERT_EQ(file_.tensors().size(), 4u);
  const Tensor& ramp = file_.tensor("ramp");
  EXPECT_EQ(ramp.type, ir::DType::f32);
  EXPECT_THAT(ramp.dims, ElementsAre(3, 2, 1, 1));
  EXPECT_THAT(ramp.shape(), ElementsAre(2, 3));
  EXPECT_EQ(ramp.data.size(), 24u);
  EXPECT_EQ(reinterpret_cast<const float*>(ramp.data.data())[5], 5.0f);
  EXPECT_EQ(file_.tensor("half").type, ir::DType::f16);
  const Tensor& blocks = file_.tensor("bytes");
  EXPECT_EQ(blocks.type, ir::DType::q4_0);
  EXPECT_THAT(blocks.shape(), ElementsAre(2, 64));
  EXPECT_EQ(blocks.data.size(), 72u);
  EXPECT_EQ(blocks.data[71], std::byte{71});
  EXPECT_THAT(file_.tensor("cube").shape(), ElementsAre(2, 3, 4));
  EXPECT_EQ(file_.tensor("cube").elements(), 24);
}

TEST(GgufSplit, opens_all_parts_from_any_of_them) {
  for (const char* name : {"split-00001-of-00003.gguf", "split-00003-of-00003.gguf"}) {
    const File file = File::open(data_path(name));
    EXPECT_EQ(file.parts(), 3u);
    EXPECT_EQ(file.bytes(), 352u + 416u + 224u);
    EXPECT_EQ(file.get<std::string_view>("t.string"), "in the first part");
    std::vector<std::string_view> names;
    for (const Tensor& t : file.tensors()) names.push_back(t.name);
    EXPECT_THAT(names, ElementsAre("ramp", "half", "bytes", "cube", "last"));
    EXPECT_EQ(reinterpret_cast<const std::int64_t*>(file.tensor("last").data.data())[4], 4);
  }
}

class GgufSplitBroken : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int i = 1; i <= 3; ++i) write_file(directory_ / part(i), read_file(data_path(part(i))));
  }
  static std::string part(int i) { return "split-0000" + std::to_string(i) + "-of-00003.gguf"; }
  Error open_error(int i = 1) {
    return error_of([&] { File::open(directory_ / part(i)); });
  }
  TemporaryDirectory directory_;
};

TEST_F(GgufSplitBroken, names_the_part_that_is_missing) {
  std::filesystem::remove(directory_ / part(2));
  EXPECT_EQ(open_error().code(), Code::not_found);
  EXPECT_THAT(open_error().what(), HasSubstr("split-00002-of-00003.gguf"));
}

TEST_F(GgufSplitBroken, refuses_a_part_that_belongs_elsewhere) {
  write_file(directory_ / part(2), read_file(data_path(part(3))));
  EXPECT_THAT(open_error().what(), HasSubstr("'split.no' is 2, where 1 is expected"));
  EXPECT_THAT(open_error(3).what(), HasSubstr("'split.no' is 2, where 1 is expected"));
  write_file(directory_ / part(2), read_file(data_path("python.gguf")));
  EXPECT_THAT(open_error().what(), HasSubstr("'split.no' is missing, where 1 is expected"));
}

TEST_F(GgufSplitBroken, refuses_a_part_under_another_name) {
  std::filesystem::rename(directory_ / part(1), directory_ / "model.gguf");
  EXPECT_THAT(error_of([&] { File::open(directory_ / "model.gguf"); }).what(),
              HasSubstr("is one of 3 parts of a model, but is not named so"));
}

TEST_F(GgufSplitBroken, refuses_parts_that_share_a_tensor) {
  const auto part_with = [&](std::uint16_t no, std::string_view tensor) {
    Bytes b;
    b.header(1, 2).string("split.no").u32(2).put(no).string("split.count").u32(2).put(std::uint16_t{2});
    b.tensor(tensor, {1}, 0, 0).pad().zeros(4);
    write_file(directory_ / ("two-0000" + std::to_string(no + 1) + "-of-00002.gguf"), b.data);
  };
  part_with(0, "x");
  part_with(1, "y");
  EXPECT_EQ(File::open(directory_ / "two-00002-of-00002.gguf").tensors().size(), 2u);
  part_with(1, "x");
  EXPECT_THAT(error_of([&] { File::open(directory_ / "two-00001-of-00002.gguf"); }).what(), HasSubstr("tensor 'x' appears twice"));
}

TEST_F(GgufSplitBroken, counts_the_tensors_of_all_parts) {
  const auto part_with = [&](std::uint16_t no) {
    Bytes b;
    b.header(0, 3).string("split.no").u32(2).put(no).string("split.count").u32(2).put(std::uint16_t{2});
    b.string("split.tensors.count").u32(5).put(std::int32_t{9});
    write_file(directory_ / ("two-0000" + std::to_string(no + 1) + "-of-00002.gguf"), b.data);
  };
  part_with(0);
  part_with(1);
  EXPECT_THAT(error_of([&] { File::open(directory_ / "two-00001-of-00002.gguf"); }).what(),
              HasSubstr("have 0 tensors, where 9 are expected"));
}

TEST(GgufMemory, reads_bytes_in_memory_and_not_one_part_of_many) {
  const std::vector<std::byte> bytes = read_file(data_path("python.gguf"));
  EXPECT_EQ(File::over(bytes, "memory").tensor("cube").elements(), 24);
  const std::vector<std::byte> part = read_file(data_path("split-00002-of-00003.gguf"));
  EXPECT_EQ(error_of([&] { File::over(part, "memory"); }).code(), Code::unsupported);
}

TEST(GgufMemory, survives_a_move) {
  File a = File::open(data_path("python.gguf"));
  const File b = std::move(a);
  EXPECT_EQ(b.get<std::uint8_t>("t.u8"), 200);
}

TEST(GgufVersion, reads_version_2) {
  Bytes b;
  b.header(1, 1, 2).string("k").u32(4).u32(5).tensor("x", {2}, 0, 0).pad().zeros(8);
  const File file = File::over(b.data, "v2");
  EXPECT_EQ(file.version(), 2u);
  EXPECT_EQ(file.get<int>("k"), 5);
}

}  // namespace
}  // namespace quern::gguf
