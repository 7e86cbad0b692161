#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "backends/cpu/kernels/linear/linear.h"
#include "base/thread_pool.h"
#include "ir/graph.h"

namespace quern::cpu {

/// The packed weights of one program: one copy of a constant, whoever reads it. Lowering only says what will be needed; fill() packs
/// everything at once, on all workers.
class WeightStore {
 public:
  /// The packed form of a table whose rows are looked up; nothing when no product reads the table, and the rows are those of the constant.
  using Lookup = std::shared_ptr<const std::optional<PackedWeights>>;

  /// `pool`: where fill() packs; null: on the calling thread. `mapped_owner`: the owner of constants that lie in a mapped file, whose pages
  /// are released as soon as they are packed; null: none do.
  explicit WeightStore(ThreadPool* pool = nullptr, std::shared_ptr<const void> mapped_owner = nullptr);

  /// The packed form of a constant [n, k], for products with x of a type: the same for all who ask. Its bytes are there after
  /// fill(). Precondition: PackedWeights::can_pack(). Errors: resource_exhausted.
  PackedWeights packed(const ir::Value& constant, ir::DType x);
  /// To be read after fill().
  Lookup lookup(const ir::Value& constant);
  /// Packs what was asked for since the last time.
  void fill();

 private:
  struct Entry {
    std::shared_ptr<const ir::Constant> constant;
    PackedWeights weights;
  };
  using Key = std::tuple<const std::byte*, ir::DType, std::int64_t, std::int64_t, ir::DType>;  // data, type, n, k, x

  ThreadPool* pool_;
  std::shared_ptr<const void> mapped_owner_;
  std::vector<Entry> entries_;
  std::map<Key, std::size_t> index_;  // of entries_
  struct Asked {
    const std::byte* data;
    std::shared_ptr<std::optional<PackedWeights>> table;
  };
  std::vector<Asked> lookups_;
};

}  // namespace quern::cpu
