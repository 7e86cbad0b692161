#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/thread_pool.h"

namespace quern::cpu {

struct PackedCacheOptions {
  std::string folder = {};                          // made when missing; empty: no cache
  std::int64_t max_bytes = std::int64_t{20} << 30;  // of all files together, and at most a tenth of the disk's free space; the oldest go
  std::int64_t min_bytes = std::int64_t{16} << 20;  // of a model; a smaller one is packed in the time that reading takes
  std::function<void(std::string_view)> note = {};  // hears in a sentence why a file was ignored; may be empty
};

/// A folder of packed weights, one file a model, so that the next start need not pack again. Nothing in it is trusted: whatever is not,
/// byte for byte, what this version would have written for the same model is ignored and written anew. Files are written under another name
/// and renamed, so processes may share the folder. They need no fsync: what a loss of power leaves has wrong checksums.
///
/// A file is a header of known contents, a checksum of each MiB of the data, and the data: the packed bytes, one weight after the other.
/// They are read into memory of huge pages and not mapped: on a file's pages of 4 KiB a token takes twice as long (weight_memory.h).
class PackedCache {
 public:
  explicit PackedCache(PackedCacheOptions options) : options_(std::move(options)) {}

  /// Fills the pieces from the file that was written for `key`. False when there is none, or it is no good; what is in the pieces then has
  /// no meaning. `key` says everything that the bytes depend on.
  bool read(std::string_view key, std::span<const std::span<std::byte>> pieces, ThreadPool* pool) const;
  /// Writes the file, and removes the least recently used ones that are over the bound. When it cannot (a full disk, a folder that is
  /// read-only) nothing happens.
  void write(std::string_view key, std::span<const std::span<std::byte>> pieces, ThreadPool* pool) const;

 private:
  std::string path(std::string_view key) const;
  bool wants(std::int64_t bytes) const { return !options_.folder.empty() && bytes >= options_.min_bytes; }
  bool make_room(std::int64_t bytes) const;

  PackedCacheOptions options_;
};

}  // namespace quern::cpu
