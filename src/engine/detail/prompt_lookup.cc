#include "engine/detail/prompt_lookup.h"

#include <algorithm>
#include <bit>

namespace quern::engine::detail {

void PromptLookup::reserve(std::int64_t tokens) {
  if (last_.empty()) last_.resize(std::bit_ceil(static_cast<std::size_t>(2 * tokens + 1)), 0);
}

/// Of the three tokens that end before `end`.
std::size_t PromptLookup::place_of(std::span<const std::int32_t> text, std::int64_t end) const {
  std::uint64_t hash = 0;
  for (std::int64_t i = end - kWords; i < end; ++i)
    hash = (hash ^ static_cast<std::uint32_t>(text[static_cast<std::size_t>(i)])) * 0x9e3779b97f4a7c15u;
  return static_cast<std::size_t>(hash >> 32) & (last_.size() - 1);
}

void PromptLookup::guess(std::span<const std::int32_t> text, std::int64_t most, std::vector<std::int32_t>& guess) {
  const auto size = static_cast<std::int64_t>(text.size());
  if (last_.empty() || size < kWords) return;
  for (; known_ < size; ++known_) last_[place_of(text, known_)] = static_cast<std::int32_t>(known_);
  const std::int64_t before = last_[place_of(text, size)];
  if (before == 0) return;
  const auto words = [&](std::int64_t end) { return text.subspan(static_cast<std::size_t>(end - kWords), kWords); };
  if (!std::ranges::equal(words(before), words(size))) return;  // another three of the same hash
  const std::size_t begin = guess.size();
  for (std::int64_t i = 0; i < most; ++i) {
    const std::int64_t at = before + i;
    guess.push_back(at < size ? text[static_cast<std::size_t>(at)] : guess[begin + static_cast<std::size_t>(at - size)]);
  }
}

}  // namespace quern::engine::detail
