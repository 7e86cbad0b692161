#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "backends/cpu/kernels/linear/linear.h"
#include "backends/cpu/packed_cache.h"
#include "base/thread_pool.h"
#include "ir/graph.h"

namespace quern::cpu {

/// How weights come into memory.
struct WeightOptions {
  ThreadPool* pool = nullptr;  // where weights are packed; null: on the calling thread
  std::shared_ptr<const void> mapped_owner =
      nullptr;                     // of constants that lie in a mapped file, whose pages are released when they are packed
  bool pack = true;                // false: every tile is packed each time that it is used, and none is kept
  PackedCacheOptions cache = {};   // where packed weights are kept from one start to the next; a folder of "": nowhere
  std::string file_identity = {};  // MappedFile::identity() of what the constants lie in; empty: nothing goes into the cache
};

/// The packed weights of one program: one copy of a constant, whoever reads it. Lowering only says what will be needed; fill() packs
/// everything at once, on all workers.
class WeightStore {
 public:
  /// The packed form of a table whose rows are looked up; nothing when no product reads the table, and the rows are those of the constant.
  using Lookup = std::shared_ptr<const std::optional<PackedWeights>>;

  explicit WeightStore(WeightOptions options = {});

  /// The packed forms of constants [n, k], for products with x of a type: the same for all who ask. Their bytes are there after
  /// fill(). Their tiles, those of the second behind all of the first, are what tasks divide when they are used: on a machine with several
  /// nodes each lies near the node whose share it is. Precondition: PackedWeights::can_pack(). Errors: resource_exhausted.
  std::vector<PackedWeights> packed(std::span<ir::Value* const> constants, ir::DType x);
  /// To be read after fill().
  Lookup lookup(const ir::Value& constant);
  /// Packs what was asked for since the last time, or reads it from the cache.
  void fill();

 private:
  struct Entry {
    std::shared_ptr<const ir::Constant> constant;
    PackedWeights weights;
    bool continues;  // its tiles stand behind those of the entry before it
  };
  using Key = std::tuple<const std::byte*, ir::DType, std::int64_t, std::int64_t, ir::DType>;  // data, type, n, k, x

  void place();
  void pack_all();
  std::string cache_key() const;

  WeightOptions options_;
  PackedCache cache_;
  std::vector<Entry> entries_;
  std::map<Key, std::size_t> index_;  // of entries_
  struct Asked {
    const std::byte* data;
    std::shared_ptr<std::optional<PackedWeights>> table;
  };
  std::vector<Asked> lookups_;
};

}  // namespace quern::cpu
