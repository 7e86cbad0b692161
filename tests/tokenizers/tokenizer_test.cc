#include "tokenizers/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "base/error.h"
#include "small_vocabulary.h"

namespace quern::tokenizers {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;

// Ids of make_oracle.py's control tokens.
constexpr Id kEndOfText = 0, kStart = 1, kEnd = 2, kEndStart = 3;

const SmallVocabulary& vocabulary() {
  static const SmallVocabulary v;
  return v;
}

std::vector<Id> joined(std::initializer_list<std::vector<Id>> parts) {
  std::vector<Id> ids;
  for (const auto& part : parts) ids.insert(ids.end(), part.begin(), part.end());
  return ids;
}

TEST(Special, the_longest_special_token_at_a_place_wins) {
  const auto t = vocabulary().make("smollm");
  EXPECT_THAT(t->encode("<|im_end|><|im_start|>"), ElementsAre(kEndStart));
  EXPECT_THAT(t->encode("<|im_end|><|im_end|>"), ElementsAre(kEnd, kEnd));
  EXPECT_THAT(t->encode("<|im_start|><|im_end|>"), ElementsAre(kStart, kEnd));
}

TEST(Special, control_tokens_are_parsed_only_where_asked_for_but_user_defined_ones_always) {
  const auto t = vocabulary().make("smollm");
  EXPECT_THAT(t->encode("<|im_end|>", {.parse_special = false}), Not(Contains(kEnd)));
  const std::optional<Id> think = t->find_special("<think>");
  ASSERT_TRUE(think);
  EXPECT_THAT(t->encode("<think>", {.parse_special = false}), ElementsAre(*think));
}

TEST(Special, a_users_words_cannot_forge_a_turn_marker_whole_or_in_part) {
  const auto t = vocabulary().make("smollm");
  const std::vector<Piece> whole{{"<|im_start|>user\n", true}, {"hi<|im_end|>", false}, {"<|im_end|>\n", true}};
  EXPECT_EQ(t->encode(whole), joined({{kStart}, t->encode("user\nhi<|im_end|>", {.parse_special = false}), {kEnd}, t->encode("\n")}));
  const std::vector<Piece> half{{"<|im_", true}, {"end|>", false}};
  EXPECT_THAT(t->encode(half), Not(Contains(kEnd)));
  const std::vector<Piece> other_half{{"<|im_", false}, {"end|>", true}};
  EXPECT_THAT(t->encode(other_half), Not(Contains(kEnd)));
  const std::vector<Piece> longer{{"<|im_end|>", true}, {"<|im_start|>", false}};  // the trusted part stays a marker
  EXPECT_EQ(t->encode(longer), joined({{kEnd}, t->encode("<|im_start|>", {.parse_special = false})}));
  const std::vector<Piece> trusted{{"<|im_", true}, {"", false}, {"end|>", true}};
  EXPECT_THAT(t->encode(trusted), ElementsAre(kEnd));
}

TEST(Special, pieces_give_the_ids_of_the_whole_text) {
  const auto t = vocabulary().make("llama-bpe");
  const std::string text = "<|im_start|>user\n\n\n  it's 12345 Straße,\n camelCase<|im_end|>\n";
  for (std::size_t cut = 12; cut + 12 < text.size(); ++cut) {
    if ((static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) continue;  // pieces are UTF-8 each
    const std::vector<Piece> pieces{{std::string_view(text).substr(0, cut), true},
                                    {std::string_view(text).substr(cut, 12), false},
                                    {std::string_view(text).substr(cut + 12), true}};
    if ((static_cast<unsigned char>(text[cut + 12]) & 0xC0) != 0x80 && cut + 12 <= text.size() - 12) {
      EXPECT_EQ(t->encode(pieces), t->encode(text)) << cut;
    }
  }
}

TEST(Special, no_merge_leads_to_a_control_token) {
  Spec spec{.model = "gpt2", .pre_tokenizer = "gpt-2", .tokens = {"a", "b", "ab"}, .types = {1, 1, 3}, .merges = {"a b"}};
  EXPECT_THAT(make_tokenizer(spec)->encode("ab", {.parse_special = false}), ElementsAre(0, 1));
}

TEST(Special, begin_and_end_are_added_once) {
  Spec spec = vocabulary().spec("smollm");
  spec.add_bos = spec.add_eos = true;
  const auto t = make_tokenizer(spec);
  const auto hi = t->encode("hi");
  EXPECT_EQ(t->encode("hi", {.add_special = true}), joined({{kStart}, hi, {kEnd}}));
  EXPECT_EQ(t->encode("<|im_start|>hi<|im_end|>", {.add_special = true}), joined({{kStart}, hi, {kEnd}}));
  EXPECT_THAT(t->encode("", {.add_special = true}), ElementsAre(kStart, kEnd));
  std::vector<Id> ids{7};
  t->encode("<|im_start|>hi", {.add_special = true}, ids);
  EXPECT_EQ(ids, joined({{7, kStart}, hi, {kEnd}}));
}

TEST(Special, the_pre_tokenizers_name_decides_on_begin_tokens_where_the_file_is_silent) {
  EXPECT_TRUE(vocabulary().make("llama-bpe")->adds_bos());
  EXPECT_FALSE(vocabulary().make("smollm")->adds_bos());
  Spec spec = vocabulary().spec("llama-bpe");
  spec.add_bos = false;
  EXPECT_FALSE(make_tokenizer(spec)->adds_bos());
}

TEST(EndIds, are_the_union_of_metadata_and_known_turn_ends) {
  Spec spec{.model = "gpt2",
            .tokens = {"a", "<|im_end|>", "<|eot_id|>", "<|end|>", "</s>", "b", "<|endoftext|>"},
            .types = {1, 3, 1, 3, 1, 3, 3}};
  spec.special = {.eos = 0, .eom = 5};
  spec.end_ids = {0, 5};
  const auto t = make_tokenizer(spec);
  EXPECT_THAT(t->end_ids(), ElementsAre(0, 1, 2, 3, 5, 6));
  EXPECT_EQ(t->type(2), TokenType::control) << "a turn marker that the file calls ordinary";
  EXPECT_FALSE(t->notes().empty());
  EXPECT_EQ(t->type(4), TokenType::normal);
  EXPECT_TRUE(t->is_end(6));
  EXPECT_FALSE(t->is_end(4));
}

TEST(EndIds, a_message_end_is_no_turn_end_in_formats_with_channels) {
  Spec spec{.model = "gpt2", .tokens = {"<|end|>", "<|return|>", "<|call|>"}, .types = {3, 3, 3}};
  EXPECT_THAT(make_tokenizer(spec)->end_ids(), ElementsAre(1, 2));
}

TEST(Merges, a_whole_word_that_is_a_token_skips_them_where_the_pre_tokenizer_says_so) {
  Spec spec{.model = "gpt2", .pre_tokenizer = "llama-bpe", .tokens = {"a", "b", "c", "ab", "abc"}, .merges = {"a b"}};
  EXPECT_THAT(make_tokenizer(spec)->encode("abc"), ElementsAre(4));
  spec.pre_tokenizer = "qwen2";
  EXPECT_THAT(make_tokenizer(spec)->encode("abc"), ElementsAre(3, 2));
}

TEST(Merges, the_most_urgent_comes_first_and_among_equals_the_leftmost_in_short_and_long_words) {
  Spec spec{.model = "gpt2", .pre_tokenizer = "gpt-2", .tokens = {"a", "b", "aa", "ab", "aab"}, .merges = {"a a", "aa b", "a b"}};
  const auto t = make_tokenizer(spec);
  EXPECT_THAT(t->encode("aaab"), ElementsAre(2, 3));
  EXPECT_THAT(t->encode("aab"), ElementsAre(4));
  std::vector<Id> expected;
  std::string text;
  for (int i = 0; i < 100; ++i) text += "aaab", expected.insert(expected.end(), {2, 3});
  EXPECT_EQ(t->encode(text), expected);
}

TEST(Decode, gives_back_any_valid_text) {
  for (const char* pre : {"smollm", "llama-bpe", "deepseek-v3", "poro-chat"}) {
    const auto t = vocabulary().make(pre);
    for (const std::string text : {"", " ", "It's  12 naïve\r\n\t👨‍👩‍👧‍👦 été<|im_end|> \xC2\x85 नमस्ते"}) {
      EXPECT_EQ(t->decode(t->encode(text)), text);
      EXPECT_EQ(t->decode(t->encode(text, {.parse_special = false})), text);
    }
  }
}

TEST(Decode, leaves_special_tokens_out_when_asked) {
  const auto t = vocabulary().make("smollm");
  const auto ids = t->encode("<|im_start|>hi<|im_end|>");
  EXPECT_EQ(t->decode(ids), "<|im_start|>hi<|im_end|>");
  EXPECT_EQ(t->decode(ids, {.skip_special = true}), "hi");
  EXPECT_EQ(t->token_bytes(kEndOfText), "<|endoftext|>");
  EXPECT_TRUE(t->is_special(kEndOfText));
}

TEST(Decode, an_id_outside_the_vocabulary_is_an_error) {
  const auto t = vocabulary().make("smollm");
  for (const Id id : {-1, static_cast<Id>(t->size())}) {
    EXPECT_THROW(t->decode(std::vector<Id>{id}), Error);
    EXPECT_THROW(t->token_bytes(id), Error);
    EXPECT_THROW(t->is_special(id), Error);
    EXPECT_THROW(StreamDecoder(*t).push(id), Error);
  }
}

// Expected by Unicode 16, section 3.9, table 3-8 and Python's bytes.decode("utf-8", "replace").
TEST(InvalidUtf8, each_maximal_subpart_counts_as_one_replacement_character) {
  const auto t = vocabulary().make("smollm");
  const std::string_view r = "\xEF\xBF\xBD";
  const auto times = [&](int n) {
    std::string s;
    while (n-- > 0) s += r;
    return s;
  };
  const std::vector<std::pair<std::string, std::string>> cases{
      {"a\xFF z", "a" + times(1) + " z"},
      {"\xC0\x80", times(2)},
      {"\xED\xA0\x80", times(3)},
      {"\xF0\x9F\x98", times(1)},
      {"\xF0\x9F\x98x", times(1) + "x"},
      {"\xF4\x90\x80\x80", times(4)},
      {"\x80", times(1)},
      {"\xE4\xBD", times(1)},
      {"\xC2\xC2\xA0", times(1) + "\xC2\xA0"},
      {"\xF8\x88\x80\x80\x80", times(5)},
  };
  for (const auto& [bytes, text] : cases) EXPECT_EQ(t->encode(bytes), t->encode(text)) << testing::PrintToString(bytes);
}

TEST(Stream, equals_whole_decoding_and_never_splits_a_character) {
  const auto t = vocabulary().make("deepseek-r1-qwen");
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<Id> ids;
    if (round % 2) {
      for (int i = 0; i < 30; ++i) ids.push_back(static_cast<Id>(random() % t->size()));  // mostly broken UTF-8
    } else {
      ids = t->encode("👨‍👩‍👧‍👦 Ελλάδα 你好 \xF0\x9F\x98");
      ids.resize(random() % (ids.size() + 1));
    }
    StreamDecoder stream(*t);
    std::string text;
    for (const Id id : ids) {
      const std::string_view part = stream.push(id);
      EXPECT_EQ(t->decode(t->encode(part)), part) << "a part is valid UTF-8";
      text += part;
    }
    text += stream.finish();
    EXPECT_EQ(text, t->decode(ids));
    EXPECT_EQ(stream.finish(), "");
  }
}

TEST(Threads, on_one_long_text_give_the_same_ids_as_one) {
  std::string text;
  for (const std::string& line : data_lines("strings.txt")) text += line.substr(0, 40) + " don't 12345 <|im_end|>\n";
  while (text.size() < 3'000'000) text += text;
  for (const char* name : {"llama-bpe", "deepseek-coder"}) {
    const auto tokenizer = SmallVocabulary().make(name);
    for (const unsigned threads : {2u, 3u, 16u}) {
      EXPECT_EQ(tokenizer->encode(text, {.parse_special = false, .threads = threads}), tokenizer->encode(text, {.parse_special = false}));
      EXPECT_EQ(tokenizer->encode(text, {.add_special = true, .threads = threads}), tokenizer->encode(text, {.add_special = true}));
    }
  }
}

TEST(Threads, give_the_same_ids_as_one) {
  const auto t = vocabulary().make("smollm");
  const std::string text = "It's  12 naïve\r\n\t👨‍👩‍👧‍👦 été<|im_end|> camelCase HTTPServer Straße";
  const auto expected = t->encode(text);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (int& count : wrong) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) count += t->encode(text) != expected;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_THAT(wrong, testing::Each(0));
}

TEST(Special, some_take_the_white_space_beside_them_along) {
  const SmallVocabulary vocabulary;
  Spec spec = vocabulary.spec("qwen2");
  const auto plain = make_tokenizer(spec);
  const Id start = *plain->find_special("<|im_start|>"), end = *plain->find_special("<|im_end|>");
  spec.strips_left = {start}, spec.strips_right = {end};
  const auto tokenizer = make_tokenizer(spec);
  const auto ids = [&](std::string_view text) { return plain->encode(text); };
  EXPECT_EQ(tokenizer->encode("a \u3000\n<|im_start|> b"), ids("a<|im_start|> b"));
  EXPECT_EQ(tokenizer->encode("a <|im_end|> \u00a0\nb"), ids("a <|im_end|>b"));
  EXPECT_EQ(tokenizer->encode("<|im_end|> <|im_start|>"), (std::vector<Id>{end, start}));
}

TEST(Located, ranges_of_bytes_follow_each_other_through_the_whole_text) {
  const auto tokenizer = SmallVocabulary().make("qwen2");
  for (const std::string text : {"Hello  wörld, été <|im_end|> 12\n\n👨‍👩‍👧 x", "", " ", "<|im_start|>", "日本語 ﷺ"}) {
    const LocatedIds located = tokenizer->encode_located(text);
    EXPECT_EQ(located.ids, tokenizer->encode(text));
    ASSERT_EQ(located.ranges.size(), located.ids.size());
    std::uint32_t at = 0;
    for (std::size_t i = 0; i < located.ids.size(); ++i) {
      const TextRange range = located.ranges[i];
      EXPECT_EQ(range.begin, at);
      EXPECT_EQ(std::string_view(text).substr(range.begin, range.end - range.begin), tokenizer->token_bytes(located.ids[i]));
      at = range.end;
    }
    EXPECT_EQ(at, text.size());
  }
}

TEST(Located, what_add_special_puts_there_has_an_empty_range) {
  const SmallVocabulary vocabulary;
  Spec spec = vocabulary.spec("qwen2");
  spec.add_bos = true, spec.add_eos = true;
  const auto tokenizer = make_tokenizer(spec);
  const LocatedIds located = tokenizer->encode_located("ab", {.add_special = true});
  EXPECT_EQ(located.ids, tokenizer->encode("ab", {.add_special = true}));
  EXPECT_EQ(located.ranges.front(), (TextRange{0, 0}));
  EXPECT_EQ(located.ranges.back(), (TextRange{2, 2}));
}

TEST(Located, a_malformed_sequence_is_the_range_of_the_tokens_that_replace_it) {
  const auto tokenizer = SmallVocabulary().make("qwen2");
  const std::string text = "a\xF0\x9F b\xFF\xFEz";
  const LocatedIds located = tokenizer->encode_located(text);
  EXPECT_EQ(located.ids, tokenizer->encode(text));
  std::uint32_t begin = 0;
  for (std::size_t i = 0; i < located.ids.size(); ++i) {
    EXPECT_LE(begin, located.ranges[i].begin);
    EXPECT_LE(located.ranges[i].begin, located.ranges[i].end);
    begin = located.ranges[i].begin;
    const std::string_view bytes = tokenizer->token_bytes(located.ids[i]);
    if (bytes == "z") {
      EXPECT_EQ(located.ranges[i], (TextRange{7, 8}));
    }
    if (bytes == " b") {
      EXPECT_EQ(located.ranges[i], (TextRange{3, 5}));
    }
  }
  EXPECT_EQ(located.ranges.back().end, text.size());
}

TEST(Lookup, finds_special_tokens_by_their_text) {
  const auto t = vocabulary().make("smollm");
  EXPECT_EQ(t->find_special("<|im_end|>"), kEnd);
  EXPECT_EQ(t->find_special("<|im_end|>x"), std::nullopt);
  EXPECT_EQ(t->find_special(""), std::nullopt);
  EXPECT_EQ(t->token_text(t->encode(" ")[0]), "Ġ");
  EXPECT_EQ(t->token_bytes(t->encode(" ")[0]), " ");
}

}  // namespace
}  // namespace quern::tokenizers
