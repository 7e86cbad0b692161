// Tokenizers' own files that are whole, yet made to break a reader: each is refused with an error or read, in bounded time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <string>

#include "base/error.h"
#include "tokenizers/detail/rank_file.h"
#include "tokenizers/detail/sentence_piece.h"
#include "tokenizers/detail/tokenizer_json.h"

namespace quern::tokenizers {
namespace {

using testing::HasSubstr;

constexpr const char* kVocabulary = R"({"a":0,"b":1,"ab":2})";

std::string bpe(const std::string& vocabulary, const std::string& merges, const std::string& more = "") {
  return R"({)" + more + R"("model":{"type":"BPE","vocab":)" + vocabulary + R"(,"merges":)" + merges + "}}";
}

/// What is said of a file; empty where it is read.
std::string error_of(const std::string& json, const std::string& text = "ab <x> ab") {
  try {
    const auto t = detail::read_tokenizer_json(json, {});
    t->decode(t->encode(text));
    return "";
  } catch (const Error& error) {
    EXPECT_NE(error.code(), Code::internal) << error.what();
    return error.what();
  }
}

std::string repeated(std::size_t count, auto&& item) {
  std::string out = "[";
  for (std::size_t i = 0; i < count; ++i) out += (i > 0 ? "," : "") + item(i);
  return out + "]";
}

class Seconds {
 public:
  double taken() const { return static_cast<double>(std::clock() - start_) / CLOCKS_PER_SEC; }

 private:
  std::clock_t start_ = std::clock();  // CPU time: another program may be busy beside
};

TEST(HostileFiles, values_of_the_wrong_type_are_refused) {
  for (const char* value :
       {"null", "true", "-1", "1.5", "1e308", "1e999", "\"x\"", "[[]]", "[null]", "{\"a\":null}", "18446744073709551616"}) {
    for (const char* key : {"added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder"})
      error_of(bpe(kVocabulary, R"(["a b"])", std::string("\"") + key + "\":" + value + ","));
    EXPECT_NE(error_of(R"({"model":)" + std::string(value) + "}"), "") << value;
    EXPECT_NE(error_of(bpe(value, "[]")), "") << value;
    EXPECT_NE(error_of(bpe(kVocabulary, std::string(value) == "null" ? "[null]" : value)), "") << value;
  }
}

TEST(HostileFiles, ids_that_are_no_places_in_an_array_are_refused) {
  EXPECT_THAT(error_of(bpe(R"({"a":0,"b":0})", "[]")), HasSubstr("two tokens have id 0"));
  for (const char* id : {"-1", "16777216", "4294967296", "1e300", "0.5", "null", "99999999999999999999"})
    EXPECT_NE(error_of(bpe(std::string(R"({"a":)") + id + "}", "[]")), "") << id;
  EXPECT_THAT(error_of(bpe(R"({"a":16777215})", "[]")), HasSubstr("larger than the vocabulary"));
  EXPECT_NE(error_of(R"({"model":{"type":"Unigram","unk_id":7,"vocab":[["a",0]]}})"), "");
  EXPECT_NE(error_of(R"({"model":{"type":"Unigram","unk_id":0,"vocab":[["a",1e999]]}})"), "");
  EXPECT_NE(error_of(bpe(kVocabulary, "[]", R"("post_processor":{"type":"BertProcessing","sep":["x",-1],"cls":["y",3]},)")), "");
}

TEST(HostileFiles, merges_that_name_or_make_no_token_are_refused) {
  for (const char* merges : {R"(["a x"])", R"(["x a"])", R"(["b a"])", R"(["ab"])", R"(["a b c"])", R"([""])", R"([["a"]])",
                             R"([["a","b","c"]])", R"([["a",1]])", R"([["",""]])", R"([" "])"})
    EXPECT_NE(error_of(bpe(kVocabulary, merges)), "") << merges;
  EXPECT_EQ(error_of(bpe(kVocabulary, R"(["a b",["a","b"],"a \u0062"])")), "");
}

TEST(HostileFiles, deep_nesting_is_refused) {
  for (const std::size_t depth : {65, 100'000}) {
    EXPECT_THAT(error_of(R"({"x":)" + std::string(depth, '[')), HasSubstr("deep"));
    std::string objects;
    for (std::size_t i = 0; i < depth; ++i) objects += R"({"a":)";
    EXPECT_THAT(error_of(objects), HasSubstr("deep"));
  }
}

TEST(HostileFiles, a_million_merges_take_linear_time) {
  const Seconds seconds;
  EXPECT_EQ(error_of(bpe(kVocabulary, repeated(1'000'000, [](std::size_t i) { return std::string(i % 2 ? R"("a b")" : R"(["a","b"])"); })),
                     std::string(100'000, 'a')),
            "");
  EXPECT_NE(error_of(bpe(kVocabulary, repeated(1'000'000, [](std::size_t i) { return "\"x" + std::to_string(i) + " y\""; }))), "");
  EXPECT_LT(seconds.taken(), 20);
}

TEST(HostileFiles, a_million_added_tokens_are_refused_and_many_take_linear_time) {
  const auto added = [](std::size_t count, auto&& text) {
    return R"("added_tokens":)" +
           repeated(count,
                    [&](std::size_t i) {
                      return R"({"id":)" + std::to_string(i) + R"(,"content":")" + text(i) + R"(","normalized":)" +
                             (i % 3 ? "true}" : "false}");
                    }) +
           ",";
  };
  const Seconds seconds;
  const auto numbered = [](std::size_t i) { return "<t" + std::to_string(i) + ">"; };
  EXPECT_THAT(error_of(bpe(kVocabulary, "[]", added(1'000'000, numbered))), HasSubstr("added tokens"));
  std::string text;
  for (std::size_t i = 0; i < 10'000; ++i) text += "<t" + std::to_string(i * 7) + "><t";
  EXPECT_EQ(error_of(bpe(kVocabulary, "[]", added(50'000, numbered)), text), "");
  EXPECT_EQ(error_of(bpe(kVocabulary, "[]", added(50'000, [](std::size_t) { return std::string("same"); })), text), "");
  // Each begins as all the others do.
  EXPECT_EQ(error_of(bpe(kVocabulary, "[]", added(2000, [](std::size_t i) { return std::string(i % 400 + 1, 'a') + std::to_string(i); })),
                     std::string(100'000, 'a')),
            "");
  EXPECT_LT(seconds.taken(), 20);
}

TEST(HostileFiles, added_tokens_whose_normal_form_is_another_do_not_go_round_in_circles) {
  const std::string cycle = R"("added_tokens":[{"id":3,"content":"A","normalized":true},{"id":4,"content":"a","normalized":true},
    {"id":5,"content":"AA","normalized":true}],"normalizer":{"type":"Sequence","normalizers":[{"type":"Lowercase"},
    {"type":"Replace","pattern":{"String":"a"},"content":"aa"}]},)";
  const Seconds seconds;
  EXPECT_EQ(error_of(bpe(kVocabulary, "[]", cycle), std::string(100'000, 'A')), "");
  EXPECT_LT(seconds.taken(), 10);
}

TEST(HostileFiles, patterns_that_would_take_exponential_time_are_bounded) {
  const std::string text = std::string(20'000, 'a') + "!";
  const Seconds seconds;
  for (const char* pattern : {"(a+)+$", "(a|a)*b", "(a*)*b", "((a+)+)+b", "(.*)*x", "(?:a?){30}a{30}", "(a|aa)+$"})
    error_of(bpe(kVocabulary, "[]",
                 std::string(R"("pre_tokenizer":{"type":"Split","pattern":{"Regex":")") + pattern +
                     R"("},"behavior":"Isolated","invert":false},)"),
             text);
  EXPECT_LT(seconds.taken(), 20);
}

TEST(HostileFiles, a_chain_of_longer_and_longer_tokens_takes_linear_time) {
  std::string vocabulary = R"({"b":0)", merges = "[";
  for (int i = 1; i < 1000; ++i) {
    vocabulary += ",\"" + std::string(static_cast<std::size_t>(i), 'a') + "\":" + std::to_string(i);
    if (i > 1) merges += (i > 2 ? ",\"a " : "\"a ") + std::string(static_cast<std::size_t>(i - 1), 'a') + "\"";
  }
  const Seconds seconds;
  EXPECT_EQ(error_of(bpe(vocabulary + "}", merges + "]"), std::string(100'000, 'a')), "");
  EXPECT_LT(seconds.taken(), 20);
}

TEST(HostileFiles, rank_files_with_ids_that_are_none_are_refused) {
  for (const char* line : {"YQ== -1\n", "YQ== 1.5\n", "YQ== 99999999999999999999\n", "YQ== 16777216\n", " 1\n", "YQ==\n", "YQ== x\n"})
    EXPECT_THROW(detail::read_tiktoken(line, {}), Error) << line;
  std::string same;
  for (int i = 0; i < 50256; ++i) same += "YQ== 5\n";
  EXPECT_THROW(detail::read_tiktoken(same, {}), Error);
}

/// A SentencePiece model of three pieces and what is added.
std::string sentence_piece(const std::string& more) {
  const auto piece = [](const std::string& text, char type) {
    const std::string body = "\n" + std::string(1, static_cast<char>(text.size())) + text + "\x18" + type;
    return "\n" + std::string(1, static_cast<char>(body.size())) + body;
  };
  return piece("<unk>", 2) + piece("a", 1) + piece("b", 1) + more;
}

TEST(HostileFiles, sentence_piece_models_with_odd_fields_are_refused_or_read) {
  EXPECT_NO_THROW(detail::read_sentence_piece_file(sentence_piece(""), {})->encode("ab"));
  using std::string_literals::operator""s;
  const auto trainer = [](const std::string& body) { return "\x12" + std::string(1, static_cast<char>(body.size())) + body; };
  for (const std::string& more : {"\x0b"s,                                        // a group
                                  "\n\x03\n\x01\xFF"s,                            // no UTF-8
                                  "\n\x08\n\x01x\x15\x00\x00\xC0\x7F"s,           // a score that is no number
                                  "\n\x05\n\x01x\x18\x63"s,                       // a type that is none
                                  "\n\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"s,  // longer than the file
                                  trainer("\x18\x07"), "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"s})
    EXPECT_THROW(detail::read_sentence_piece_file(sentence_piece(more), {})->encode("ab"), Error) << testing::PrintToString(more);
  // Roles outside the vocabulary are ignored.
  EXPECT_NO_THROW(detail::read_sentence_piece_file(sentence_piece(trainer("\xC8\x02\xFF\xFF\xFF\xFF\x07")), {})->encode("ab"));
}

}  // namespace
}  // namespace quern::tokenizers
