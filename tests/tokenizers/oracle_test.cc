#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "small_vocabulary.h"
#include "tokenizers/detail/pre_tokenizer.h"

namespace quern::tokenizers {
namespace {

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

std::vector<Id> ids_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<Id> ids;
  for (Id id; in >> id;) ids.push_back(id);
  return ids;
}

class Oracle : public testing::TestWithParam<std::string> {};

TEST_P(Oracle, ids_equal_those_of_hugging_face_tokenizers) {
  const auto tokenizer = SmallVocabulary().make(GetParam());
  const std::vector<std::string> strings = data_lines("strings.txt"), expected = data_lines(GetParam() + ".ids");
  ASSERT_EQ(strings.size(), expected.size());
  for (std::size_t i = 0; i < strings.size(); ++i) {
    const std::string text = from_hex(strings[i]);
    const std::size_t bar = expected[i].find('|');
    EXPECT_EQ(tokenizer->encode(text), ids_of(expected[i].substr(0, bar))) << "string " << i << " '" << text << "'";
    EXPECT_EQ(tokenizer->encode(text, {.parse_special = false}), ids_of(expected[i].substr(bar + 1)))
        << "string " << i << " '" << text << "'";
  }
}

std::vector<std::string> first_names() {
  std::vector<std::string> names;
  for (const auto& row : detail::pre_tokenizer_rows()) names.emplace_back(row.names.front());
  return names;
}

INSTANTIATE_TEST_SUITE_P(PreTokenizers, Oracle, testing::ValuesIn(first_names()), [](const auto& info) {
  std::string name = info.param;
  for (char& c : name) c = c == '-' || c == '.' ? '_' : c;
  return name;
});

TEST(PreTokenizers, no_name_stands_in_two_rows) {
  std::vector<std::string_view> names;
  for (const auto& row : detail::pre_tokenizer_rows()) names.insert(names.end(), row.names.begin(), row.names.end());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

}  // namespace
}  // namespace quern::tokenizers
