#include "tokenizers/detail/regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"

namespace quern::tokenizers::detail {
namespace {

using testing::ElementsAre;

std::vector<std::string> matches(std::string_view pattern, std::string_view text, RegexSyntax syntax = RegexSyntax::oniguruma) {
  const Regex regex(pattern, syntax);
  Regex::Matches walk(regex, text);
  std::vector<std::string> found;
  while (walk.next()) found.emplace_back(text.substr(walk.begin(), walk.end() - walk.begin()));
  return found;
}

Code error_of(std::string_view pattern) {
  try {
    const Regex regex(pattern);
  } catch (const Error& e) {
    return e.code();
  }
  return Code::internal;
}

TEST(Regex, the_first_alternative_that_leads_to_a_match_is_taken) {
  EXPECT_THAT(matches("a|ab", "abab"), ElementsAre("a", "a"));
  EXPECT_THAT(matches("(?:a|ab)c", "abc"), ElementsAre("abc"));
}

TEST(Regex, quantifiers_are_greedy_lazy_or_possessive) {
  EXPECT_THAT(matches("a+", "aaab"), ElementsAre("aaa"));
  EXPECT_THAT(matches("a+?", "aaab"), ElementsAre("a", "a", "a"));
  EXPECT_THAT(matches("a*ab", "aaab"), ElementsAre("aaab"));
  EXPECT_THAT(matches("a*+ab", "aaab"), ElementsAre());
  EXPECT_THAT(matches("(?>a*)ab", "aaab"), ElementsAre());
  EXPECT_THAT(matches("(?:ab)?+c", "abc"), ElementsAre("abc"));
  EXPECT_THAT(matches("(?:ab){2,3}?", "abababab"), ElementsAre("abab", "abab"));
}

TEST(Regex, counted_repeats_have_bounds_and_braces_that_count_nothing_are_characters) {
  EXPECT_THAT(matches("\\d{1,3}", "1234567"), ElementsAre("123", "456", "7"));
  EXPECT_THAT(matches("\\d{2}", "12345"), ElementsAre("12", "34"));
  EXPECT_THAT(matches("\\d{2,}", "1 12345"), ElementsAre("12345"));
  EXPECT_THAT(matches("(?:ab){,2}c", "abababc"), ElementsAre("ababc"));
  EXPECT_THAT(matches("a{x}", "a{x}"), ElementsAre("a{x}"));
}

TEST(Regex, a_plus_behind_a_count_repeats_it_for_oniguruma_and_is_possessive_for_rust) {
  EXPECT_THAT(matches("\\d{1,3}+", "12345"), ElementsAre("12345"));
  EXPECT_THAT(matches("\\d{1,3}+", "12345", RegexSyntax::rust), ElementsAre("123", "45"));
}

TEST(Regex, lines_begin_and_end_everywhere_for_oniguruma_and_at_the_ends_for_rust) {
  EXPECT_THAT(matches("^.", "ab\ncd"), ElementsAre("a", "c"));
  EXPECT_THAT(matches("^.", "ab\ncd", RegexSyntax::rust), ElementsAre("a"));
  EXPECT_THAT(matches(".$", "ab\ncd"), ElementsAre("b", "d"));
  EXPECT_THAT(matches(".$", "ab\ncd", RegexSyntax::rust), ElementsAre("d"));
  EXPECT_THAT(matches("\\A.|.\\z", "ab\ncd"), ElementsAre("a", "d"));
}

TEST(Regex, look_around_reads_without_taking) {
  EXPECT_THAT(matches("\\s+(?!\\S)|\\s+", "   a"), ElementsAre("  ", " "));
  EXPECT_THAT(matches("a(?=b)", "abac"), ElementsAre("a"));
  EXPECT_THAT(matches("(?<=b)a", "abaca"), ElementsAre("a"));
  EXPECT_THAT(matches("(?<!b|cc)a", "abaccaxa"), ElementsAre("a", "a"));
  EXPECT_THAT(matches("\\bfoo\\b", "foo afoo foo."), ElementsAre("foo", "foo"));
}

TEST(Regex, empty_matches_cut_between_characters) {
  const Regex groups_of_three("(?=(\\d{3})+(?!\\d))");
  Ends out;
  groups_of_three.split("1234567é", {9}, out);
  EXPECT_THAT(out, ElementsAre(1, 4, 9));
}

TEST(Regex, classes_negate_nest_and_intersect) {
  EXPECT_THAT(matches("[^a-c]+", "abxyc"), ElementsAre("xy"));
  EXPECT_THAT(matches("[a-z&&[^aeiou]]+", "hello"), ElementsAre("h", "ll"));
  EXPECT_THAT(matches("[[:alpha:]_]+", "ab_1é"), ElementsAre("ab_", "é"));
  EXPECT_THAT(matches("[]a]+", "a]b"), ElementsAre("a]"));
  EXPECT_THAT(matches("[a\\-z]+", "a-zb"), ElementsAre("a-z"));
  EXPECT_THAT(matches("[\\x{4e00}-\\x{9fa5}]+", "ab你好"), ElementsAre("你好"));
  EXPECT_THAT(matches("[(\\s|.,!?…。，、।۔،)]+", "a.,।b"), ElementsAre(".,।"));
}

TEST(Regex, properties_are_categories_scripts_and_their_complements) {
  EXPECT_THAT(matches("\\p{L}+", "abcé1你"), ElementsAre("abcé", "你"));
  EXPECT_THAT(matches("\\p{Lu}\\p{Ll}+", "Straße ABC"), ElementsAre("Straße"));
  EXPECT_THAT(matches("\\p{Han}+", "ab你好こ"), ElementsAre("你好"));
  EXPECT_THAT(matches("\\p{script=Hiragana}+", "你こん"), ElementsAre("こん"));
  EXPECT_THAT(matches("\\P{L}+", "ab12c"), ElementsAre("12"));
  EXPECT_THAT(matches("\\p{^L}+", "ab12c"), ElementsAre("12"));
  EXPECT_THAT(matches("[^\\r\\n\\p{L}\\p{N}]", "a1\n!"), ElementsAre("!"));
  EXPECT_THAT(matches("\\p{Uppercase_Letter}", "aB"), ElementsAre("B"));
}

TEST(Regex, case_is_ignored_where_a_flag_says_so) {
  EXPECT_THAT(matches("(?i:'s|'re)", "'S 'rE 'ſ"), ElementsAre("'S", "'rE", "'ſ"));
  EXPECT_THAT(matches("(?i)привет", "ПРИВЕТ"), ElementsAre("ПРИВЕТ"));
  EXPECT_THAT(matches("a(?i)b|c", "aB aC ac"), ElementsAre("aB", "aC", "ac"));
  EXPECT_THAT(matches("(?i:[^a])", "aAb"), ElementsAre("b"));
}

TEST(Regex, loops_over_nothing_end) {
  EXPECT_THAT(matches("(?:a*)*b", "aab"), ElementsAre("aab"));
  EXPECT_THAT(matches("(?:|a)+b", "aab"), ElementsAre("aab"));
  EXPECT_THAT(matches("(?:a?){3}b", "aab"), ElementsAre("aab"));
}

TEST(Regex, a_malformed_pattern_is_an_error_that_says_where) {
  for (const char* pattern : {"(", ")", "[a", "a{3,1}", "*a", "a|+", "\\", "[b-a]", "\\x{110000}", "\\xg", "(?<n", "^*", "\xff"}) {
    EXPECT_EQ(error_of(pattern), Code::data_corrupt) << pattern;
  }
  for (const char* pattern : {"(a)\\1", "\\p{Klingon}", "\\k", "(?<=a+)b"}) EXPECT_EQ(error_of(pattern), Code::unsupported) << pattern;
}

TEST(Regex, a_huge_pattern_is_an_error) {
  EXPECT_EQ(error_of(std::string(1 << 17, 'a')), Code::resource_exhausted);
  EXPECT_EQ(error_of(std::string(10000, '(')), Code::resource_exhausted);
  EXPECT_EQ(error_of(std::string(10000, '[')), Code::resource_exhausted);
  EXPECT_EQ(error_of("((a{1,100}b){100}c){100}"), Code::resource_exhausted);
  EXPECT_EQ(error_of("a" + std::string(1000, '+')), Code::resource_exhausted);
  EXPECT_THAT(matches("((((){10000}){10000}){10000}){10000}a", "a"), ElementsAre("a"));
}

TEST(Regex, catastrophic_patterns_take_linear_time) {
  const std::string text(200'000, 'a');
  EXPECT_THAT(matches("(?:a+)+b", text), ElementsAre());
  EXPECT_THAT(matches("(?:a|aa)+b", text), ElementsAre());
  EXPECT_THAT(matches("a++b", text), ElementsAre());
  EXPECT_THAT(matches("a(?=a*b)", text), ElementsAre());
  EXPECT_THAT(matches("(?:a|a)*(?:a|a)*c", text), ElementsAre());
  EXPECT_EQ(matches("a(?=a*$)", text).size(), text.size());
  EXPECT_EQ(matches("a(?=(?:a|b)*$)", text).size(), text.size());
  EXPECT_EQ(matches("(?:(?:a|b)+c|a)", text).size(), text.size());
}

TEST(Regex, what_cannot_be_linear_is_an_error_in_bounded_time) {
  const std::string text(100'000, 'a');
  EXPECT_THROW(matches("(?:(?:a*)(?:|a))*b", text), Error);
}

}  // namespace
}  // namespace quern::tokenizers::detail
