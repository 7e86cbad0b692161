#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace quern::kvcache {

/// The blocks of a cache: which are free, and how many sequences use each that is not. Knows numbers only, no memory. Nothing but the
/// constructor allocates. Not for concurrent use.
class BlockPool {
 public:
  explicit BlockPool(std::int64_t blocks);

  /// A free block, with one reference; nothing when there is none. The block freed last comes first: it is the likeliest to be in a CPU
  /// cache.
  std::optional<std::int32_t> allocate();
  /// One more user of a block in use.
  void add_reference(std::int32_t block);
  /// One user less; the last one frees the block.
  void release(std::int32_t block);

  /// A block in use is kept by a cache, too (one more reference), until drop(). While nobody else uses it, it is idle.
  void keep(std::int32_t block);
  void drop(std::int32_t block);

  std::int64_t blocks() const { return static_cast<std::int64_t>(references_.size()); }
  std::int64_t free_blocks() const { return static_cast<std::int64_t>(free_.size()); }
  std::int64_t idle_blocks() const { return idle_; }
  std::int32_t references(std::int32_t block) const { return references_[static_cast<std::size_t>(block)]; }

 private:
  void require_in_use(std::int32_t block) const;

  std::vector<std::int32_t> references_;  // by block, 0: free
  std::vector<bool> kept_;                // by block
  std::vector<std::int32_t> free_;        // a stack
  std::int64_t idle_ = 0;                 // blocks that are kept and have no other user
};

}  // namespace quern::kvcache
