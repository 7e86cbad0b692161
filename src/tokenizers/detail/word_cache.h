#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <vector>

namespace quern::tokenizers::detail {

/// The ids of words met lately, in two tables: one of words of at most 16 bytes and 3 ids, which nearly all are, two to a cache line; and
/// one of longer ones. Never more than a fixed number of words, allocated when first used.
class WordCache {
 public:
  static constexpr std::size_t kMaxBytes = 48, kMaxIds = 19;

  /// The ids of a word: those that it had before, or what `encode(made)` appends to `made` now.
  template <class Encode>
  std::span<const std::int32_t> ids_of(std::string_view text, std::vector<std::int32_t>& made, Encode&& encode) {
    const bool kept = !text.empty() && text.size() <= kMaxBytes;
    Word word{};
    if (kept) {
      word = prepare(text);
      bool found = false;
      if (const auto ids = find(word, found); found) return ids;
    }
    made.clear();
    encode(made);
    if (kept) fill(word, made);
    return made;
  }

 private:
  /// A word of 1 to kMaxBytes bytes, ready to be looked up.
  struct Word {
    std::string_view text;
    std::uint64_t key[2];  // with the length, unique up to kShortBytes bytes
    std::uint64_t hash;
  };
  static Word prepare(std::string_view text) {
    const char* p = text.data();
    const std::size_t n = text.size();
    Word word{text, {0, 0}, 0};
    if (n >= 8) {
      word.key[0] = load(p, 8), word.key[1] = load(p + n - 8, 8);
    } else if (n >= 4) {
      word.key[0] = load(p, 4) | load(p + n - 4, 4) << 32;
    } else {
      word.key[0] = load(p, 1) | load(p + n / 2, 1) << 8 | load(p + n - 1, 1) << 16;
    }
    std::uint64_t mixed = (word.key[0] ^ word.key[1] * kMultiplier) * kMultiplier ^ n;
    for (std::size_t at = 8; at + 8 < n && n > kShortBytes; at += 8) mixed = (mixed ^ load(p + at, 8)) * kMultiplier;
    word.hash = mixed * kMultiplier;
    return word;
  }

  /// The word's ids; `found` says whether there were any (a word may have none).
  std::span<const std::int32_t> find(const Word& word, bool& found) {
    found = true;
    if (!short_) allocate();
    if (word.text.size() <= kShortBytes) {
      const Short* entries = set_of(word);
      for (int way = 0; way < 2; ++way) {
        const Short& e = entries[way];
        if (e.key[0] == word.key[0] && e.key[1] == word.key[1] && e.length == word.text.size()) return {e.ids, e.count};
      }
    }
    const Long& e = long_[word.hash >> (64 - kLongBits)];
    if (e.length == word.text.size() && std::memcmp(e.text, word.text.data(), e.length) == 0) return {e.ids, e.count};
    found = false;
    return {};
  }
  /// Keeps a word in the place of another, unless it has too many ids. After find().
  void fill(const Word& word, std::span<const std::int32_t> ids) {
    const std::size_t length = word.text.size();
    if (length <= kShortBytes && ids.size() <= kShortIds) {
      Short* entries = set_of(word);
      entries[1] = entries[0];  // the older of the two goes
      entries[0] = {{word.key[0], word.key[1]}, static_cast<std::uint8_t>(length), static_cast<std::uint8_t>(ids.size()), {}};
      std::copy(ids.begin(), ids.end(), entries[0].ids);
    } else if (ids.size() <= kMaxIds) {
      Long& e = long_[word.hash >> (64 - kLongBits)];
      e.length = static_cast<std::uint8_t>(length), e.count = static_cast<std::uint8_t>(ids.size());
      std::memcpy(e.text, word.text.data(), length);
      std::copy(ids.begin(), ids.end(), e.ids);
    }
  }

  static constexpr std::size_t kShortBytes = 16, kShortIds = 3;
  static constexpr int kSetBits = 15, kLongBits = 11;  // 2 MiB and 256 KiB
  static constexpr std::uint64_t kMultiplier = 0x9E3779B97F4A7C15ull;

  struct alignas(32) Short {
    std::uint64_t key[2];
    std::uint8_t length, count;  // 0 bytes: free
    std::int32_t ids[kShortIds];
  };
  struct alignas(64) Long {
    std::uint8_t length, count;
    char text[kMaxBytes];
    std::int32_t ids[kMaxIds];
  };
  static_assert(sizeof(Short) == 32 && sizeof(Long) == 128);

  struct Free {
    void operator()(void* p) const { std::free(p); }
  };

  static std::uint64_t load(const char* p, std::size_t bytes) {
    std::uint64_t value = 0;
    std::memcpy(&value, p, bytes);
    return value;
  }
  Short* set_of(const Word& word) { return &short_[(word.hash >> (64 - kSetBits)) * 2]; }
  // Zeroes that the system gives a page at a time, when it is touched: a short text does not pay for all of them.
  template <class Entry>
  static Entry* zeroed(std::size_t count, std::unique_ptr<void, Free>& memory) {
    std::size_t size = (count + 1) * sizeof(Entry);
    memory.reset(std::calloc(1, size));
    if (!memory) throw std::bad_alloc();
    void* begin = memory.get();
    return static_cast<Entry*>(std::align(alignof(Entry), count * sizeof(Entry), begin, size));
  }
  void allocate() {
    short_ = zeroed<Short>(std::size_t{2} << kSetBits, short_memory_);
    long_ = zeroed<Long>(std::size_t{1} << kLongBits, long_memory_);
  }

  std::unique_ptr<void, Free> short_memory_, long_memory_;
  Short* short_ = nullptr;
  Long* long_ = nullptr;
};

/// Appends ids to a vector by way of a buffer: cheaper for a few at a time.
class IdSink {
 public:
  explicit IdSink(std::vector<std::int32_t>& out) : out_(out) {}
  ~IdSink() { flush(); }
  IdSink(const IdSink&) = delete;
  IdSink& operator=(const IdSink&) = delete;

  void push(std::int32_t id) {
    if (count_ == kRoom) flush();
    buffer_[count_++] = id;
  }
  void append(std::span<const std::int32_t> ids) {
    if (ids.size() > kRoom - count_) {
      flush();
      if (ids.size() > kRoom) {
        out_.insert(out_.end(), ids.begin(), ids.end());
        return;
      }
    }
    std::int32_t* to = buffer_ + count_;
    for (std::size_t i = 0; i < ids.size(); ++i) to[i] = ids[i];
    count_ += ids.size();
  }

 private:
  static constexpr std::size_t kRoom = 512;
  void flush() {
    out_.insert(out_.end(), buffer_, buffer_ + count_);
    count_ = 0;
  }

  std::vector<std::int32_t>& out_;
  std::size_t count_ = 0;
  std::int32_t buffer_[kRoom];
};

}  // namespace quern::tokenizers::detail
