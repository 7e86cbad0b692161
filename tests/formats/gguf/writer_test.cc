#include "formats/gguf/writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "bytes.h"
#include "formats/gguf/file.h"

namespace quern::gguf {
namespace {

using testing::data_path;
using ::testing::ElementsAre;
using testing::read_file;
using testing::TemporaryDirectory;

template <class T>
void set_list(Writer& w, std::string_view key, std::initializer_list<T> values) {
  w.set_array<T>(key, std::span(values.begin(), values.size()));
}

TEST(GgufWriter, writes_the_same_bytes_as_the_reference_writer) {
  Writer w;  // the contents of make_files.py
  w.set("general.architecture", "test");
  w.set("t.u8", std::uint8_t{200});
  w.set("t.i8", std::int8_t{-100});
  w.set("t.u16", std::uint16_t{60000});
  w.set("t.i16", std::int16_t{-30000});
  w.set("t.u32", std::uint32_t{4000000000});
  w.set("t.i32", std::int32_t{-2000000000});
  w.set("t.f32", 0.1f);
  w.set("t.true", true);
  w.set("t.false", false);
  w.set("t.string", std::string("grüße\n\"q\""));
  w.set("t.empty", "");
  w.set("t.u64", UINT64_MAX);
  w.set("t.i64", INT64_MIN);
  w.set("t.f64", 0.1);
  set_list<std::uint8_t>(w, "t.array.u8", {1, 2, 255});
  set_list<std::int32_t>(w, "t.array.i32", {-1, 0, 7});
  set_list<float>(w, "t.array.f32", {0.5f, -0.25f});
  set_list<bool>(w, "t.array.bool", {true, false, true});
  const std::string_view strings[] = {"a", "", "ccc", "ü"};
  w.set_array("t.array.string", strings);
  set_list<std::uint64_t>(w, "t.array.u64", {0, 9223372036854775808u});

  const std::vector<float> ramp = {0, 1, 2, 3, 4, 5};
  const std::vector<std::uint16_t> half = {0x3e00, 0xc000, 0x3400};
  std::vector<std::uint8_t> blocks(72);
  std::iota(blocks.begin(), blocks.end(), std::uint8_t{0});
  std::vector<std::int32_t> cube(24);
  std::iota(cube.begin(), cube.end(), 0);
  const auto add = [&](std::string_view name, ir::DType type, std::vector<std::int64_t> shape, const auto& values) {
    w.add_tensor(name, type, shape, std::as_bytes(std::span(values)));
  };
  add("ramp", ir::DType::f32, {2, 3}, ramp);
  add("half", ir::DType::f16, {3}, half);
  add("bytes", ir::DType::q4_0, {2, 64}, blocks);
  add("cube", ir::DType::i32, {2, 3, 4}, cube);

  TemporaryDirectory directory;
  w.write(directory / "ours.gguf");
  EXPECT_EQ(read_file(directory / "ours.gguf"), read_file(data_path("python.gguf")));
}

TEST(GgufWriter, copies_another_file_to_the_same_bytes) {
  const File file = File::open(data_path("python.gguf"));
  Writer w;
  for (const Value& v : file.metadata()) w.copy(v);
  for (const Tensor& t : file.tensors()) w.add_tensor(t.name, t.type, t.shape(), Writer::Source([&t] { return t.data; }));
  TemporaryDirectory directory;
  w.write(directory / "copy.gguf");
  EXPECT_EQ(read_file(directory / "copy.gguf"), read_file(data_path("python.gguf")));
}

TEST(GgufWriter, honours_an_alignment_and_scalars) {
  const std::vector<float> x = {1.0f, 2.0f, 3.0f};
  Writer w;
  w.set("general.alignment", std::uint32_t{4096});
  w.add_tensor("one", ir::DType::f32, {}, std::as_bytes(std::span(x).first(1)));
  w.add_tensor("three", ir::DType::f32, std::vector<std::int64_t>{3}, std::as_bytes(std::span(x)));
  TemporaryDirectory directory;
  w.write(directory / "aligned.gguf");
  const File file = File::open(directory / "aligned.gguf");
  EXPECT_EQ(file.tensor("one").rank, 0);
  EXPECT_THAT(file.tensor("one").shape(), ElementsAre());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(file.tensor("three").data.data()) % 4096, 0u);
  EXPECT_EQ(file.bytes(), 3u * 4096);
}

TEST(GgufWriter, refuses_what_the_reader_would_refuse) {
  const std::vector<std::byte> bytes(64);
  const auto add = [&](std::string_view name, ir::DType type, std::vector<std::int64_t> shape) {
    Writer w;
    w.add_tensor(name, type, shape, bytes);
  };
  EXPECT_THROW(add("", ir::DType::f32, {1}), Error);
  EXPECT_THROW(add(std::string(256, 'x'), ir::DType::f32, {1}), Error);
  EXPECT_THROW(add("x", ir::DType::f32, {1, 1, 1, 1, 1}), Error);
  EXPECT_THROW(add("x", ir::DType::f32, {2, 0}), Error);
  EXPECT_THROW(add("x", ir::DType::f32, {INT64_MAX, 3}), Error);
  EXPECT_THROW(add("x", ir::DType::q4_0, {32, 31}), Error);
  EXPECT_THROW(add("x", ir::DType::u8, {1}), Error);
  EXPECT_THROW(Writer().set("", 1), Error);
  EXPECT_THROW(Writer().set("general.alignment", 24u), Error);
  EXPECT_THROW(Writer().set("general.alignment", std::uint64_t{32}), Error);
  Writer w;
  w.set("k", 1);
  EXPECT_THROW(w.set("k", 2), Error);
  w.add_tensor("x", ir::DType::f32, {}, std::span(bytes).first(4));
  EXPECT_THROW(w.add_tensor("x", ir::DType::f32, {}, std::span(bytes).first(4)), Error);
}

TEST(GgufWriter, leaves_the_old_file_alone_when_it_fails) {
  TemporaryDirectory directory;
  Writer good;
  good.set("k", 1);
  good.write(directory / "model.gguf");
  Writer bad;
  bad.add_tensor("x", ir::DType::f32, std::vector<std::int64_t>{4}, Writer::Source([] { return std::span<const std::byte>(); }));
  EXPECT_THROW(bad.write(directory / "model.gguf"), Error);
  EXPECT_EQ(File::open(directory / "model.gguf").get<int>("k"), 1);
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory.path())) ++files;
  EXPECT_EQ(files, 1u) << "a temporary file was left behind";
  EXPECT_THROW(good.write(directory / "no/such/directory.gguf"), Error);
}

}  // namespace
}  // namespace quern::gguf
