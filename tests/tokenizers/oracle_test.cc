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

// `name`.ids: for each string the ids with special tokens parsed, a bar, and those without.
void expect_ids(const Tokenizer& tokenizer, const std::string& strings_name, const std::string& name) {
  const std::vector<std::string> strings = data_lines(strings_name), expected = data_lines(name + ".ids");
  ASSERT_EQ(strings.size(), expected.size());
  for (std::size_t i = 0; i < strings.size(); ++i) {
    const std::string text = from_hex(strings[i]);
    const std::size_t bar = expected[i].find('|');
    EXPECT_EQ(tokenizer.encode(text), ids_of(expected[i].substr(0, bar))) << "string " << i << " '" << text << "'";
    EXPECT_EQ(tokenizer.encode(text, {.parse_special = false}), ids_of(expected[i].substr(bar + 1)))
        << "string " << i << " '" << text << "'";
  }
}

class Oracle : public testing::TestWithParam<std::string> {};

TEST_P(Oracle, ids_equal_those_of_hugging_face_tokenizers) { expect_ids(*SmallVocabulary().make(GetParam()), "strings.txt", GetParam()); }

TEST(CharacterBpe, ids_equal_those_of_hugging_face_tokenizers) {
  std::vector<std::string> tokens, merges;
  std::vector<std::int32_t> types;
  for (const std::string& line : data_lines("characters.vocabulary")) {
    types.push_back(std::stoi(line));
    tokens.push_back(from_hex(line.substr(line.find(' ') + 1)));
  }
  for (const std::string& line : data_lines("characters.merges")) {
    const std::size_t space = line.find(' ');
    merges.push_back(from_hex(line.substr(0, space)) + " " + from_hex(line.substr(space + 1)));
  }
  for (const char* name : {"gemma4", "whitespace"}) {
    Spec spec{.model = "gpt2", .pre_tokenizer = name, .types = {types.begin(), types.end()}};
    spec.tokens.assign(tokens.begin(), tokens.end());
    spec.merges.assign(merges.begin(), merges.end());
    const auto tokenizer = make_tokenizer(spec);
    expect_ids(*tokenizer, "characters.strings", std::string("characters.") + name);
  }
}

std::vector<std::string> first_names() {
  std::vector<std::string> names;
  for (const auto& row : detail::pre_tokenizer_rows()) {
    if (!row.characters) names.emplace_back(row.names.front());
  }
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
