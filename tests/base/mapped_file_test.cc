#include "base/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"

namespace quern {
namespace {

class MappedFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "mapped_file_test." + std::to_string(getpid());
    std::filesystem::create_directory(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string file(const std::string& text) {
    const std::string path = folder_ + "/file" + std::to_string(files_++);
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  std::string folder_;
  int files_ = 0;
};

std::string text(const MappedFile& file) { return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}; }

TEST_F(MappedFileTest, has_an_identity_only_when_its_last_change_is_some_time_ago) {
  const std::string path = file("abc");
  EXPECT_EQ(MappedFile(path).identity(), "") << "another change could bear the same time";
  EXPECT_NE(MappedFile("/proc/self/exe").identity(), "");
  EXPECT_EQ(MappedFile("/proc/self/exe").identity(), MappedFile("/proc/self/exe").identity());
}

TEST_F(MappedFileTest, holds_the_bytes_of_the_file) {
  const std::string path = file("hello");
  const MappedFile mapped(path);
  EXPECT_EQ(text(mapped), "hello");
  EXPECT_EQ(mapped.path(), path);
}

TEST_F(MappedFileTest, an_empty_file_has_no_bytes) { EXPECT_EQ(MappedFile(file("")).bytes().size(), 0u); }

TEST_F(MappedFileTest, what_is_no_file_is_a_clear_error) {
  const auto what = [](const std::string& path) {
    try {
      MappedFile mapped(path);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::not_found);
      return std::string(e.what());
    }
    return std::string("opened");
  };
  EXPECT_EQ(what(folder_ + "/none"), "cannot open the file: No such file or directory (at " + folder_ + "/none)");
  EXPECT_EQ(what(folder_), "is a directory, not a file (at " + folder_ + ")");
  EXPECT_EQ(what("/dev/null"), "is not a regular file (at /dev/null)");
}

TEST_F(MappedFileTest, moves) {
  MappedFile a(file("hello"));
  MappedFile b(std::move(a));
  EXPECT_EQ(text(b), "hello");
  MappedFile c(file("other"));
  c = std::move(b);
  EXPECT_EQ(text(c), "hello");
}

TEST_F(MappedFileTest, released_pages_are_read_again) {
  std::string bytes(5 * 4096 + 100, 'x');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7);
  const MappedFile mapped(file(bytes));
  for (const auto& [first, count] :
       {std::pair<std::size_t, std::size_t>{0, bytes.size()}, {1, 4096}, {100, 3 * 4096}, {5, 0}, {4096, 4096}}) {
    release_pages(mapped.bytes().subspan(first, count));
    EXPECT_EQ(text(mapped), bytes);
  }
}

TEST_F(MappedFileTest, does_not_wait_for_the_writer_of_a_fifo) {
  const std::string path = folder_ + "/fifo";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  for (const std::string& other : {path, std::string("/dev/zero")}) {
    try {
      const MappedFile mapped(other);
      ADD_FAILURE() << other;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("is not a regular file"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace quern
