#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/page_memory.h"

namespace quern::tokenizers::detail {

/// A trie of byte strings in which one step is one look at memory: the child of node n by byte b is base(n) ^ b, if that is n's. What is
/// left of a key where no other goes on with it is no row of nodes but a tail: its bytes, one after the other.
class DoubleArray {
 public:
  static constexpr std::uint32_t kRoot = 0;

  DoubleArray() : units_(256) {}
  using Key = std::pair<std::string_view, std::int32_t>;
  /// Keys with their values (0 or above), in any order; of equal keys the highest value stays. The keys need to live only during this call.
  /// Errors: resource_exhausted for more than 2^30 bytes of keys.
  explicit DoubleArray(PageVector<Key> keys);

  /// Goes to the child of `node`; false where there is none.
  bool step(std::uint32_t& node, char byte) const {
    if (node < kTail) {
      const std::uint32_t base = units_[node].base;
      if (base < kTail) {
        const std::uint32_t child = base ^ static_cast<unsigned char>(byte);
        if (units_[child].parent != node) return false;
        node = child;
        return true;
      }
      if (tails_[base - kTail] != static_cast<unsigned char>(byte)) return false;
      node = base + 1;
      return true;
    }
    if (tails_[node - kTail] != static_cast<unsigned char>(byte)) return false;
    ++node;
    return true;
  }
  bool walk(std::uint32_t& node, std::string_view bytes) const {
    for (const char byte : bytes)
      if (!step(node, byte)) return false;
    return true;
  }
  /// The value of the key that ends at the node, or -1.
  std::int32_t value(std::uint32_t node) const {
    if (node < kTail) return units_[node].value;
    const std::uint16_t* at = &tails_[node - kTail];
    return at[0] == kEnd ? static_cast<std::int32_t>(at[1] | std::uint32_t{at[2]} << 16) : -1;
  }
  std::int32_t find(std::string_view key) const {
    std::uint32_t node = kRoot;
    return walk(node, key) ? value(node) : -1;
  }

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFFu, kTail = 1u << 31;
  static constexpr std::uint16_t kEnd = 0x100;
  struct Unit {
    std::uint32_t base = 0, parent = kNone;  // base from kTail on: where its tail begins
    std::int32_t value = -1;
  };
  std::uint32_t add_tail(std::string_view rest, std::int32_t value);

  PageVector<Unit> units_;
  PageVector<std::uint16_t> tails_;  // bytes, then kEnd and the two halves of the value
};

}  // namespace quern::tokenizers::detail
