#include "engine/detail/prompt_lookup.h"

#include <new>
#include <utility>

namespace quern::engine::detail {

void PromptLookup::Place::copy(std::int64_t most, std::vector<std::int32_t>& guess) const {
  const auto count = static_cast<std::size_t>(most);
  for (std::size_t i = 0; i < count && (i < following.size() || (!past && !following.empty())); ++i)
    guess.push_back(following[i % following.size()]);
}

std::array<PromptLookup::Place, 2> PromptLookup::find(std::span<const std::int32_t> text, const PastAnswers* past,
                                                      std::uint64_t partition) {
  constexpr int kTried = 8;  // shorter ends, for a place that goes on otherwise
  try {
    while (!given_up_ && pieces_.size() < std::ssize(text)) pieces_.append(text[static_cast<std::size_t>(pieces_.size())]);
  } catch (const std::bad_alloc&) {
    given_up_ = true;
    pieces_.clear();
  }
  const auto place = [&](SuffixAutomaton::Cursor cursor) {
    return cursor.length == 0 ? Place{} : Place{cursor.length, false, text.subspan(static_cast<std::size_t>(pieces_.place(cursor)))};
  };
  SuffixAutomaton::Cursor end = given_up_ ? SuffixAutomaton::Cursor{} : pieces_.end();
  std::array<Place, 2> found = {place(end), {}};
  if (past != nullptr) {
    const PastAnswers::Place other = past->find(partition, text, reader_);
    if (!other.following.empty()) found[1] = {other.matched, true, other.following};
    if (found[1].matched > found[0].matched) std::swap(found[0], found[1]);
  }
  const auto goes_on_otherwise = [&](const Place& other) { return other.following.front() != found[0].following.front(); };
  if (found[0].matched == 0 || (found[1].matched > 0 && goes_on_otherwise(found[1]))) return found;
  found[1] = {};
  for (int tried = 0; tried < kTried && found[1].matched == 0 && end.length > 0; ++tried, end = pieces_.shorter(end))
    if (const Place other = place(end); goes_on_otherwise(other)) found[1] = other;
  return found;
}

}  // namespace quern::engine::detail
