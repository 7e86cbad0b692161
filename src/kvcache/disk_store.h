#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace quern::kvcache {

/// The name of what a full block holds: SHA-256 of the tokens from the beginning of its sequence to its end, and of all else that its bytes
/// depend on. Nobody can make up tokens whose name is that of others.
using BlockKey = std::array<std::uint8_t, 32>;

struct BlockKeyHash {
  std::size_t operator()(const BlockKey& key) const;
};

struct DiskStoreOptions {
  std::string folder;
  std::int64_t max_bytes = std::int64_t{8} << 30;   // of all files in the folder; those unused for longest go
  std::string model;                                // all that the bytes of a block depend on beside its tokens
  std::int64_t block_bytes = 0;                     // of a block, at most
  std::function<void(std::string_view)> note = {};  // hears in a sentence when the disk fails, once a minute at most; may be empty
  std::function<void()> ready = {};                 // called on another thread when take_done() has something; brief, must not throw
};

/// Blocks of keys and values in a folder, one file a block, for the next start and for other processes that serve the same model. Nothing
/// in the folder is trusted: a file that is not, byte for byte, what was written under its name is removed and counts as missing. Files are
/// written under another name and renamed, so readers see whole ones; no fsync, since what a loss of power leaves has a wrong checksum.
/// Only who removes old files holds the folder's lock.
///
/// Two threads read and write; nothing here waits for the disk but the constructor, which lists the folder, and the destructor, which ends
/// what is under way and drops what is queued. For one thread; `ready` may be called until the destructor has returned.
class DiskStore {
 public:
  /// Makes the folder, for the user alone, when it is missing. Errors: invalid_argument (no folder can be made there, or it cannot be
  /// read).
  explicit DiskStore(DiskStoreOptions options);
  ~DiskStore();
  DiskStore(const DiskStore&) = delete;
  DiskStore& operator=(const DiskStore&) = delete;

  /// What the names of a sequence's blocks begin with. Partitions share no block.
  BlockKey first(std::uint64_t partition) const;
  /// The name of the block of these tokens, after the one named `before`. Of no tokens: of more that belongs to that one.
  static BlockKey next(const BlockKey& before, std::span<const std::int32_t> tokens);

  /// How many of these, from the first one on, are there as far as is known.
  std::size_t leading(std::span<const BlockKey> keys) const;
  /// Reads a block into `to`, or writes it from `from`; the bytes must stay until take_done() returns `ticket`.
  void read(const BlockKey& key, std::span<std::byte> to, std::int32_t ticket);
  /// `depth`: how many blocks come before it in its sequence.
  void write(const BlockKey& key, std::size_t depth, std::span<const std::byte> from, std::int32_t ticket);
  struct Done {
    bool was_read, good;
    std::int32_t ticket;
  };
  /// What has ended since the last call is appended to `done`.
  void take_done(std::vector<Done>& done);
  /// A sequence that begins with these, the first of which has `depth` before it, is in use, wherever their bytes came from: they shall not
  /// be the next to go.
  void used(std::span<const BlockKey> keys, std::size_t depth = 0);
  /// How long reading `blocks` more will take, in seconds, with what is queued, by how long it took so far.
  double seconds_to_read(std::size_t blocks) const;

  /// A random number that belongs to the folder.
  std::uint64_t secret() const { return secret_; }

  struct Statistics {
    std::int64_t blocks_read = 0, blocks_written = 0, read_errors = 0, write_errors = 0, blocks_removed = 0;
    std::int64_t bytes = 0;  // in the folder, of all processes, as last counted
  };
  Statistics statistics() const;

 private:
  struct Job {
    BlockKey key;
    std::size_t depth = 0;
    std::span<std::byte> to = {};
    std::span<const std::byte> from = {};
    std::int32_t ticket = 0;
  };
  using Index = std::unordered_map<BlockKey, std::int64_t, BlockKeyHash>;  // when it was last marked as used, in seconds of steady time

  void read_jobs();
  void write_jobs();
  bool read_block(const Job& job);
  bool write_block(const Job& job);
  int create(const Job& job) const;
  std::string path(const BlockKey& key) const;
  void list_again();
  void make_room();
  void expect_another();
  void finish(const Job& job, bool good);
  void complain(std::string_view what);

  const DiskStoreOptions options_;
  const std::int64_t file_bytes_;
  std::uint64_t secret_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable to_read_, to_write_;
  bool stop_ = false;
  std::deque<Job> reads_, writes_;
  std::vector<std::pair<BlockKey, std::size_t>> used_;  // with depths
  std::vector<Done> done_;
  Index index_;
  Statistics statistics_;
  double read_seconds_ = 0.0005;  // a block, learned
  std::int64_t complained_ = -1000;

  // Of the writing thread.
  std::int64_t folder_time_ = -1, paused_until_ = 0, room_ = 0;

  std::thread reader_, writer_;
};

}  // namespace quern::kvcache
