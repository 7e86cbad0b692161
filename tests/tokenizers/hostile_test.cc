#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <ctime>

#include "base/error.h"
#include "small_vocabulary.h"

namespace quern::tokenizers {
namespace {

using testing::HasSubstr;

std::string error_of(const Spec& spec, Code code) {
  try {
    make_tokenizer(spec);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

Spec two_tokens() { return {.model = "gpt2", .pre_tokenizer = "gpt-2", .tokens = {"a", "b"}}; }

TEST(Hostile, an_unknown_model_or_pre_tokenizer_is_refused_with_the_names_that_are_known) {
  Spec spec = two_tokens();
  spec.model = "plamo2";
  EXPECT_THAT(error_of(spec, Code::unsupported), AllOf(HasSubstr("'plamo2'"), HasSubstr("gpt2"), HasSubstr("llama")));
  spec = two_tokens();
  spec.pre_tokenizer = "no-such";
  EXPECT_THAT(error_of(spec, Code::unsupported), AllOf(HasSubstr("'no-such'"), HasSubstr("smollm"), HasSubstr("llama-bpe")));
}

TEST(Hostile, an_empty_vocabulary_is_refused) {
  Spec spec = two_tokens();
  spec.tokens.clear();
  EXPECT_THAT(error_of(spec, Code::data_corrupt), HasSubstr("no tokens"));
}

TEST(Hostile, arrays_of_different_lengths_are_refused) {
  Spec spec = two_tokens();
  spec.types = {1};
  EXPECT_THAT(error_of(spec, Code::data_corrupt), HasSubstr("2 tokens but 1 token types"));
}

TEST(Hostile, token_types_out_of_range_are_refused) {
  for (const std::int32_t type : {-1, 7, INT32_MAX}) {
    Spec spec = two_tokens();
    spec.types = {1, type};
    EXPECT_THAT(error_of(spec, Code::data_corrupt), HasSubstr("token 1"));
  }
}

TEST(Hostile, ids_out_of_range_are_refused_or_ignored_with_a_note) {
  for (const std::int64_t id : {std::int64_t{2}, std::int64_t{1} << 31, INT64_MAX}) {
    Spec spec = two_tokens();
    spec.special.eos = id;
    EXPECT_THAT(error_of(spec, Code::data_corrupt), HasSubstr("end-of-sequence"));
    spec = two_tokens();
    spec.end_ids = {id};
    error_of(spec, Code::data_corrupt);
    spec = two_tokens();
    spec.special.pad = id;
    const auto t = make_tokenizer(spec);
    EXPECT_EQ(t->special().pad, -1);
    EXPECT_EQ(t->notes().size(), 1u);
  }
  Spec spec = two_tokens();
  spec.special.bos = 0xFFFFFFFF;
  EXPECT_EQ(make_tokenizer(spec)->special().bos, -1);
}

TEST(Hostile, malformed_byte_tokens_are_refused) {
  for (const char* text : {"<0x-1>", "<0x1>", "<0xGG>", "<0x100>", "", "<0x00", "x"}) {
    Spec spec{.model = "gpt2", .tokens = {"a", text}, .types = {1, 6}};
    EXPECT_THAT(error_of(spec, Code::data_corrupt), HasSubstr("byte token 1"));
  }
  Spec spec{.model = "gpt2", .tokens = {"a", "<0xfE>"}, .types = {1, 6}};
  EXPECT_EQ(make_tokenizer(spec)->token_bytes(1), "\xFE");
}

TEST(Hostile, malformed_merges_are_refused) {
  for (const char* merge : {"", "ab", " ", "a ", "ab "}) {
    Spec spec = two_tokens();
    spec.merges = {merge};
    EXPECT_THAT(error_of(spec, Code::data_corrupt), HasSubstr("merge 0"));
  }
}

TEST(Hostile, merges_of_unknown_tokens_are_skipped_with_one_note) {
  Spec spec = two_tokens();
  spec.merges = {"a b", "a x", "é é", "\xFF \xFF"};
  const auto t = make_tokenizer(spec);
  EXPECT_EQ(t->encode("ab"), (std::vector<Id>{0, 1}));
  ASSERT_EQ(t->notes().size(), 1u);
  EXPECT_THAT(t->notes()[0], HasSubstr("4 merges"));
}

TEST(Hostile, of_duplicate_tokens_text_becomes_the_last) {
  Spec spec{.model = "gpt2", .pre_tokenizer = "gpt-2", .tokens = {"a", "b", "ab", "a", "ab", "", ""}, .merges = {"a b", "a b"}};
  const auto t = make_tokenizer(spec);
  EXPECT_EQ(t->encode("ab a"), (std::vector<Id>{4, 3}));
  EXPECT_EQ(t->notes().size(), 1u);
  EXPECT_EQ(t->token_bytes(5), "");
}

TEST(Hostile, texts_of_a_mebibyte_and_a_million_merges_load) {
  const std::string long_text(1 << 20, 'x');
  std::vector<std::string> merges;
  for (int i = 0; i < 1'000'000; ++i) merges.push_back(i % 2 ? "a b" : "b " + std::to_string(i));
  Spec spec{.model = "gpt2", .pre_tokenizer = "gpt-2", .tokens = {"a", "b", "ab", long_text, long_text}, .types = {1, 1, 1, 1, 3}};
  spec.merges.assign(merges.begin(), merges.end());
  const auto t = make_tokenizer(spec);
  EXPECT_EQ(t->encode("ab" + long_text), (std::vector<Id>{2}));
  EXPECT_EQ(t->token_bytes(4).size(), long_text.size());
}

TEST(Hostile, bytes_that_no_token_spells_are_left_out) {
  EXPECT_TRUE(make_tokenizer(two_tokens())->encode("xyz \xFF").empty());
  EXPECT_EQ(make_tokenizer(two_tokens())->encode("axb"), (std::vector<Id>{0, 1}));
}

// Quadratic work on such texts would take minutes.
TEST(Hostile, long_words_and_runs_take_linear_time) {
  const SmallVocabulary vocabulary;
  constexpr std::size_t kLength = 1 << 18;
  std::string letters, marks, specials, mixed_case;
  for (std::size_t i = 0; i < kLength; ++i) letters += static_cast<char>('a' + i * i % 23);
  while (marks.size() < kLength) marks += "\xCC\x81";
  while (specials.size() < kLength) specials += "<|im_";
  while (mixed_case.size() < kLength) mixed_case += "ªA";
  const std::array texts{std::string(kLength, 'a'),
                         std::string(kLength, ' '),
                         std::string(kLength, ' ') + "\n",
                         std::string(kLength, '7'),
                         std::string(kLength, '\n'),
                         std::string(kLength, '\''),
                         std::string(kLength, 'A'),
                         std::string(kLength, '\x01'),
                         letters,
                         marks,
                         specials,
                         mixed_case};
  for (const char* pre : {"smollm", "llama-bpe", "gpt-4o", "deepseek-v3", "jais-2", "default", "poro-chat", "youtu"}) {
    const auto t = vocabulary.make(pre);
    for (const std::string& text : texts) {
      const std::clock_t start = std::clock();  // CPU time: another program may be busy beside
      const auto ids = t->encode(text);
      EXPECT_LT(std::clock() - start, 20 * CLOCKS_PER_SEC) << pre << " on " << text.substr(0, 8);
      EXPECT_EQ(t->decode(ids), text) << pre << " on " << text.substr(0, 8);
    }
  }
}

}  // namespace
}  // namespace quern::tokenizers
