#include "engine/detail/answer_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "byte_tokens.h"

namespace quern::engine::detail {
namespace {

using testing::ByteTokens;

struct Answer {
  std::string text, stop;
  bool stopped = false;
};

/// The answer that the tokens give.
Answer answer(const ByteTokens& tokens, const std::vector<std::int32_t>& ids, const std::vector<std::string>& stops) {
  AnswerText text(*tokens.tokenizer, stops);
  Answer a;
  for (const std::int32_t id : ids) {
    a.stopped = text.push(id);
    a.text += text.take();
    if (a.stopped) break;
  }
  if (!a.stopped) {
    a.stopped = text.finish();
    a.text += text.take();
  }
  a.stop = text.stop_text();
  return a;
}

/// The text up to the stop string that is complete first, of those that end together the longest.
Answer plain_search(const std::string& text, const std::vector<std::string>& stops) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::string best;
    for (const std::string& stop : stops)
      if (stop.size() > best.size() && std::string_view(text).substr(0, end).ends_with(stop)) best = stop;
    if (!best.empty()) return {text.substr(0, end - best.size()), best, true};
  }
  return {text, "", false};
}

TEST(AnswerText, a_stop_string_is_found_wherever_the_text_is_cut_into_tokens) {
  const std::string text = "one two STOP three";
  const ByteTokens tokens({"one two STOP three", "one two ", "one two S", "one two ST", "one two STO", "one two STOP", "TOP", "OP", "STOP",
                           "STO", "ST", "P three", " three"});
  for (std::size_t a = 0; a <= text.size(); ++a)
    for (std::size_t b = a; b <= text.size(); ++b) {
      // A piece that is a token of its own where there is one, else byte by byte.
      std::vector<std::int32_t> ids;
      for (const std::string& piece : {text.substr(0, a), text.substr(a, b - a), text.substr(b)}) tokens.append(piece, ids);
      const Answer got = answer(tokens, ids, {"STOP"});
      ASSERT_EQ(got.text, "one two ") << a << " " << b;
      ASSERT_EQ(got.stop, "STOP");
    }
}

TEST(AnswerText, agrees_with_a_plain_search_over_random_texts_and_stops) {
  std::mt19937 random(4);
  const auto word = [&](std::size_t most) {
    std::string s;
    for (std::size_t n = 1 + random() % most; n > 0; --n) s += static_cast<char>('a' + random() % 2);
    return s;
  };
  std::vector<std::string> words;
  for (int i = 0; i < 40; ++i) words.push_back(word(5));
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  const ByteTokens tokens(words);
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::int32_t> ids;
    std::string text;
    for (std::size_t n = random() % 12; n > 0; --n) {
      const std::string& w = words[random() % words.size()];
      tokens.append(w, ids);
      text += w;
    }
    std::vector<std::string> stops;
    for (std::size_t n = random() % 4; n > 0; --n) stops.push_back(word(6));
    const Answer got = answer(tokens, ids, stops), want = plain_search(text, stops);
    ASSERT_EQ(got.text, want.text) << text;
    ASSERT_EQ(got.stop, want.stop) << text;
    ASSERT_EQ(got.stopped, want.stopped);
  }
}

TEST(AnswerText, holds_back_no_more_than_may_begin_a_stop_string) {
  const ByteTokens tokens({});
  AnswerText text(*tokens.tokenizer, {"abcabd"});
  const auto push = [&](char c) {
    EXPECT_FALSE(text.push(static_cast<unsigned char>(c)));
    return text.take();
  };
  EXPECT_EQ(push('x'), "x");
  EXPECT_FALSE(text.holds());
  for (const char c : std::string("abcab")) EXPECT_EQ(push(c), "");
  EXPECT_TRUE(text.holds());
  EXPECT_EQ(push('c'), "abc") << "\"abc\" may still begin one";
  EXPECT_FALSE(text.finish());
  EXPECT_EQ(text.take(), "abc");
}

TEST(AnswerText, never_splits_a_character) {
  const ByteTokens tokens({});
  AnswerText text(*tokens.tokenizer, {});
  std::string got;
  for (const char c : std::string("é\xF0\x9F\x99\x82")) {
    text.push(static_cast<unsigned char>(c));
    const std::string part = text.take();
    EXPECT_TRUE(part.empty() || part == "é" || part == "\xF0\x9F\x99\x82") << part;
    got += part;
  }
  EXPECT_EQ(got, "é\xF0\x9F\x99\x82");
  text.push(0xE2);
  EXPECT_EQ(text.take(), "");
  text.finish();
  EXPECT_EQ(text.take(), "\uFFFD");
}

}  // namespace
}  // namespace quern::engine::detail
