#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace quern::tokenizers::detail {

/// Tokens by the bytes they stand for. Holds views: the bytes must outlive it.
class TokenIndex {
 public:
  explicit TokenIndex(std::size_t tokens);
  /// Of several tokens with the same bytes the last one added is found. Returns false where there was one before.
  bool add(std::string_view bytes, std::int32_t id);
  /// The token, or -1.
  std::int32_t find(std::string_view bytes) const;

 private:
  struct Slot {
    std::string_view bytes;
    std::uint32_t hash = 0;
    std::int32_t id = -1;
  };
  Slot* place(std::string_view bytes, std::size_t hash);

  std::vector<Slot> slots_;
  std::size_t mask_;
};

}  // namespace quern::tokenizers::detail
