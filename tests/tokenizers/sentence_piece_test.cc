// SentencePiece BPE against SentencePiece and llama.cpp; make_sentence_piece.py made the data.
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "sentence_piece_vocabulary.h"
#include "tokenizers/tokenizer.h"

namespace quern::tokenizers {
namespace {

std::vector<Id> ids_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<Id> ids;
  for (Id id; in >> id;) ids.push_back(id);
  return ids;
}

std::unique_ptr<Tokenizer> make(PageVector<std::string_view> tokens, PageVector<std::int32_t> types, PageVector<float> scores) {
  return make_tokenizer({.model = "llama", .tokens = std::move(tokens), .types = std::move(types), .scores = std::move(scores)});
}

TEST(SentencePiece, gives_the_ids_of_the_references) {
  const std::vector<std::string> strings = data_lines("sentence_piece.strings");
  for (const std::string name : {"llama", "gemma", "squeezing"}) {
    const auto tokenizer = make_sentence_piece(name);
    const std::vector<std::string> lines = data_lines("sentence_piece." + name + ".ids");
    ASSERT_EQ(lines.size(), strings.size());
    for (std::size_t i = 0; i < strings.size(); ++i) {
      const std::string text = from_hex(strings[i]);
      const std::size_t bar = lines[i].find('|');
      EXPECT_EQ(tokenizer->encode(text, {.parse_special = false}), ids_of(lines[i].substr(bar + 1))) << name << ": " << text;
      if (name != "squeezing") {  // SentencePiece itself parses no control tokens
        EXPECT_EQ(tokenizer->encode(text), ids_of(lines[i].substr(0, bar))) << name << ": " << text;
      }
    }
  }
}

TEST(SentencePiece, decoding_gives_the_text_back_all_at_once_and_token_by_token) {
  for (const std::string name : {"llama", "gemma"}) {
    const auto tokenizer = make_sentence_piece(name);
    for (const std::string& hex : data_lines("sentence_piece.strings")) {
      const std::string text = from_hex(hex);
      if (text.find("▁") != text.npos) continue;  // which is a space from then on
      const std::vector<Id> ids = tokenizer->encode(text, {.parse_special = false});
      EXPECT_EQ(tokenizer->decode(ids), text);
      StreamDecoder decoder(*tokenizer);
      std::string streamed;
      for (const Id id : ids) {
        streamed += decoder.push(id);
        EXPECT_EQ(text.substr(0, streamed.size()), streamed);  // whole characters only
      }
      streamed += decoder.finish();
      EXPECT_EQ(streamed, text);
    }
  }
}

TEST(SentencePiece, the_space_put_in_front_of_a_text_goes_away_again_but_not_one_that_goes_on_after_others) {
  const auto tokenizer = make_sentence_piece("llama");
  const std::vector<Id> ids = tokenizer->encode("the", {.add_special = true});
  EXPECT_EQ(ids.front(), 1);
  EXPECT_EQ(tokenizer->decode(ids), "<s> the");
  EXPECT_EQ(tokenizer->decode(ids, {.skip_special = true}), "the");
  EXPECT_EQ(tokenizer->decode(ids, {.skip_special = true, .continues = true}), " the");
  StreamDecoder decoder(*tokenizer, {.skip_special = true});
  for (int again = 0; again < 2; ++again) {
    std::string text;
    for (const Id id : ids) text += decoder.push(id);
    EXPECT_EQ(text += decoder.finish(), "the");
  }
}

TEST(SentencePiece, begin_end_and_unknown_tokens_have_the_places_that_the_format_gives_them_unless_a_file_says_otherwise) {
  const auto tokenizer = make_sentence_piece("llama");
  EXPECT_EQ(tokenizer->special().bos, 1);
  EXPECT_EQ(tokenizer->special().eos, 2);
  EXPECT_EQ(tokenizer->special().unk, 0);
  EXPECT_TRUE(tokenizer->adds_bos());
  EXPECT_FALSE(tokenizer->adds_eos());
  EXPECT_TRUE(tokenizer->is_end(2));
  const SentencePieceVocabulary vocabulary("llama");
  Spec spec = vocabulary.spec();
  spec.special.bos = 4;
  spec.special.unk = 0xFFFFFFFF;
  spec.add_bos = false;
  spec.add_eos = true;
  const auto other = make_tokenizer(spec);
  EXPECT_EQ(other->special().bos, 4);
  EXPECT_EQ(other->special().unk, -1);
  EXPECT_FALSE(other->adds_bos());
  EXPECT_TRUE(other->adds_eos());
  const auto tiny = make({"a"}, {}, {});
  EXPECT_EQ(tiny->special().bos, -1);  // no such token
  EXPECT_FALSE(tiny->adds_bos());
}

TEST(SentencePiece, text_cannot_forge_a_control_or_byte_token) {
  const auto tokenizer = make({"<", "x", ">", "<x", "<x>", "<0x41>", "0", "4", "1", "<0", "<0x", "<0x4", "<0x41"},
                              {1, 1, 1, 1, 3, 6, 1, 1, 1, 1, 1, 1, 1}, {0, 0, 0, 1, 9, 9, 0, 0, 0, 1, 2, 3, 4});
  EXPECT_EQ(tokenizer->encode("<x>"), std::vector<Id>{4});
  EXPECT_EQ(tokenizer->encode("<x>", {.parse_special = false}), (std::vector<Id>{3, 2}));  // the prefix is no token
  EXPECT_EQ(tokenizer->encode("<0x41>", {.parse_special = false}), (std::vector<Id>{12, 2}));
  EXPECT_EQ(tokenizer->encode("A"), std::vector<Id>{5});
}

TEST(SentencePiece, the_highest_score_merges_first_and_of_equal_ones_the_leftmost) {
  const auto merged = [](PageVector<float> scores) {
    const PageVector<std::string_view> tokens = {"▁", "a", "b", "c", "ab", "bc", "▁a"};
    return make(tokens, {}, std::move(scores))->encode("abc");
  };
  EXPECT_EQ(merged({0, 0, 0, 0, -1, -2, -3}), (std::vector<Id>{0, 4, 3}));
  EXPECT_EQ(merged({0, 0, 0, 0, -2, -1, -3}), (std::vector<Id>{6, 5}));
  EXPECT_EQ(merged({0, 0, 0, 0, 1, 1, 1}), (std::vector<Id>{6, 5}));
  EXPECT_EQ(merged({}), (std::vector<Id>{6, 5}));
  EXPECT_EQ(merged({0, 0, 0, 0, -0.0f, 0.0f, -1e30f}), (std::vector<Id>{0, 4, 3}));
}

TEST(SentencePiece, a_character_that_is_no_token_can_still_be_part_of_one) {
  const auto tokenizer = make({"<unk>", "a", "é▁", "aé▁"}, {2, 1, 1, 1}, {0, 0, 2, 1});
  EXPECT_EQ(tokenizer->encode("aé b"), (std::vector<Id>{0, 3, 0}));
}

TEST(SentencePiece, vocabularies_that_make_no_sense_are_clear_errors) {
  const auto error = [](const Spec& spec) {
    try {
      make_tokenizer(spec);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::data_corrupt);
      return e.message();
    }
    return std::string("made");
  };
  EXPECT_EQ(error({.model = "llama", .tokens = {"a", "b"}, .scores = {1}}), "the vocabulary has 2 tokens but 1 scores");
  EXPECT_EQ(error({.model = "llama", .tokens = {"a"}, .scores = {std::numeric_limits<float>::quiet_NaN()}}),
            "the score of token 0 is not a number");
  EXPECT_EQ(error({.model = "llama", .tokens = {"<0x4>"}, .types = {6}}),
            "byte token 0 is '<0x4>' where '<0x00>' to '<0xFF>' was expected");
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(make({"a", "aa", "\xFF", "", "a\xE2\x96"}, {}, {-infinity, infinity, 0, 0, 0})->encode("ab"), std::vector<Id>{0});
}

// As the models' own tokenizers have it, where the token is spelled with U+2581.
TEST(SentencePiece, users_tokens_of_spaces_are_found_where_the_text_has_the_sign_of_a_space) {
  const auto tokenizer =
      make_tokenizer({.model = "llama", .tokens = {"▁", "a", "b", "  "}, .types = {1, 1, 1, 4}, .special = {}, .add_space_prefix = false});
  for (const char* text : {"a  b", "a▁▁b", "a ▁b"})
    EXPECT_EQ(tokenizer->encode(text, {.parse_special = false}), (std::vector<Id>{1, 3, 2})) << text;
}

TEST(SentencePiece, long_texts_take_no_more_time_a_byte_than_short_ones) {
  // Every power of two of a's is a token: one word of a million characters, merged over and over. Quadratic time would be minutes.
  std::vector<std::string> texts = {"▁"};
  for (std::size_t length = 1; length <= 1024; length *= 2) texts.emplace_back(length, 'a');
  PageVector<float> scores;
  for (std::size_t i = 0; i < texts.size(); ++i) scores.push_back(-static_cast<float>(i));
  const auto tokenizer = make({texts.begin(), texts.end()}, {}, scores);
  const std::vector<Id> ids = tokenizer->encode(std::string(1 << 20, 'a'));
  EXPECT_EQ(ids.size(), 1u + (1u << 20) / 512);  // longer tokens than 512 bytes are not merged to
}

TEST(SentencePiece, tokens_are_located_in_the_text_as_it_was_given) {
  for (const char* name : {"llama", "gemma", "squeezing"}) {
    const auto tokenizer = make_sentence_piece(name);
    for (const std::string text : {"Hello  world ▁x", "  été 日本語 \U0001F468\n", "a"}) {
      const LocatedIds located = tokenizer->encode_located(text, {.add_special = true});
      EXPECT_EQ(located.ids, tokenizer->encode(text, {.add_special = true}));
      std::uint32_t at = 0;
      for (const TextRange range : located.ranges) {
        EXPECT_LE(at, range.begin) << name << " '" << text << "'";
        EXPECT_LE(range.begin, range.end);
        at = range.end;
      }
      EXPECT_EQ(at, text.size()) << name << " '" << text << "'";
    }
  }
}

}  // namespace
}  // namespace quern::tokenizers
