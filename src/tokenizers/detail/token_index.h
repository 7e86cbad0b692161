#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/page_memory.h"
#include "tokenizers/detail/strings.h"

namespace quern::tokenizers::detail {

/// Tokens by the bytes they stand for: an open-addressing hash table of 16 bytes a slot. Tokens of up to 8 bytes stand in it themselves, so
/// that looking one up is one look at memory; of longer ones `bytes_of[id]` gives the bytes, which are kept by the caller. Nothing is
/// further than kMaxProbes from its place, so that no choice of tokens makes looking up slow.
class TokenIndex {
 public:
  explicit TokenIndex(std::size_t tokens) : shift_(64 - std::bit_width(std::bit_ceil(tokens + tokens / 2 + 2) - 1)) {
    slots_.resize(std::size_t{1} << (64 - shift_));
    mask_ = slots_.size() - 1;
  }

  /// Bytes, ready to be looked up.
  struct Key {
    std::uint64_t bits;  // the bytes themselves where there are at most kShort, else of their hash
    std::size_t place;
    std::uint32_t length;
  };
  Key key_of(std::string_view bytes) const {
    const char* p = bytes.data();
    const std::size_t n = bytes.size();
    std::uint64_t bits = 0;
    if (n > kShort) {
      for (std::size_t at = 0; at + 8 < n; at += 8) bits = mix(bits ^ load<std::uint64_t>(p + at));
      bits ^= load<std::uint64_t>(p + n - 8);
    } else if (n >= 4) {
      bits = std::uint64_t{load<std::uint32_t>(p + n - 4)} << 8 * (n - 4) | load<std::uint32_t>(p);
    } else if (n > 0) {
      bits = std::uint64_t{static_cast<unsigned char>(p[n - 1])} << 8 * (n - 1) |
             std::uint64_t{static_cast<unsigned char>(p[n / 2])} << 8 * (n / 2) | static_cast<unsigned char>(p[0]);
    }
    return {bits, static_cast<std::size_t>(mix(bits ^ n * kSecond) * kSecond >> shift_), static_cast<std::uint32_t>(n)};
  }

  /// Of several tokens with the same bytes the last one added is found. Returns false where there was one before.
  /// Errors: resource_exhausted for tokens that were chosen to collide.
  template <class BytesOf>
  bool add(std::string_view bytes, std::int32_t id, const BytesOf& bytes_of) {
    return add(bytes, key_of(bytes), id, bytes_of);
  }
  /// Adds those of `texts` that `which` says, and returns how many of them have the bytes of an earlier one. Errors: as add().
  std::size_t add_all(const Strings& texts, const std::vector<bool>& which) {
    constexpr std::size_t kAhead = 16;  // what is added soon is fetched already
    Key keys[kAhead];
    std::size_t duplicates = 0;
    for (std::size_t id = 0; id < texts.size() + kAhead; ++id) {
      Key& key = keys[id % kAhead];
      if (const std::size_t now = id - kAhead; id >= kAhead && which[now])
        duplicates += !add(texts[now], key, static_cast<std::int32_t>(now), texts);
      if (id < texts.size() && which[id]) prefetch(key = key_of(texts[id]));
    }
    return duplicates;
  }
  /// The token, or -1.
  template <class BytesOf>
  std::int32_t find(std::string_view bytes, const BytesOf& bytes_of) const {
    return find(bytes, key_of(bytes), bytes_of);
  }
  template <class BytesOf>
  std::int32_t find(std::string_view bytes, const Key& key, const BytesOf& bytes_of) const {
    const std::size_t at = place(bytes, key, bytes_of);
    return at == kNowhere ? -1 : slots_[at].id;
  }

  // For many lookups at a time: prefetch() for all of them, then guess(), which is what find() will compare with, or -1, to fetch that.
  void prefetch(const Key& key) const { __builtin_prefetch(&slots_[key.place]); }
  std::int32_t guess(const Key& key) const { return key.length > kShort ? slots_[key.place].id : -1; }

  static bool equal(std::string_view a, std::string_view b) {
    const std::size_t n = a.size();
    if (n != b.size()) return false;
    const char *p = a.data(), *q = b.data();
    if (n > 16) return std::memcmp(p, q, n) == 0;
    if (n >= 8) return same<std::uint64_t>(p, q) && same<std::uint64_t>(p + n - 8, q + n - 8);
    if (n >= 4) return same<std::uint32_t>(p, q) && same<std::uint32_t>(p + n - 4, q + n - 4);
    return n == 0 || (p[0] == q[0] && p[n / 2] == q[n / 2] && p[n - 1] == q[n - 1]);
  }

 private:
  static constexpr std::size_t kShort = 8, kMaxProbes = 512, kNowhere = ~std::size_t{0};
  static constexpr std::uint64_t kFirst = 0x9E3779B97F4A7C15u, kSecond = 0xD6E8FEB86659FD93u;
  struct Slot {
    std::uint64_t bits = 0;
    std::int32_t id = -1;
    std::uint32_t length = 0;
  };

  static std::uint64_t mix(std::uint64_t word) {
    word *= kFirst;
    return word ^ word >> 32;
  }
  template <class Word>
  static Word load(const char* p) {
    Word word;
    std::memcpy(&word, p, sizeof word);
    return word;
  }
  template <class Word>
  static bool same(const char* p, const char* q) {
    return load<Word>(p) == load<Word>(q);
  }

  template <class BytesOf>
  bool add(std::string_view bytes, const Key& key, std::int32_t id, const BytesOf& bytes_of) {
    const std::size_t at = place(bytes, key, bytes_of);
    if (at == kNowhere) throw Error(Code::resource_exhausted, "too many tokens of the vocabulary collide in a hash table");
    const bool fresh = slots_[at].id < 0;
    slots_[at] = {key.bits, id, key.length};
    return fresh;
  }

  /// The slot of the token, or the free one where it belongs.
  template <class BytesOf>
  std::size_t place(std::string_view bytes, const Key& key, const BytesOf& bytes_of) const {
    std::size_t i = key.place;
    for (std::size_t probes = 0; probes < kMaxProbes; ++probes, i = (i + 1) & mask_) {
      const Slot& slot = slots_[i];
      if (slot.id < 0) return i;
      if (slot.bits != key.bits || slot.length != key.length) continue;
      if (key.length <= kShort || equal(bytes_of[static_cast<std::size_t>(slot.id)], bytes)) return i;
    }
    return kNowhere;
  }

  int shift_;
  PageVector<Slot> slots_;
  std::size_t mask_;
};

}  // namespace quern::tokenizers::detail
