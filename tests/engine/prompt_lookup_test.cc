#include "engine/detail/prompt_lookup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace quern::engine::detail {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Tokens = std::vector<std::int32_t>;

Tokens guess(PromptLookup& lookup, const Tokens& text, std::int64_t most) {
  Tokens result;
  lookup.guess(text, most, result);
  return result;
}

TEST(PromptLookup, says_what_followed_the_last_three_tokens_before) {
  PromptLookup lookup;
  lookup.reserve(100);
  EXPECT_THAT(guess(lookup, {1, 2, 3, 4, 5, 6, 1, 2, 3}, 2), ElementsAre(4, 5));
  EXPECT_THAT(guess(lookup, {1, 2, 3, 4, 5, 6, 1, 2, 3, 9, 1, 2, 3}, 3), ElementsAre(9, 1, 2));  // the latest place
}

TEST(PromptLookup, goes_round_a_loop) {
  PromptLookup lookup;
  lookup.reserve(100);
  EXPECT_THAT(guess(lookup, {7, 1, 2, 1, 2, 1}, 5), ElementsAre(2, 1, 2, 1, 2));
  PromptLookup other;
  other.reserve(100);
  EXPECT_THAT(guess(other, {5, 5, 5, 5}, 3), ElementsAre(5, 5, 5));
}

TEST(PromptLookup, has_nothing_to_say_about_new_words_and_short_texts) {
  PromptLookup lookup;
  EXPECT_THAT(guess(lookup, {1, 1, 1, 1}, 2), IsEmpty());  // no memory
  lookup.reserve(100);
  EXPECT_THAT(guess(lookup, {}, 2), IsEmpty());
  EXPECT_THAT(guess(lookup, {1, 2}, 2), IsEmpty());
  EXPECT_THAT(guess(lookup, {1, 2, 3}, 2), IsEmpty());
  EXPECT_THAT(guess(lookup, {1, 2, 3, 1, 2}, 2), IsEmpty());
  EXPECT_THAT(guess(lookup, {1, 2, 3, 1, 2, 3}, 0), IsEmpty());
}

}  // namespace
}  // namespace quern::engine::detail
