#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace quern::tokenizers::detail {

/// Tokens by the bytes they stand for: an open-addressing hash table of 8 bytes a slot. `bytes_of(id)` gives the bytes of a token that was
/// added; they are kept by the caller.
class TokenIndex {
 public:
  explicit TokenIndex(std::size_t tokens) : slots_(std::bit_ceil(tokens * 2 + 2)), mask_(slots_.size() - 1) {}

  /// Of several tokens with the same bytes the last one added is found. Returns false where there was one before.
  template <class BytesOf>
  bool add(std::string_view bytes, std::int32_t id, const BytesOf& bytes_of) {
    return add(bytes, hash_of(bytes), id, bytes_of);
  }
  template <class BytesOf>
  bool add(std::string_view bytes, std::size_t hash, std::int32_t id, const BytesOf& bytes_of) {
    Slot& slot = slots_[place(bytes, hash, bytes_of)];
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
  static std::size_t hash_of(std::string_view bytes) { return std::hash<std::string_view>()(bytes); }
  void prefetch(std::size_t hash) const { __builtin_prefetch(&slots_[hash & mask_]); }
  std::int32_t guess(std::size_t hash) const { return slots_[hash & mask_].id; }
  template <class BytesOf>
  std::int32_t find(std::string_view bytes, std::size_t hash, const BytesOf& bytes_of) const {
    return slots_[place(bytes, hash, bytes_of)].id;
  }

 private:
  struct Slot {
    std::uint32_t hash = 0;
    std::int32_t id = -1;
  };

  template <class BytesOf>
  std::size_t place(std::string_view bytes, std::size_t hash, const BytesOf& bytes_of) const {
    const auto tag = static_cast<std::uint32_t>(hash >> 32);
    std::size_t i = hash & mask_;
    while (slots_[i].id >= 0 && (slots_[i].hash != tag || bytes_of[static_cast<std::size_t>(slots_[i].id)] != bytes)) i = (i + 1) & mask_;
    return i;
  }

  std::vector<Slot> slots_;
  std::size_t mask_;
};

}  // namespace quern::tokenizers::detail
