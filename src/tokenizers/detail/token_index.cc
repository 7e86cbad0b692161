#include "tokenizers/detail/token_index.h"

#include <bit>
#include <functional>

namespace quern::tokenizers::detail {

TokenIndex::TokenIndex(std::size_t tokens) : slots_(std::bit_ceil(tokens * 2 + 2)), mask_(slots_.size() - 1) {}

TokenIndex::Slot* TokenIndex::place(std::string_view bytes, std::size_t hash) {
  std::size_t i = hash & mask_;
  while (slots_[i].id >= 0 && (slots_[i].hash != static_cast<std::uint32_t>(hash >> 32) || slots_[i].bytes != bytes)) i = (i + 1) & mask_;
  return &slots_[i];
}

bool TokenIndex::add(std::string_view bytes, std::int32_t id) {
  const std::size_t hash = std::hash<std::string_view>()(bytes);
  Slot* slot = place(bytes, hash);
  const bool fresh = slot->id < 0;
  *slot = {bytes, static_cast<std::uint32_t>(hash >> 32), id};
  return fresh;
}

std::int32_t TokenIndex::find(std::string_view bytes) const {
  return const_cast<TokenIndex*>(this)->place(bytes, std::hash<std::string_view>()(bytes))->id;
}

}  // namespace quern::tokenizers::detail
