#include "base/error.h"

#include <gtest/gtest.h>

namespace quern {
namespace {

TEST(Error, says_what_where_and_what_to_do) {
  EXPECT_STREQ(Error(Code::internal, "x is 3").what(), "x is 3");
  EXPECT_STREQ(Error(Code::data_corrupt, "x is 3").at("m.gguf").what(), "x is 3 (at m.gguf)");
  EXPECT_STREQ(Error(Code::data_corrupt, "x is 3").at("m.gguf", 17).hint("convert it again").what(),
               "x is 3 (at m.gguf, offset 17): convert it again");
  EXPECT_STREQ(Error(Code::data_corrupt, "x is 3").in("node 'y'").at("m.gguf").what(), "x is 3 (in node 'y'; at m.gguf)");
  EXPECT_EQ(Error(Code::data_corrupt, "x is 3").at("m.gguf").message(), "x is 3");
}

TEST(Error, every_code_has_its_name) {
  EXPECT_EQ(name(Code::invalid_argument), "invalid_argument");
  EXPECT_EQ(name(Code::not_found), "not_found");
  EXPECT_EQ(name(Code::unsupported), "unsupported");
  EXPECT_EQ(name(Code::resource_exhausted), "resource_exhausted");
  EXPECT_EQ(name(Code::data_corrupt), "data_corrupt");
  EXPECT_EQ(name(Code::cancelled), "cancelled");
  EXPECT_EQ(name(Code::internal), "internal");
}

TEST(Error, long_texts_keep_both_ends) {
  std::string name = "first";
  for (int i = 0; i < 1'000'000; ++i) name += "ä";
  name += "last";
  Error error(Code::data_corrupt, "message " + name);
  error.at("path " + name).in("place " + name).hint("hint " + name);
  const std::string what = error.what();
  EXPECT_LT(what.size(), 9000u);
  for (const std::string start : {"message ", "path ", "place ", "hint "})
    EXPECT_NE(what.find(start + "firstä"), std::string::npos) << start;
  EXPECT_NE(what.find("ä … ä"), std::string::npos);
  EXPECT_NE(what.find("älast"), std::string::npos);
}

TEST(Error, a_broken_invariant_is_an_internal_error_that_names_it) {
  try {
    QUERN_ASSERT(1 + 1 == 3);
    FAIL() << "nothing was thrown";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::internal);
    EXPECT_NE(std::string(e.what()).find("1 + 1 == 3"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("error_test.cc"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace quern
