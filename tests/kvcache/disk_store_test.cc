#include "kvcache/disk_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/faults.h"

namespace quern::kvcache {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr std::size_t kBytes = 3000, kHeader = 56;

class DiskStoreTest : public ::testing::Test {
 protected:
  DiskStoreTest() { fs::remove_all(folder); }
  ~DiskStoreTest() override {
    fs::permissions(folder, fs::perms::owner_all, ignored_);
    fs::remove_all(folder, ignored_);
  }

  std::unique_ptr<DiskStore> open(std::int64_t max_bytes = 1 << 30, std::string model = "a model") {
    return std::make_unique<DiskStore>(DiskStoreOptions{
        .folder = folder, .max_bytes = max_bytes, .model = std::move(model), .block_bytes = kBytes, .note = [this](auto text) {
          notes += text;
        }});
  }
  /// What one operation came to.
  static bool wait(DiskStore& store) {
    std::vector<DiskStore::Done> done;
    for (int i = 0; i < 5000 && done.empty(); ++i) {
      store.take_done(done);
      if (done.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(done.size(), 1u);
    return !done.empty() && done[0].good;
  }
  static std::vector<std::byte> block(unsigned seed) {
    std::mt19937 random(seed);
    std::vector<std::byte> bytes(kBytes);
    for (std::byte& b : bytes) b = static_cast<std::byte>(random());
    return bytes;
  }
  static BlockKey key(const DiskStore& store, unsigned seed) {
    const std::vector<std::int32_t> tokens = {static_cast<std::int32_t>(seed), 2, 3};
    return DiskStore::next(store.first(0), tokens);
  }
  static bool write(DiskStore& store, unsigned seed, std::size_t depth = 0) {
    const std::vector<std::byte> bytes = block(seed);
    store.write(key(store, seed), depth, bytes, 7);
    return wait(store);
  }
  /// True when the very bytes come back.
  static bool read(DiskStore& store, unsigned seed) {
    std::vector<std::byte> bytes(kBytes);
    store.read(key(store, seed), bytes, 7);
    const bool good = wait(store);
    if (good) {
      EXPECT_EQ(bytes, block(seed));
    }
    return good;
  }
  static bool has(const DiskStore& store, unsigned seed) {
    const BlockKey k = key(store, seed);
    return store.leading({&k, 1}) == 1;
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> all;
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.path().extension() == ".kv") all.push_back(entry.path());
    return all;
  }
  fs::path only_file() const {
    const auto all = files();
    EXPECT_EQ(all.size(), 1u);
    return all.empty() ? fs::path(folder + "/none") : all[0];
  }

  const std::string folder = ::testing::TempDir() + "disk_store_test." + std::to_string(::getpid());
  std::string notes;
  std::error_code ignored_;
};

TEST_F(DiskStoreTest, gives_back_what_was_written_also_after_a_restart_and_to_others) {
  auto store = open();
  EXPECT_FALSE(has(*store, 1));
  EXPECT_TRUE(write(*store, 1));
  EXPECT_TRUE(write(*store, 2));
  EXPECT_TRUE(has(*store, 1));
  EXPECT_TRUE(read(*store, 1));
  EXPECT_FALSE(read(*store, 3)) << "was never written";
  const auto other = open();
  EXPECT_TRUE(has(*other, 2));
  EXPECT_TRUE(read(*other, 2));
  store.reset();
  store = open();
  EXPECT_TRUE(has(*store, 1));
  EXPECT_TRUE(read(*store, 1));
  EXPECT_EQ(store->statistics().blocks_read, 1);
  EXPECT_EQ(notes, "");
}

TEST_F(DiskStoreTest, the_folders_secret_is_the_same_at_every_start_and_for_everybody) {
  const std::uint64_t secret = open()->secret();
  EXPECT_EQ(open(1 << 30, "another model")->secret(), secret);
  fs::resize_file(folder + "/secret", 3);
  const std::uint64_t second = open()->secret();
  EXPECT_NE(second, secret);
  EXPECT_EQ(open()->secret(), second);
}

TEST_F(DiskStoreTest, only_the_user_can_read_what_was_said) {
  auto store = open();
  ASSERT_TRUE(write(*store, 1));
  struct stat info{};
  ASSERT_EQ(::stat(folder.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  ASSERT_EQ(::stat(only_file().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0077, 0u);
}

TEST_F(DiskStoreTest, names_differ_with_model_partition_tokens_and_what_came_before) {
  const auto a = open(), b = open(1 << 30, "another model");
  const std::vector<std::int32_t> one = {1, 2}, two = {3, 4}, both = {1, 2, 3, 4};
  const BlockKey first = a->first(0);
  EXPECT_NE(first, a->first(1));
  EXPECT_NE(first, b->first(0));
  EXPECT_NE(DiskStore::next(first, one), DiskStore::next(first, two));
  EXPECT_NE(DiskStore::next(DiskStore::next(first, one), two), DiskStore::next(DiskStore::next(first, two), one));
  EXPECT_NE(DiskStore::next(DiskStore::next(first, one), two), DiskStore::next(first, both));
  EXPECT_EQ(DiskStore::next(first, one), DiskStore::next(open()->first(0), one));
}

TEST_F(DiskStoreTest, whatever_byte_is_changed_the_file_counts_as_missing_and_goes) {
  auto store = open();
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    ASSERT_TRUE(write(*store, 1));
    const fs::path file = only_file();
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    const auto at = static_cast<std::streamoff>(round < 100 ? random() % (kHeader + 8) : random() % (kHeader + kBytes));
    stream.seekg(at);
    const char was = static_cast<char>(stream.get());
    stream.seekp(at);
    stream.put(static_cast<char>(was ^ (1 << random() % 8)));
    stream.close();
    ASSERT_FALSE(read(*store, 1)) << at;
    ASSERT_FALSE(fs::exists(file));
    ASSERT_FALSE(has(*store, 1));
  }
  EXPECT_EQ(store->statistics().read_errors, 200);
}

TEST_F(DiskStoreTest, wrong_sizes_count_as_missing) {
  auto store = open();
  for (const std::uintmax_t size : {std::uintmax_t{0}, std::uintmax_t{1}, std::uintmax_t{kHeader}, std::uintmax_t{kHeader + kBytes - 1},
                                    std::uintmax_t{kHeader + kBytes + 1}, std::uintmax_t{1} << 40}) {
    ASSERT_TRUE(write(*store, 1));
    fs::resize_file(only_file(), size);
    EXPECT_FALSE(read(*store, 1)) << size;
    EXPECT_TRUE(files().empty());
  }
}

TEST_F(DiskStoreTest, a_block_under_anothers_name_counts_as_missing) {
  auto store = open();
  ASSERT_TRUE(write(*store, 1));
  const fs::path first = only_file();
  ASSERT_TRUE(write(*store, 2));
  for (const fs::path& file : files())
    if (file != first) fs::rename(file, first);
  EXPECT_FALSE(read(*store, 1));
  EXPECT_TRUE(files().empty());
}

TEST_F(DiskStoreTest, links_folders_and_pipes_are_not_followed_and_other_files_stay) {
  auto store = open();
  ASSERT_TRUE(write(*store, 1));
  const fs::path file = only_file(), aside = folder + "/aside";
  fs::rename(file, aside);
  fs::create_symlink(aside, file);
  EXPECT_FALSE(read(*store, 1));
  EXPECT_FALSE(fs::exists(fs::symlink_status(file)));
  EXPECT_TRUE(fs::exists(aside));
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_FALSE(read(*store, 1));
  fs::create_directory(file);
  EXPECT_FALSE(read(*store, 1));
  EXPECT_FALSE(write(*store, 1)) << "its name is taken";
  EXPECT_THAT(notes, HasSubstr("cannot be written for now"));
  for (const char* name : {"aside", "x.kv", "00.kv", "README"}) std::ofstream(folder + "/" + name) << "mine";
  store = open(5 * kBytes);
  for (unsigned i = 10; i < 30; ++i) write(*store, i);
  for (const char* name : {"aside", "x.kv", "00.kv", "README"}) EXPECT_TRUE(fs::exists(folder + "/" + name)) << name;
}

TEST_F(DiskStoreTest, stays_within_its_bound_and_forgets_what_was_not_used_for_longest) {
  constexpr std::int64_t kMost = 40 * static_cast<std::int64_t>(kHeader + kBytes);
  auto store = open(kMost);
  for (unsigned i = 0; i < 20; ++i) ASSERT_TRUE(write(*store, i));
  // The first are used again; they are marked, for the files are from long ago.
  for (const fs::path& file : files()) fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(1));
  store = open(kMost);
  for (unsigned i = 0; i < 5; ++i) {
    const BlockKey k = key(*store, i);
    store->used({&k, 1});
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  for (unsigned i = 20; i < 38; ++i) {
    write(*store, i);
    std::int64_t bytes = 0;
    for (const fs::path& file : files()) bytes += static_cast<std::int64_t>(fs::file_size(file));
    ASSERT_LE(bytes, kMost);
  }
  for (unsigned i = 0; i < 5; ++i) EXPECT_TRUE(has(*store, i)) << i;
  EXPECT_GE(store->statistics().blocks_removed, 4);
}

TEST_F(DiskStoreTest, the_end_of_a_sequence_goes_before_its_beginning) {
  constexpr std::int64_t kMost = 40 * static_cast<std::int64_t>(kHeader + kBytes);
  auto store = open(kMost);
  for (unsigned i = 0; i < 60; ++i) write(*store, i, i);
  EXPECT_TRUE(has(*store, 0));
  EXPECT_TRUE(has(*store, 10));
  EXPECT_FALSE(has(*store, 32));
}

TEST_F(DiskStoreTest, a_folder_removed_under_it_is_made_again) {
  auto store = open();
  ASSERT_TRUE(write(*store, 1));
  fs::remove_all(folder);
  EXPECT_FALSE(read(*store, 1));
  EXPECT_TRUE(write(*store, 2));
  EXPECT_TRUE(read(*store, 2));
  EXPECT_EQ(store->statistics().read_errors, 0) << "a file that is gone is no error";
}

TEST_F(DiskStoreTest, a_folder_that_cannot_be_used_is_said_at_once) {
  std::ofstream(folder) << "a file";
  EXPECT_THROW(open(), Error);
  fs::remove(folder);
  const DiskStoreOptions nowhere{.folder = "/proc/nowhere/kv", .model = "", .block_bytes = 1};
  EXPECT_THROW(DiskStore{nowhere}, Error);
}

TEST_F(DiskStoreTest, without_the_right_to_write_it_still_reads) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  auto store = open();
  ASSERT_TRUE(write(*store, 1));
  fs::permissions(folder, fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_FALSE(write(*store, 2));
  EXPECT_TRUE(read(*store, 1));
  EXPECT_THAT(notes, HasSubstr("Permission denied"));
}

TEST_F(DiskStoreTest, a_full_disk_ends_writing_for_a_while_and_nothing_else) {
  if (!fs::exists("/dev/full")) GTEST_SKIP();
  auto store = open();
  ASSERT_TRUE(write(*store, 1));
  faults::set("disk_write=1");  // as a disk without room: the write ends early
  EXPECT_FALSE(write(*store, 2));
  faults::set("");
  EXPECT_EQ(files().size(), 1u) << "nothing half written is left";
  EXPECT_FALSE(write(*store, 2)) << "it waits before it tries again";
  EXPECT_TRUE(read(*store, 1));
  EXPECT_THAT(notes, HasSubstr("No space left on device"));
}

TEST_F(DiskStoreTest, a_failing_read_is_a_missing_block) {
  auto store = open();
  ASSERT_TRUE(write(*store, 1));
  faults::set("disk_read=1");
  EXPECT_FALSE(read(*store, 1));
  faults::set("");
  EXPECT_FALSE(has(*store, 1));
  EXPECT_TRUE(write(*store, 1));
  EXPECT_TRUE(read(*store, 1));
}

TEST_F(DiskStoreTest, many_processes_on_one_small_folder_read_only_what_was_written) {
  constexpr std::int64_t kMost = 30 * static_cast<std::int64_t>(kHeader + kBytes);
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (unsigned t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      DiskStore store({.folder = folder, .max_bytes = kMost, .model = "a model", .block_bytes = kBytes});
      std::mt19937 random(t);
      for (int i = 0; i < 300; ++i) {
        const unsigned which = random() % 60;
        if (random() % 2 == 0) {
          write(store, which);
        } else {
          good += read(store, which);
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(good, 50);
  std::int64_t bytes = 0;
  for (const fs::path& file : files()) bytes += static_cast<std::int64_t>(fs::file_size(file));
  EXPECT_LE(bytes, kMost + kMost / 8);
}

TEST_F(DiskStoreTest, what_is_queued_when_it_ends_is_dropped_and_what_is_under_way_is_whole) {
  const std::vector<std::byte> bytes = block(1);
  for (int round = 0; round < 20; ++round) {
    auto store = open();
    for (unsigned i = 0; i < 50; ++i) store->write(key(*store, 1), 0, bytes, static_cast<std::int32_t>(i));
    store.reset();
    store = open();
    if (has(*store, 1)) {
      EXPECT_TRUE(read(*store, 1));
    }
    for (const auto& entry : fs::directory_iterator(folder)) EXPECT_NE(entry.path().extension(), ".new");
  }
}

}  // namespace
}  // namespace quern::kvcache
