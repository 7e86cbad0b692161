// Scanners against the patterns that they stand for, over random strings.
#include "tokenizers/detail/scanners.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tokenizers/detail/known_patterns.h"
#include "tokenizers/detail/patterns.h"
#include "tokenizers/detail/unicode.h"
#include "tokenizers/detail/utf8.h"

namespace quern::tokenizers::detail {
namespace {

// Characters whose class or role some pattern asks for come often, runs of one class too.
class Strings {
 public:
  std::string next() {
    std::string text;
    const int parts = pick(1, 7);
    for (int i = 0; i < parts; ++i) part(text);
    return text;
  }

 private:
  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  void part(std::string& text) {
    constexpr std::u32string_view kLists[] = {
        U"aBcDzZéÉßſ\u212AǅʰªЖжΣς",
        U"sStTrReEvVmMlLdD'’",
        U"0123456789٣Ⅷ½²",
        U" \t\n\r\u000b\u000c\u0085\u00a0\u1680\u2003\u2028\u3000\u180e\u200b",
        U"  \n\r",
        U".,!?/\\|+<=>^~$`_-()[]{}\"#%&*:;@",
        U"…。，、।۔،«»“”—￥€☃\U0001F600\U0001F468\u200D",
        U"\u0301\u0308\u093F\u20DD",
        U"你好一龥぀ゟヿ가힣ㄱㄅ龦",
    };
    switch (pick(0, 9)) {
      case 0:
        for (int n = pick(1, 4); n > 0; --n) {
          auto code = static_cast<std::uint32_t>(pick(0, pick(0, 1) ? 0x2FFF : 0x10FFFF));
          if (code >= 0xD800 && code < 0xE000) code = 'x';
          append_code_point(code, text);
        }
        return;
      case 1: text.append(static_cast<std::size_t>(pick(1, 40)), " \n1a."[pick(0, 4)]); return;
      default: {
        const std::u32string_view list = kLists[static_cast<std::size_t>(pick(0, 8))];
        for (int n = pick(1, 6); n > 0; --n)
          append_code_point(list[static_cast<std::size_t>(pick(0, static_cast<int>(list.size()) - 1))], text);
      }
    }
  }

  std::mt19937 random_{7};
};

Ends random_pieces(const std::string& text, std::mt19937& random) {
  Ends ends;
  for (std::size_t at = 0; at < text.size();) {
    at += character_length(text[at]);
    if (at == text.size() || random() % 9 == 0) ends.push_back(static_cast<std::uint32_t>(at));
  }
  return ends;
}

TEST(Scanners, cut_as_their_patterns_do) {
  for (const KnownPattern& known : known_patterns()) {
    const Regex regex(known.pattern, known.syntax.value_or(RegexSyntax::oniguruma));
    Strings strings;
    std::mt19937 random(3);
    for (int i = 0; i < 2000; ++i) {
      const std::string text = strings.next();
      const Ends in = i % 2 ? random_pieces(text, random) : Ends{static_cast<std::uint32_t>(text.size())};
      Ends ours, expected;
      known.scanner(text, in, ours);
      regex.split(text, in, expected);
      ASSERT_EQ(ours, expected) << "pattern " << known.pattern << "\ntext '" << text << "'";
    }
  }
}

TEST(Scanners, single_digits_and_gpt2_in_one_cut_as_one_after_the_other) {
  const Regex digits(patterns::kNumber), words(patterns::kGpt2);
  Strings strings;
  for (int i = 0; i < 4000; ++i) {
    const std::string text = strings.next();
    Ends ours, first, expected;
    const Ends in{static_cast<std::uint32_t>(text.size())};
    scan_gpt2_single_digits(text, in, ours);
    digits.split(text, in, first);
    words.split(text, first, expected);
    ASSERT_EQ(ours, expected) << "text '" << text << "'";
  }
}

TEST(Scanners, patterns_that_matter_have_one) {
  for (const std::string_view pattern :
       {patterns::kGpt2, patterns::kLlama3, patterns::kQwen2, patterns::kGpt4o, patterns::kTekken, patterns::kDeepseekV3}) {
    EXPECT_TRUE(Splitter(pattern).is_scanner()) << pattern;
  }
  EXPECT_TRUE(Splitter(patterns::kCl100k, RegexSyntax::rust).is_scanner());
  EXPECT_FALSE(Splitter(patterns::kCl100k, RegexSyntax::oniguruma).is_scanner());
}

}  // namespace
}  // namespace quern::tokenizers::detail
