// Files made to hurt: each is refused with a clear Error or opens and can be used to the end; nothing crashes, hangs or takes much memory.
// This file is also built with the address and undefined-behaviour sanitizers (tests/fuzz/CMakeLists.txt).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "allocation_peak.h"
#include "base/error.h"
#include "bytes.h"
#include "exercise.h"
#include "formats/gguf/file.h"
#include "formats/gguf/types.h"

namespace quern::gguf {
namespace {

using testing::AllocationPeak;
using testing::Bytes;
using testing::data_path;
using ::testing::HasSubstr;
using testing::read_file;
using testing::TemporaryDirectory;
using testing::write_file;

constexpr std::uint64_t kHuge[] = {1u << 31, 1ull << 32, (1ull << 61) + 1, (1ull << 63) - 3, 1ull << 63, ~0ull - 7, ~0ull};

// Every type of tensor and of metadata, each tensor of ordinary blocks.
std::vector<std::byte> rich_file() {
  Bytes b;
  std::vector<ir::DType> types;
  for (std::uint32_t number = 0; number < 64; ++number)
    if (const auto type = dtype_from_gguf(number)) types.push_back(*type);
  b.header(types.size(), 4).string("general.architecture").u32(8).string("llama");
  b.string("tokens").u32(9).u32(8).u64(40);
  for (int i = 0; i < 40; ++i) b.string("token" + std::to_string(i));
  b.string("scores").u32(9).u32(6).u64(40).zeros(160);
  b.string("flag").u32(7).put(std::uint8_t{1});
  std::uint64_t offset = 0;
  for (ir::DType type : types) {
    b.tensor("t." + std::string(ir::name(type)), {256, 1}, *gguf_type(type), offset);
    offset += (std::uint64_t(256 / ir::block_elements(type) * ir::block_bytes(type)) + 31) / 32 * 32;
  }
  b.pad();
  std::mt19937 random(1);
  for (std::uint64_t i = 0; i < offset; ++i) b.put(static_cast<std::uint8_t>(random()));
  return b.data;
}

struct Outcome {
  bool opened = false;
  std::string message;
  std::size_t peak = 0;  // bytes allocated at the worst moment of opening
};

Outcome open_bytes(std::span<const std::byte> bytes) {
  Outcome outcome;
  AllocationPeak peak;
  try {
    const File file = File::over(bytes, "hostile.gguf");
    outcome.peak = peak.bytes();
    outcome.opened = true;
    testing::exercise(file);
  } catch (const Error& e) {
    if (outcome.peak == 0) outcome.peak = peak.bytes();
    EXPECT_TRUE(e.code() == Code::data_corrupt || e.code() == Code::unsupported) << e.what();
    outcome.message = e.what();
  }
  EXPECT_LE(outcome.peak, 2 * bytes.size() + 4096) << outcome.message;  // 4096: the message itself
  return outcome;
}

void expect_refused(const Bytes& b, std::string_view message) {
  const Outcome outcome = open_bytes(b.data);
  EXPECT_THAT(outcome.message, HasSubstr(std::string(message)));
  EXPECT_THAT(outcome.message, HasSubstr("hostile.gguf"));
}

TEST(GgufHostile, opens_the_file_that_the_others_are_made_from) {
  const auto file = rich_file();
  EXPECT_TRUE(open_bytes(file).opened);
  EXPECT_TRUE(open_bytes(read_file(data_path("python.gguf"))).opened);
}

TEST(GgufHostile, refuses_a_file_cut_anywhere) {
  const auto file = rich_file();
  std::size_t opened = 0;
  for (std::size_t size = 0; size < file.size(); ++size) {
    const std::vector<std::byte> cut(file.begin(),
                                     file.begin() + std::ptrdiff_t(size));  // of its own, so that asan sees a read past the end
    opened += open_bytes(cut).opened;
  }
  EXPECT_LT(opened, 32u);  // only the padding at the end may be missing
}

TEST(GgufHostile, refuses_a_file_on_disk_cut_at_every_page) {
  const auto file = rich_file();
  TemporaryDirectory directory;
  for (std::size_t size = 0; size < file.size(); size += 4096) {
    write_file(directory / "cut.gguf", std::span(file).first(size));
    EXPECT_THROW(File::open(directory / "cut.gguf"), Error) << size;
  }
}

TEST(GgufHostile, survives_random_byte_flips) {
  const auto original = rich_file();
  const std::size_t header = std::min<std::size_t>(original.size(), 4096);  // where flips can hurt
  std::mt19937_64 random(20240607);
  std::size_t opened = 0;
  for (int round = 0; round < 10000; ++round) {
    std::vector<std::byte> file = original;
    for (std::uint64_t flips = 1 + random() % 8; flips > 0; --flips) {
      const std::size_t limit = random() % 4 == 0 ? file.size() : header;
      file[random() % limit] = static_cast<std::byte>(random());
    }
    opened += open_bytes(file).opened;
  }
  EXPECT_GT(opened, 0u);
  EXPECT_LT(opened, 10000u);
}

TEST(GgufHostile, refuses_what_is_not_gguf) {
  expect_refused(Bytes{}, "is not a GGUF file");
  expect_refused(Bytes{}.raw("GGUF"), "the file ends inside the header");
  expect_refused(Bytes{}.raw("PK\3\4 and so on"), "is not a GGUF file");
  expect_refused(Bytes{}.raw("version https://git-lfs.github.com/spec/v1\noid"), "git lfs pull");
  expect_refused(Bytes{}.raw("tjgg").u32(3), "old GGML kind");
}

TEST(GgufHostile, refuses_versions_it_does_not_know) {
  expect_refused(Bytes{}.header(0, 0, 1), "is of GGUF version 1");
  expect_refused(Bytes{}.header(0, 0, 0), "is of GGUF version 0");
  expect_refused(Bytes{}.header(0, 0, 4), "is of GGUF version 4");
  expect_refused(Bytes{}.header(0, 0, 0x03000000), "big-endian");
}

TEST(GgufHostile, refuses_absurd_counts) {
  for (std::uint64_t n : kHuge) {
    expect_refused(Bytes{}.header(n, 0), "the file claims " + std::to_string(n) + " tensors; the limit is");
    expect_refused(Bytes{}.header(0, n), "the file claims " + std::to_string(n) + " metadata keys; the limit is");
    expect_refused(Bytes{}.header(n, n), "the limit is");
  }
  expect_refused(Bytes{}.header(100000, 0), "more than its 24 bytes can hold");
  expect_refused(Bytes{}.header(0, 60000), "more than its 24 bytes can hold");
}

TEST(GgufHostile, refuses_absurd_strings_and_arrays) {
  for (std::uint64_t n : kHuge) {
    expect_refused(Bytes{}.header(0, 1).u64(n).raw("k").zeros(64), "a metadata key claims");
    expect_refused(Bytes{}.header(0, 1).string("k").u32(8).u64(n).zeros(64), "string");
    for (std::uint32_t type = 0; type <= 12; ++type)
      if (type != 9) expect_refused(Bytes{}.header(0, 1).string("k").u32(9).u32(type).u64(n).zeros(64), "more than the file can hold");
    expect_refused(Bytes{}.header(0, 1).string("k").u32(9).u32(8).u64(2).u64(n).zeros(64), "string");
    expect_refused(Bytes{}.header(1, 0).u64(n).zeros(64), "a tensor's name claims");
  }
  expect_refused(Bytes{}.header(0, 1).string("k").u32(9).u32(9).u64(1).zeros(64), "is an array of arrays");
  expect_refused(Bytes{}.header(0, 1).string("k").u32(13).zeros(64), "is of the unknown type 13");
  expect_refused(Bytes{}.header(0, 1).string("k").u32(9).u32(0xffffffff).u64(1).zeros(64), "is of the unknown type 4294967295");
  expect_refused(Bytes{}.header(0, 1).string("").u32(4).u32(1), "a metadata key is empty");
  expect_refused(Bytes{}.header(0, 1).string("k").u32(7).put(std::uint8_t{2}), "has the boolean 2");
  expect_refused(Bytes{}.header(0, 1).string("k").u32(9).u32(7).u64(2).put(std::uint16_t{0xff01}), "has the boolean 255");
}

TEST(GgufHostile, refuses_absurd_dimensions) {
  const auto with = [](const std::vector<std::uint64_t>& dims, std::uint32_t type = 0) {
    Bytes b;
    b.header(1, 0).tensor("x", dims, type, 0).pad().zeros(256);
    return b;
  };
  expect_refused(with({0}), "dimension 0 of tensor 'x' is 0");
  expect_refused(with({4, 0}), "dimension 1 of tensor 'x' is 0");
  for (std::uint64_t n : kHuge) {
    EXPECT_FALSE(open_bytes(with({n}).data).opened);
    EXPECT_FALSE(open_bytes(with({32, n}, 2).data).opened);
    EXPECT_FALSE(open_bytes(with({n, n, n, n}).data).opened);
    EXPECT_FALSE(open_bytes(with({n / 32 * 32, 2}, 8).data).opened);
  }
  expect_refused(with({1ull << 32, 1ull << 32}), "dimension 1 of tensor 'x'");
  expect_refused(with({1ull << 62, 1}, 28), "the size of tensor 'x' overflows");
  expect_refused(with({33}, 2), "which are not whole blocks of q4_0 (32 elements each)");
  expect_refused(with({16, 2}, 2), "which are not whole blocks");
  expect_refused(Bytes{}.header(1, 0).string("x").u32(5).zeros(256), "has 5 dimensions; the limit is 4");
  expect_refused(Bytes{}.header(1, 0).string("x").u32(0xffffffff).zeros(256), "has 4294967295 dimensions");
  EXPECT_TRUE(open_bytes(with({2, 2, 2, 2}).data).opened);
  EXPECT_TRUE(open_bytes(with({}).data).opened);
}

TEST(GgufHostile, refuses_types_that_do_not_exist) {
  for (std::uint32_t type : {43u, 100u, 0x80000000u, 0xffffffffu})
    expect_refused(Bytes{}.header(1, 0).tensor("x", {32}, type, 0).pad().zeros(256), "which is not known");
  for (std::uint32_t type : {4u, 5u, 31u, 38u})
    expect_refused(Bytes{}.header(1, 0).tensor("x", {32}, type, 0).pad().zeros(256), "was dropped from the format");
}

TEST(GgufHostile, refuses_data_out_of_place) {
  const auto with = [](std::uint64_t offset, std::uint64_t second = 32) {
    Bytes b;
    b.header(2, 0).tensor("a", {8}, 0, offset).tensor("b", {8}, 0, second).pad().zeros(64);
    return b;
  };
  EXPECT_TRUE(open_bytes(with(0).data).opened);
  expect_refused(with(1), "is not a multiple of the alignment 32");
  expect_refused(with(0, 0), "overlap");
  expect_refused(with(32, 32), "overlap");
  expect_refused(with(64), "past the end of the file");
  for (std::uint64_t n : kHuge) expect_refused(with(n / 32 * 32), "past the end of the file");
  expect_refused(Bytes{}.header(1, 0).tensor("x", {1}, 0, 0), "past the end of the file");
}

TEST(GgufHostile, refuses_absurd_alignments) {
  const auto with = [](std::uint32_t alignment) {
    Bytes b;
    b.header(1, 1).string("general.alignment").u32(4).u32(alignment).tensor("x", {1}, 0, 0).pad(64).zeros(64);
    return b;
  };
  EXPECT_TRUE(open_bytes(with(64).data).opened);
  for (std::uint32_t n : {0u, 1u, 4u, 24u, 33u, 0xffffffffu}) expect_refused(with(n), "it is a power of two and at least 8");
  expect_refused(with(1u << 31), "past the end of the file");
  expect_refused(Bytes{}.header(0, 1).string("general.alignment").u32(8).string("32"), "where u32 is expected");
  expect_refused(Bytes{}.header(0, 1).string("general.alignment").u32(10).u64(32), "where u32 is expected");
  expect_refused(Bytes{}.header(0, 1).string("general.alignment").u32(9).u32(4).u64(0), "where u32 is expected");
}

TEST(GgufHostile, refuses_names_given_twice) {
  expect_refused(Bytes{}.header(0, 2).string("k").u32(4).u32(1).string("k").u32(8).string("x"), "metadata key 'k' appears twice");
  expect_refused(Bytes{}.header(2, 0).tensor("x", {8}, 0, 0).tensor("x", {8}, 0, 32).pad().zeros(64), "tensor 'x' appears twice");
  expect_refused(Bytes{}.header(1, 0).tensor("", {8}, 0, 0).pad().zeros(64), "name is empty");
}

TEST(GgufHostile, escapes_names_in_messages) {
  expect_refused(Bytes{}.header(0, 1).string("\x1b[2J\r'" + std::string(5000, 'x')).u32(13), "metadata '\\x1b[2J\\x0d\\'xxx");
}

TEST(GgufHostile, opens_a_tensor_of_nan_scales_and_dequantises_it) {
  for (std::uint32_t number = 0; number < 64; ++number) {
    const auto type = dtype_from_gguf(number);
    if (!type) continue;
    Bytes b;
    b.header(1, 0).tensor("x", {256}, number, 0).pad();
    b.data.resize(b.data.size() + 4096, std::byte{0xff});
    EXPECT_TRUE(open_bytes(b.data).opened) << ir::name(*type);
  }
}

TEST(GgufHostile, takes_little_memory_for_many_small_things) {
  Bytes keys, tensors;
  keys.header(0, 50000);
  tensors.header(50000, 0);
  for (int i = 0; i < 50000; ++i) {
    keys.string(std::to_string(i)).u32(0).put(std::uint8_t{0});
    tensors.tensor(std::to_string(i), {1}, 24, std::uint64_t(i) * 32);
  }
  tensors.pad().zeros(50000 * 32);
  for (const Bytes* b : {&keys, &tensors}) {
    AllocationPeak peak;
    const File file = File::over(b->data, "many");
    EXPECT_LE(peak.bytes(), 2 * b->data.size());
  }
}

}  // namespace
}  // namespace quern::gguf
