#include "serving/auth/keys.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"

namespace quern::auth {
namespace {

TEST(Keys, admit_exactly_what_was_added) {
  Keys keys;
  EXPECT_FALSE(keys.has(""));
  keys.add("secret");
  keys.add("other-key");
  EXPECT_TRUE(keys.has("secret"));
  EXPECT_TRUE(keys.has("other-key"));
  for (const char* wrong : {"", "s", "secre", "secret ", "secretsecret", "Secret", "other-keY"}) EXPECT_FALSE(keys.has(wrong)) << wrong;
  for (const char* bad : {"", "two words", "line\n"}) EXPECT_THROW(keys.add(bad), Error) << bad;
}

TEST(Keys, are_read_from_a_file_a_line_each) {
  const std::string path = ::testing::TempDir() + "keys_test." + std::to_string(::getpid());
  std::ofstream(path) << "# who may\none\r\n\ntwo\n";
  Keys keys;
  keys.add_file(path);
  std::filesystem::remove(path);
  EXPECT_TRUE(keys.has("one"));
  EXPECT_TRUE(keys.has("two"));
  EXPECT_FALSE(keys.has("# who may"));
  EXPECT_THROW(keys.add_file(path), Error);
}

TEST(Keys, are_found_in_an_authorization_header) {
  EXPECT_EQ(Keys::bearer("Bearer abc"), "abc");
  EXPECT_EQ(Keys::bearer("bearer  abc"), "abc");
  for (const char* none : {"", "Bearer", "Bearer ", "Basic abc", "abc"}) EXPECT_EQ(Keys::bearer(none), "") << none;
}

}  // namespace
}  // namespace quern::auth
