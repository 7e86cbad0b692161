#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace quern::tokenizers::detail {

/// The ids of words met lately: direct-mapped, one cache line a word, never more than kEntries of them.
class WordCache {
 public:
  static constexpr std::size_t kMaxBytes = 24;
  static constexpr std::size_t kEntries = 1 << 13;  // 512 KiB: stays in the second-level cache

  struct alignas(64) Entry {
    std::array<std::uint64_t, 3> key{};
    std::uint8_t length = 0;  // of the word; 0 is free
    std::uint8_t count = 0;
    std::int32_t ids[9];
  };

  /// `word` has 1 to kMaxBytes bytes. Gives its place in `entry`, and whether that place holds it.
  bool find(std::string_view word, Entry*& entry) {
    const auto key = key_of(word);
    const std::uint64_t hash = ((key[0] ^ (key[1] * kMultiplier)) * kMultiplier ^ key[2] ^ word.size()) * kMultiplier;
    entry = &entries_[hash >> (64 - 13)];
    return entry->length == word.size() && entry->key == key;
  }
  /// Puts a word in its place, unless it has too many ids.
  static void fill(Entry& entry, std::string_view word, const std::vector<std::int32_t>& ids) {
    if (ids.size() > std::size(entry.ids)) return;
    entry.key = key_of(word);
    entry.length = static_cast<std::uint8_t>(word.size());
    entry.count = static_cast<std::uint8_t>(ids.size());
    std::copy(ids.begin(), ids.end(), entry.ids);
  }

 private:
  static constexpr std::uint64_t kMultiplier = 0x9E3779B97F4A7C15ull;
  static_assert(kEntries == std::size_t{1} << 13);

  static std::uint64_t load(const char* p, std::size_t bytes) {
    std::uint64_t value = 0;
    std::memcpy(&value, p, bytes);
    return value;
  }
  // With the length, unique to the word: overlapping reads, never past its end.
  static std::array<std::uint64_t, 3> key_of(std::string_view word) {
    const char* p = word.data();
    const std::size_t n = word.size();
    if (n >= 16) return {load(p, 8), load(p + 8, 8), load(p + n - 8, 8)};
    if (n >= 8) return {load(p, 8), load(p + n - 8, 8), 0};
    if (n >= 4) return {load(p, 4) | load(p + n - 4, 4) << 32, 0, 0};
    return {load(p, 1) | load(p + n / 2, 1) << 8 | load(p + n - 1, 1) << 16, 0, 0};
  }

  std::vector<Entry> entries_ = std::vector<Entry>(kEntries);
};

}  // namespace quern::tokenizers::detail
