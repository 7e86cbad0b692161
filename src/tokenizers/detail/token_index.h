#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace quern::tokenizers::detail {

/// Tokens by the bytes they stand for: an open-addressing hash table of 8 bytes a slot. `bytes_of(id)` gives the bytes of a token that was
/// added; they are kept by the caller. Nothing is further than kMaxProbes from its place, so that no choice of tokens makes looking up
/// slow.
class TokenIndex {
 public:
  explicit TokenIndex(std::size_t tokens) : slots_(std::bit_ceil(tokens * 2 + 2)), mask_(slots_.size() - 1) {}

  /// Of several tokens with the same bytes the last one added is found. Returns false where there was one before.
  /// Errors: resource_exhausted for tokens that were chosen to collide.
  template <class BytesOf>
  bool add(std::string_view bytes, std::int32_t id, const BytesOf& bytes_of) {
    return add(bytes, hash_of(bytes), id, bytes_of);
  }
  template <class BytesOf>
  bool add(std::string_view bytes, std::size_t hash, std::int32_t id, const BytesOf& bytes_of) {
    const std::size_t at = place(bytes, hash, bytes_of);
    if (at == kNowhere) throw Error(Code::resource_exhausted, "too many tokens of the vocabulary collide in a hash table");
    Slot& slot = slots_[at];
    const bool fresh = slot.id < 0;
    slot = {static_cast<std::uint32_t>(hash >> 32), id};
    return fresh;
  }
  /// The token, or -1.
  template <class BytesOf>
  std::int32_t find(std::string_view bytes, const BytesOf& bytes_of) const {
    return find(bytes, hash_of(bytes), bytes_of);
  }

  // For many lookups at a time: hash_of() and prefetch() for all of them, then guess() to prefetch what find() will compare with.
  static std::size_t hash_of(std::string_view bytes) {
    constexpr std::uint64_t kFirst = 0x9E3779B97F4A7C15u, kSecond = 0xD6E8FEB86659FD93u;
    const char* p = bytes.data();
    const std::size_t n = bytes.size();
    std::uint64_t hash = n * kSecond, last = 0;
    const auto take = [&](std::uint64_t word) {
      hash = (hash ^ word) * kFirst;
      hash ^= hash >> 32;
    };
    if (n >= 8) {
      for (std::size_t at = 0; at + 8 < n; at += 8) take(load<std::uint64_t>(p + at));
      last = load<std::uint64_t>(p + n - 8);
    } else if (n >= 4) {
      last = std::uint64_t{load<std::uint32_t>(p)} << 32 | load<std::uint32_t>(p + n - 4);
    } else if (n > 0) {
      const auto byte = [&](std::size_t at) { return std::uint64_t{static_cast<unsigned char>(p[at])}; };
      last = byte(0) << 16 | byte(n / 2) << 8 | byte(n - 1);
    }
    take(last);
    hash *= kSecond;
    return hash ^ hash >> 29;
  }
  void prefetch(std::size_t hash) const { __builtin_prefetch(&slots_[hash & mask_]); }
  std::int32_t guess(std::size_t hash) const { return slots_[hash & mask_].id; }
  template <class BytesOf>
  std::int32_t find(std::string_view bytes, std::size_t hash, const BytesOf& bytes_of) const {
    const std::size_t at = place(bytes, hash, bytes_of);
    return at == kNowhere ? -1 : slots_[at].id;
  }
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
  static constexpr std::size_t kMaxProbes = 512, kNowhere = ~std::size_t{0};
  struct Slot {
    std::uint32_t hash = 0;
    std::int32_t id = -1;
  };

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

  /// The slot of the token, or the free one where it belongs.
  template <class BytesOf>
  std::size_t place(std::string_view bytes, std::size_t hash, const BytesOf& bytes_of) const {
    const auto tag = static_cast<std::uint32_t>(hash >> 32);
    std::size_t i = hash & mask_;
    for (std::size_t probes = 0; probes < kMaxProbes; ++probes, i = (i + 1) & mask_) {
      const Slot slot = slots_[i];
      if (slot.id < 0 || (slot.hash == tag && equal(bytes_of[static_cast<std::size_t>(slot.id)], bytes))) return i;
    }
    return kNowhere;
  }

  std::vector<Slot> slots_;
  std::size_t mask_;
};

}  // namespace quern::tokenizers::detail
