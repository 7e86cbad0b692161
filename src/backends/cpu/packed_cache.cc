#include "backends/cpu/packed_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <vector>

#include "base/checksum.h"
#include "base/descriptor.h"

namespace quern::cpu {
namespace {

constexpr std::size_t kChunk = 1 << 20;  // fits the second-level cache, so that its checksum costs no second trip to memory
constexpr std::string_view kEnding = ".packed", kTemporary = ".new";
constexpr std::time_t kAbandoned = 3600;  // seconds after which a temporary file has no writer any more

struct Header {
  char magic[8] = {'Q', 'U', 'E', 'R', 'N', 'P', 'K', '1'};
  std::uint64_t key[2];
  std::uint64_t bytes, chunks;
  std::uint64_t checksum;  // of the checksums

  bool operator==(const Header&) const = default;
};
static_assert(sizeof(Header) == 48);

/// The whole of it; false at the end of the file, or on an error.
bool read_all(int fd, void* to, std::size_t bytes, std::size_t offset) {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t got = ::pread(fd, static_cast<char*>(to) + done, bytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    done += static_cast<std::size_t>(got);
  }
  return true;
}

bool write_all(int fd, const void* from, std::size_t bytes, std::size_t offset) {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t put = ::pwrite(fd, static_cast<const char*>(from) + done, bytes - done, static_cast<off_t>(offset + done));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    done += static_cast<std::size_t>(put);
  }
  return true;
}

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

/// The pieces in parts of at most a chunk, each with its place in the data.
struct Chunk {
  std::span<std::byte> bytes;
  std::size_t offset;
};
std::vector<Chunk> chunks_of(std::span<const std::span<std::byte>> pieces) {
  std::vector<Chunk> chunks;
  std::size_t offset = 0;
  for (const std::span<std::byte> piece : pieces)
    for (std::size_t at = 0; at < piece.size(); at += kChunk) {
      chunks.push_back({piece.subspan(at, std::min(kChunk, piece.size() - at)), offset});
      offset += chunks.back().bytes.size();
    }
  return chunks;
}

std::size_t bytes_of(std::span<const Chunk> chunks) { return chunks.empty() ? 0 : chunks.back().offset + chunks.back().bytes.size(); }

Header header_of(std::string_view key, std::span<const Chunk> chunks, std::span<const std::uint64_t> sums) {
  Header header{};
  for (int i = 0; i < 2; ++i) header.key[i] = checksum(bytes_of(key), static_cast<std::uint64_t>(i));
  header.bytes = bytes_of(chunks);
  header.chunks = chunks.size();
  header.checksum = checksum(std::as_bytes(sums));
  return header;
}

std::size_t data_begin(std::size_t chunks) { return (sizeof(Header) + chunks * sizeof(std::uint64_t) + 4095) / 4096 * 4096; }

}  // namespace

std::string PackedCache::path(std::string_view key) const {
  return fmt::format("{}/{:016x}{:016x}{}", options_.folder, checksum(bytes_of(key), 0), checksum(bytes_of(key), 1), kEnding);
}

bool PackedCache::read(std::string_view key, std::span<const std::span<std::byte>> pieces, ThreadPool* pool) const {
  const std::vector<Chunk> chunks = chunks_of(pieces);
  if (!wants(static_cast<std::int64_t>(bytes_of(chunks)))) return false;
  const std::string file = path(key);
  const Descriptor fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (fd.get() < 0) return false;
  const auto refuse = [&](std::string_view why) {
    if (options_.note) options_.note(fmt::format("{} is not used and will be written anew: {}", file, why));
    return false;
  };
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return refuse("it is not a regular file");
  if (info.st_uid != ::geteuid()) return refuse("it belongs to another user");
  const std::size_t begin = data_begin(chunks.size());
  if (static_cast<std::size_t>(info.st_size) != begin + bytes_of(chunks)) return refuse("its size is wrong");
  Header header{};
  std::vector<std::uint64_t> sums(chunks.size());
  if (!read_all(fd.get(), &header, sizeof header, 0) ||
      !read_all(fd.get(), sums.data(), sums.size() * sizeof(std::uint64_t), sizeof header))
    return refuse("it cannot be read");
  if (header != header_of(key, chunks, sums)) return refuse("its header is damaged");

  std::atomic<bool> good = true;
  for_each_task(pool, chunks.size(), [&](std::size_t i) {
    const Chunk& chunk = chunks[i];
    if (!good.load(std::memory_order_relaxed)) return;
    if (!read_all(fd.get(), chunk.bytes.data(), chunk.bytes.size(), begin + chunk.offset) || checksum(chunk.bytes) != sums[i]) good = false;
  });
  if (!good) return refuse("its data is damaged");
  ::utimensat(AT_FDCWD, file.c_str(), nullptr, 0);  // the time of the last use; where that fails it is the time it was written
  return true;
}

void PackedCache::write(std::string_view key, std::span<const std::span<std::byte>> pieces, ThreadPool* pool) const {
  const std::vector<Chunk> chunks = chunks_of(pieces);
  if (!wants(static_cast<std::int64_t>(bytes_of(chunks)))) return;
  std::error_code error;
  std::filesystem::create_directories(options_.folder, error);
  const std::size_t begin = data_begin(chunks.size());
  if (error || !make_room(static_cast<std::int64_t>(begin + bytes_of(chunks)))) return;

  const std::string file = path(key);
  std::string temporary = file + ".XXXXXX" + std::string(kTemporary);
  const Descriptor fd(::mkostemps(temporary.data(), static_cast<int>(kTemporary.size()), O_CLOEXEC));  // readable by the user alone
  if (fd.get() < 0) return;
  std::vector<std::uint64_t> sums(chunks.size());
  std::atomic<bool> good = true;
  for_each_task(pool, chunks.size(), [&](std::size_t i) {
    if (!good.load(std::memory_order_relaxed)) return;
    sums[i] = checksum(chunks[i].bytes);
    if (!write_all(fd.get(), chunks[i].bytes.data(), chunks[i].bytes.size(), begin + chunks[i].offset)) good = false;
  });
  const Header header = header_of(key, chunks, sums);
  const bool whole = good && write_all(fd.get(), sums.data(), sums.size() * sizeof(std::uint64_t), sizeof header) &&
                     write_all(fd.get(), &header, sizeof header, 0);
  if (!whole || ::rename(temporary.c_str(), file.c_str()) != 0) ::unlink(temporary.c_str());
}

/// Removes the least recently used files until `bytes` more fit within the bound; false when they never will.
bool PackedCache::make_room(std::int64_t bytes) const {
  struct File {
    std::string path;
    std::int64_t bytes;
    std::timespec used;
  };
  std::vector<File> files;
  std::int64_t sum = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(options_.folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().string();
    struct stat info{};
    if (::lstat(name.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    if (name.ends_with(kTemporary) && info.st_mtime + kAbandoned < std::time(nullptr)) ::unlink(name.c_str());
    if (!name.ends_with(kEnding)) continue;
    files.push_back({name, static_cast<std::int64_t>(info.st_size), info.st_mtim});
    sum += info.st_size;
  }
  struct statvfs disk{};
  if (error || ::statvfs(options_.folder.c_str(), &disk) != 0) return false;
  const std::int64_t free =
      static_cast<std::int64_t>(std::min<std::uint64_t>(disk.f_bavail, INT64_MAX / (disk.f_frsize + 1)) * disk.f_frsize);
  const std::int64_t limit = std::min(options_.max_bytes, (free + sum) / 10);
  if (bytes > limit) return false;
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) {
    return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
  });
  for (const File& file : files) {
    if (sum + bytes <= limit) break;
    if (::unlink(file.path.c_str()) == 0) sum -= file.bytes;
  }
  return true;
}

}  // namespace quern::cpu
