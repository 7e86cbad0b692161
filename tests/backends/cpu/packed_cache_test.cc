// The cache of packed weights: what it gives back is what was put in, or nothing.
#include "backends/cpu/packed_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <vector>

#include "backends/cpu/weight_store.h"
#include "base/checksum.h"
#include "base/mapped_file.h"

namespace quern::cpu::test {
namespace {

namespace fs = std::filesystem;

class PackedCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "packed_cache_test." + std::to_string(getpid());
    std::mt19937 random(3);
    for (const std::size_t bytes : {std::size_t{1000}, std::size_t{3} << 20, std::size_t{64}, std::size_t{0}, std::size_t{77}}) {
      data_.emplace_back(bytes);
      for (std::byte& b : data_.back()) b = static_cast<std::byte>(random());
    }
  }
  void TearDown() override {
    std::error_code ignored;
    fs::permissions(folder_, fs::perms::owner_all, ignored);
    fs::remove_all(folder_, ignored);
  }

  PackedCacheOptions options() {
    PackedCacheOptions o;
    o.folder = folder_;
    o.min_bytes = 0;
    o.note = [this](std::string_view note) { notes_.emplace_back(note); };
    return o;
  }
  static std::vector<std::span<std::byte>> spans(std::vector<std::vector<std::byte>>& data) { return {data.begin(), data.end()}; }
  void write(const std::string& key) { PackedCache(options()).write(key, spans(data_), &pool_); }
  /// Whether the cache has the key; what it gives must be the data.
  bool read(const std::string& key) {
    std::vector<std::vector<std::byte>> got;
    for (const auto& piece : data_) got.emplace_back(piece.size());
    if (!PackedCache(options()).read(key, spans(got), &pool_)) return false;
    EXPECT_EQ(got, data_);
    return true;
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> list;
    for (const auto& entry : fs::directory_iterator(folder_)) list.push_back(entry.path());
    return list;
  }

  std::string folder_;
  std::vector<std::vector<std::byte>> data_;
  std::vector<std::string> notes_;
  ThreadPool pool_{3};
};

TEST_F(PackedCacheTest, gives_back_what_was_written_for_the_same_key_alone) {
  EXPECT_FALSE(read("a"));
  write("a");
  EXPECT_TRUE(read("a"));
  EXPECT_FALSE(read("b"));
  EXPECT_TRUE(notes_.empty());
  ASSERT_EQ(files().size(), 1U) << "a temporary file is left";
  struct stat info{};
  ASSERT_EQ(stat(files()[0].c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 077, 0U) << "others may read or write it";
}

TEST_F(PackedCacheTest, ignores_a_file_cut_at_any_length_or_longer_and_says_so) {
  write("a");
  const auto size = static_cast<std::int64_t>(fs::file_size(files()[0]));
  for (const std::int64_t cut : {std::int64_t{0}, std::int64_t{1}, std::int64_t{7}, std::int64_t{47}, std::int64_t{48}, std::int64_t{100},
                                 std::int64_t{4095}, std::int64_t{4096}, std::int64_t{70000}, size / 2, size - 1, size + 1}) {
    fs::resize_file(files()[0], static_cast<std::uintmax_t>(cut));
    notes_.clear();
    EXPECT_FALSE(read("a")) << cut;
    EXPECT_EQ(notes_.size(), 1U) << cut;
    write("a");
    EXPECT_TRUE(read("a")) << "it was not written anew";
  }
}

TEST_F(PackedCacheTest, ignores_a_file_with_any_changed_byte) {
  write("a");
  const std::string file = files()[0];
  const auto size = fs::file_size(file);
  std::vector<std::uintmax_t> places;
  for (std::uintmax_t at = 0; at < 48 + 8 * 6; ++at) places.push_back(at);  // the header, and the checksum of each chunk
  std::mt19937_64 random(1);
  for (int i = 0; i < 30; ++i) places.push_back(4096 + random() % (size - 4096));
  places.push_back(size - 1);
  for (const std::uintmax_t at : places) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(static_cast<std::streamoff>(at));
    const auto byte = static_cast<char>(stream.get());
    const auto put = [&](char value) {
      stream.seekp(static_cast<std::streamoff>(at));
      stream.put(value);
      stream.flush();
    };
    put(static_cast<char>(byte ^ 0x10));
    EXPECT_FALSE(read("a")) << at;
    put(byte);
  }
  EXPECT_TRUE(read("a"));
}

TEST_F(PackedCacheTest, ignores_links_folders_and_pipes_in_place_of_a_file) {
  write("a");
  const fs::path file = files()[0], moved = folder_ + "/moved";
  fs::rename(file, moved);
  fs::create_symlink(moved, file);
  EXPECT_FALSE(read("a"));
  fs::remove(file);
  ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
  EXPECT_FALSE(read("a"));
  fs::remove(file);
  fs::create_directory(file);
  EXPECT_FALSE(read("a"));
  write("a");
  EXPECT_FALSE(read("a"));
}

TEST_F(PackedCacheTest, does_nothing_where_it_cannot_write) {
  std::ofstream(folder_) << "a file where the folder should be";
  write("a");
  EXPECT_FALSE(read("a"));
  fs::remove(folder_);
  if (geteuid() == 0) return;  // who may write everywhere
  fs::create_directory(folder_);
  fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec);
  write("a");
  EXPECT_FALSE(read("a"));
}

TEST_F(PackedCacheTest, the_least_recently_used_files_go_first) {
  PackedCacheOptions bounded = options();
  bounded.max_bytes = 2 * (std::int64_t{3} << 20) + 100000;  // two of them
  const PackedCache cache(bounded);
  const auto put = [&](const std::string& key) { cache.write(key, spans(data_), nullptr); };
  put("a");
  usleep(20000);  // a clock tick
  put("b");
  usleep(20000);
  EXPECT_TRUE(read("a"));  // used: now b is the oldest
  put("c");
  EXPECT_TRUE(read("a"));
  EXPECT_FALSE(read("b"));
  EXPECT_TRUE(read("c"));
  bounded.max_bytes = 1000;
  PackedCache(bounded).write("d", spans(data_), nullptr);
  EXPECT_FALSE(read("d")) << "larger than all that is allowed";
  EXPECT_TRUE(read("c")) << "nothing goes for what cannot stay";
}

TEST_F(PackedCacheTest, small_models_and_an_empty_folder_leave_nothing) {
  PackedCacheOptions o = options();
  o.min_bytes = 1 << 30;
  PackedCache(o).write("a", spans(data_), nullptr);
  EXPECT_FALSE(fs::exists(folder_));
  o.folder = "";
  o.min_bytes = 0;
  PackedCache(o).write("a", spans(data_), nullptr);
  EXPECT_FALSE(PackedCache(o).read("a", spans(data_), nullptr));
}

TEST_F(PackedCacheTest, processes_that_write_and_read_at_once_never_see_half_a_file) {
  std::vector<pid_t> children;
  for (int c = 0; c < 3; ++c) {
    const pid_t child = fork();
    if (child == 0) {
      PackedCacheOptions o;
      o.folder = folder_;
      o.min_bytes = 0;
      bool complained = false;
      o.note = [&](std::string_view) { complained = true; };
      const PackedCache cache(o);
      std::vector<std::vector<std::byte>> got;
      for (const auto& piece : data_) got.emplace_back(piece.size());
      for (int i = 0; i < 15; ++i) {
        cache.write("a", spans(data_), nullptr);
        if (cache.read("a", spans(got), nullptr) && got != data_) complained = true;
      }
      _exit(complained ? 1 : 0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  EXPECT_TRUE(read("a"));
  EXPECT_EQ(files().size(), 1U);
}

class WeightsFromCache : public PackedCacheTest {
 protected:
  void TearDown() override {
    fs::remove(model_);
    PackedCacheTest::TearDown();
  }
  void write_model(unsigned seed) {
    std::mt19937 random(seed);
    std::ofstream file(model_, std::ios::binary);
    for (int i = 0; i < kBytes; ++i) file.put(static_cast<char>(seed == 0 ? 0 : random()));
  }
  /// Packs or reads the weights of the made-up model.
  std::vector<std::vector<std::uint8_t>> load(const std::string& identity) {
    const auto owner = std::make_shared<const MappedFile>(model_);
    ir::Graph graph;
    WeightStore store({.pool = &pool_, .mapped_owner = owner, .cache = options(), .file_identity = identity});
    std::vector<PackedWeights> weights;
    for (const ir::DType type : {ir::DType::q4_1, ir::DType::q6_K}) {
      const auto constant = std::make_shared<ir::Constant>();
      constant->name = ir::name(type);
      constant->data = owner->bytes().data();
      constant->bytes = static_cast<std::size_t>(37 * 512 / ir::block_elements(type) * ir::block_bytes(type));
      constant->owner = owner;
      ir::Value* const value = graph.add_constant({type, {37, 512}}, constant);
      weights.push_back(store.packed({&value, 1}, ir::DType::a8)[0]);
    }
    store.fill();
    std::vector<std::vector<std::uint8_t>> all;
    for (const PackedWeights& w : weights) all.emplace_back(w.data(), w.data() + w.bytes());
    return all;
  }

  static constexpr int kBytes = 37 * 512;
  std::string model_ = ::testing::TempDir() + "packed_cache_test.model." + std::to_string(getpid());
};

TEST_F(WeightsFromCache, a_hit_has_the_bytes_of_fresh_packing_and_does_not_look_at_the_model) {
  write_model(1);
  const auto packed = load("");
  EXPECT_FALSE(fs::exists(folder_)) << "a file without identity is not kept";
  EXPECT_EQ(load("one"), packed);
  write_model(0);
  EXPECT_EQ(load("one"), packed) << "it was packed again";
  EXPECT_NE(load("two"), packed) << "another file has its own";
}

/// Files keep the layout: when this fails, raise kLayoutVersion, and write the new number here.
TEST(PackedLayout, is_that_of_its_version) {
  std::uint64_t sum = kLayoutVersion;
  using enum ir::DType;
  for (const ir::DType type : {q4_0, q4_1, q5_0, q5_1, q8_0, q2_K, q3_K, q4_K, q5_K, q6_K, iq4_nl, iq4_xs, mxfp4, nvfp4, f16, bf16, f32})
    for (const ir::DType x : {a8, f32}) {
      if (!PackedWeights::can_pack(x, type, 512)) continue;
      std::vector<std::byte> bytes(static_cast<std::size_t>(20 * 512 / ir::block_elements(type) * ir::block_bytes(type)));
      for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * i % 59);
      PackedWeights w = PackedWeights::reserve(x, type, 20, 512);
      w.pack_tiles(bytes.data(), 0, w.tiles());
      sum = checksum(w.writable(), sum);
    }
  EXPECT_EQ(sum, 3514550999858225990u);
}

}  // namespace
}  // namespace quern::cpu::test
