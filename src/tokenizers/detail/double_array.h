#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace quern::tokenizers::detail {

/// A trie of byte strings in which one step is one look at memory: the child of node n by byte b is base(n) ^ b, if that is n's.
class DoubleArray {
 public:
  static constexpr std::uint32_t kRoot = 0;

  DoubleArray() : units_(256) {}
  /// Keys with their values (0 or above), in any order; of equal keys the highest value stays. The keys need to live only during this call.
  explicit DoubleArray(std::vector<std::pair<std::string_view, std::int32_t>> keys);

  /// Goes to the child of `node`; false where there is none.
  bool step(std::uint32_t& node, char byte) const {
    const std::uint32_t child = units_[node].base ^ static_cast<unsigned char>(byte);
    if (units_[child].parent != node) return false;
    node = child;
    return true;
  }
  bool walk(std::uint32_t& node, std::string_view bytes) const {
    for (const char byte : bytes)
      if (!step(node, byte)) return false;
    return true;
  }
  /// The value of the key that ends at the node, or -1.
  std::int32_t value(std::uint32_t node) const { return units_[node].value; }
  std::int32_t find(std::string_view key) const {
    std::uint32_t node = kRoot;
    return walk(node, key) ? value(node) : -1;
  }

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFFu;
  struct Unit {
    std::uint32_t base = 0, parent = kNone;
    std::int32_t value = -1;
  };
  std::vector<Unit> units_;
};

}  // namespace quern::tokenizers::detail
