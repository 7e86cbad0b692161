#include "engine/detail/prompt_lookup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <vector>

#include "engine/detail/past_answers.h"
#include "engine/detail/suffix_automaton.h"

namespace quern::engine::detail {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Tokens = std::vector<std::int32_t>;

/// By comparing all: the longest end of `read` that ends at one of the first `places` places of `text`, and the last of these.
struct Found {
  std::int64_t length = 0, place = 0;
};
Found longest_end(const Tokens& read, const Tokens& text, std::int64_t places) {
  Found best;
  for (std::int64_t place = 1; place <= places; ++place) {
    std::int64_t length = 0;
    while (length < std::min(place, std::ssize(read)) &&
           text[static_cast<std::size_t>(place - 1 - length)] == read[read.size() - 1 - static_cast<std::size_t>(length)])
      ++length;
    if (length > 0 && length >= best.length) best = {length, place};
  }
  return best;
}

TEST(SuffixAutomaton, finds_where_the_texts_end_stood_like_a_search_of_all_places) {
  std::mt19937 random(3);
  for (const std::int32_t letters : {1, 2, 3, 10, 1000}) {
    SuffixAutomaton pieces;
    Tokens text;
    for (int i = 0; i < 300; ++i) {
      // Some of it is said again.
      const bool again = i > 20 && random() % 3 != 0;
      const std::int32_t token =
          again ? text[text.size() - 1 - random() % 4 * 5] : static_cast<std::int32_t>(random() % static_cast<unsigned>(letters));
      text.push_back(token);
      pieces.append(token);
      const Found expected = longest_end(text, text, std::ssize(text) - 1);
      const SuffixAutomaton::Cursor end = pieces.end();
      ASSERT_EQ(end.length, expected.length) << letters << " " << i;
      ASSERT_EQ(pieces.place(end), expected.place) << letters << " " << i;
    }
    EXPECT_EQ(pieces.size(), 300);
    pieces.clear();
    EXPECT_EQ(pieces.end().length, 0);
  }
}

TEST(SuffixAutomaton, follows_another_text_while_its_own_grows) {
  std::mt19937 random(4);
  for (const unsigned letters : {2u, 3u, 8u}) {
    SuffixAutomaton pieces;
    SuffixAutomaton::Cursor cursor;
    Tokens text, read;
    for (int i = 0; i < 400; ++i) {
      read.push_back(static_cast<std::int32_t>(random() % letters));
      cursor = pieces.next(cursor, read.back());
      // A match that was found goes on; what was added meanwhile may make a longer one, which it need not know.
      ASSERT_LE(cursor.length, longest_end(read, text, std::ssize(text)).length);
      if (cursor.length > 0) {
        const std::int64_t place = pieces.place(cursor);
        ASSERT_GE(place, cursor.length);
        ASSERT_TRUE(std::equal(read.end() - cursor.length, read.end(), text.begin() + (place - cursor.length)));
      }
      for (auto next = pieces.shorter(cursor), last = cursor; next.length > 0; last = next, next = pieces.shorter(next)) {
        ASSERT_LT(next.length, last.length);
        const std::int64_t place = pieces.place(next);
        ASSERT_TRUE(std::equal(read.end() - next.length, read.end(), text.begin() + (place - next.length)));
      }
      for (unsigned k = random() % 3; k > 0; --k) {
        text.push_back(static_cast<std::int32_t>(random() % letters));
        pieces.append(text.back());
      }
    }
  }
  // Of a text that does not grow, the longest end is found at every token.
  SuffixAutomaton pieces;
  Tokens text, read;
  for (int i = 0; i < 500; ++i) text.push_back(static_cast<std::int32_t>(random() % 4)), pieces.append(text.back());
  SuffixAutomaton::Cursor cursor;
  for (int i = 0; i < 500; ++i) {
    read.push_back(static_cast<std::int32_t>(random() % 5));
    cursor = pieces.next(cursor, read.back());
    ASSERT_EQ(cursor.length, longest_end(read, text, std::ssize(text)).length);
  }
}

TEST(SuffixAutomaton, takes_time_in_proportion_whatever_the_text) {
  const auto begin = std::chrono::steady_clock::now();
  for (const std::int32_t letters : {1, 2, 50'000}) {
    SuffixAutomaton pieces;
    std::mt19937 random(5);
    for (int i = 0; i < 200'000; ++i) pieces.append(static_cast<std::int32_t>(random() % static_cast<unsigned>(letters)));
    EXPECT_EQ(pieces.size(), 200'000);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20)) << "of the square of its length it would be hours";
}

Tokens guess(PromptLookup& lookup, const Tokens& text, std::int64_t most) {
  Tokens result;
  lookup.find(text, nullptr, 0)[0].copy(most, result);
  return result;
}

TEST(PromptLookup, says_what_followed_the_longest_end_that_stood_before) {
  PromptLookup lookup;
  EXPECT_THAT(guess(lookup, {1, 2, 3, 4, 5, 6, 1, 2, 3}, 2), ElementsAre(4, 5));
  EXPECT_THAT(guess(lookup, {1, 2, 3, 4, 5, 6, 1, 2, 3, 9, 1, 2, 3}, 3), ElementsAre(9, 1, 2));  // the latest place of the same length
  PromptLookup longest;
  EXPECT_THAT(guess(longest, {7, 1, 2, 3, 4, 8, 2, 3, 5, 1, 2, 3}, 2), ElementsAre(4, 8));  // the longest, however long ago
}

TEST(PromptLookup, knows_a_second_place_that_goes_on_otherwise) {
  PromptLookup lookup;
  const Tokens text = {7, 1, 2, 3, 4, 8, 2, 3, 5, 6, 1, 2, 3};
  const auto found = lookup.find(text, nullptr, 0);
  EXPECT_EQ(found[0].matched, 3);
  EXPECT_EQ(found[0].following.front(), 4);
  EXPECT_EQ(found[1].matched, 2);
  EXPECT_EQ(found[1].following.front(), 5);
}

TEST(PromptLookup, goes_round_a_loop) {
  PromptLookup lookup;
  EXPECT_THAT(guess(lookup, {7, 1, 2, 1, 2, 1}, 5), ElementsAre(2, 1, 2, 1, 2));
  PromptLookup other;
  EXPECT_THAT(guess(other, {5, 5, 5, 5}, 3), ElementsAre(5, 5, 5));
}

TEST(PromptLookup, has_nothing_to_say_about_new_words_and_short_texts) {
  PromptLookup lookup;
  EXPECT_THAT(guess(lookup, {}, 2), IsEmpty());
  EXPECT_THAT(guess(lookup, {1, 2}, 2), IsEmpty());
  EXPECT_THAT(guess(lookup, {1, 2, 3}, 2), IsEmpty());
  EXPECT_THAT(guess(lookup, {1, 2, 3, 1}, 0), IsEmpty());
}

TEST(PastAnswers, tell_how_an_answer_to_the_same_question_went) {
  PastAnswers past;
  past.add(0, Tokens{90, 1, 2, 3, 4, 5, 6, 7, 8}, 5);
  past.add(0, Tokens{91, 1, 2, 3, 20, 21, 22, 23}, 4);
  PastAnswers::Reader reader;
  const Tokens text = {90, 1, 2, 3};
  PastAnswers::Place place = past.find(0, text, reader);
  EXPECT_EQ(place.matched, 4);
  EXPECT_THAT(place.following, ElementsAre(4, 5, 6, 7, 8));  // and not on into the next answer
  const Tokens more = {90, 1, 2, 3, 4, 5};
  place = past.find(0, more, reader);
  EXPECT_EQ(place.matched, 6);
  EXPECT_THAT(place.following, ElementsAre(6, 7, 8));
  const Tokens other = {90, 1, 2, 3, 4, 5, 99};
  EXPECT_EQ(past.find(0, other, reader).matched, 0);
}

TEST(PastAnswers, tell_nothing_to_another_partition) {
  PastAnswers past;
  past.add(1, Tokens{1, 2, 3, 4, 5, 6, 7, 8}, 8);
  PastAnswers::Reader reader, own;
  const Tokens text = {1, 2, 3};
  EXPECT_EQ(past.find(2, text, reader).matched, 0);
  EXPECT_EQ(past.find(1, text, own).matched, 3);
}

TEST(PastAnswers, keep_the_latest_and_readers_stay_right_while_the_rest_is_forgotten) {
  PastAnswers past;
  std::mt19937 random(6);
  std::vector<PastAnswers::Reader> readers(6);
  std::vector<Tokens> texts(6);
  std::int64_t matched = 0;
  for (int i = 0; i < 600; ++i) {
    const std::uint64_t partition = random() % 3 == 0 ? random() % 6 : 0;  // more than are kept
    Tokens answer;
    for (int k = 0; k < 200; ++k) answer.push_back(static_cast<std::int32_t>(random() % 40));
    past.add(partition, answer, std::ssize(answer));
    for (std::size_t r = 0; r < readers.size(); ++r) {
      if (random() % 4 == 0) readers[r] = {}, texts[r].clear();
      // It says again what was just answered, or anything.
      if (random() % 2 == 0) texts[r].insert(texts[r].end(), answer.begin(), answer.begin() + 20);
      texts[r].push_back(static_cast<std::int32_t>(random() % 40));
      const PastAnswers::Place place = past.find(r, texts[r], readers[r]);
      ASSERT_LE(place.matched, std::ssize(texts[r]));
      for (const std::int32_t token : place.following) ASSERT_GE(token, 0);
      // What it says follows stands behind what it says matched.
      if (place.matched > 0 && !place.following.empty()) {
        const std::int32_t* const before = place.following.data() - place.matched;
        ASSERT_TRUE(std::equal(texts[r].end() - place.matched, texts[r].end(), before));
        ++matched;
      }
    }
  }
  EXPECT_GT(matched, 500);
}

}  // namespace
}  // namespace quern::engine::detail
