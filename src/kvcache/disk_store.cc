#include "kvcache/disk_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <optional>
#include <random>
#include <unordered_set>

#include "base/checksum.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/faults.h"
#include "base/sha256.h"

namespace quern::kvcache {
namespace {

constexpr std::string_view kEnding = ".kv", kTemporary = ".new", kLock = "lock", kSecret = "secret";
constexpr std::size_t kMostFiles = 1 << 20;    // that are listed
constexpr std::int64_t kAbandoned = 3600;      // seconds after which a temporary file has no writer any more
constexpr std::int64_t kPause = 60;            // seconds without writing after the disk failed
constexpr std::int64_t kMarkedFor = 60;        // seconds for which a mark of use is fresh enough
constexpr std::chrono::seconds kLookAgain{5};  // for what other processes wrote or removed
// A block counts as used this much before the one it follows, so that the ends of sequences go first: what follows a missing block is lost.
constexpr std::int64_t kOlderPerDepth = 10'000'000;  // ns

struct Header {
  std::array<char, 8> magic = {'Q', 'U', 'E', 'R', 'N', 'K', 'V', '1'};
  BlockKey key;
  std::uint64_t bytes, checksum;

  bool operator==(const Header&) const = default;
};
static_assert(sizeof(Header) == 56);

Header header_of(const BlockKey& key, std::span<const std::byte> block) {
  std::uint64_t seed = 0;
  std::memcpy(&seed, key.data(), sizeof seed);
  return {.key = key, .bytes = block.size(), .checksum = checksum(block, seed)};
}

std::int64_t steady_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Times of a file whose block is in use now.
std::array<timespec, 2> times_of_use(std::size_t depth) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const std::int64_t ns = std::int64_t(now.tv_sec) * 1'000'000'000 + now.tv_nsec - static_cast<std::int64_t>(depth) * kOlderPerDepth;
  const timespec then{.tv_sec = static_cast<std::time_t>(ns / 1'000'000'000), .tv_nsec = ns % 1'000'000'000};
  return {then, then};
}

/// Header and block, from the beginning of the file; false at its end or on an error.
template <class Call>  // preadv or pwritev
bool transfer(Call call, int fd, void* header, void* block, std::size_t block_bytes) {
  const std::size_t all = sizeof(Header) + block_bytes;
  for (std::size_t done = 0; done < all;) {
    std::array<iovec, 2> parts;
    int count = 0;
    if (done < sizeof(Header)) parts[static_cast<std::size_t>(count++)] = {static_cast<char*>(header) + done, sizeof(Header) - done};
    const std::size_t of_block = done < sizeof(Header) ? 0 : done - sizeof(Header);
    parts[static_cast<std::size_t>(count++)] = {static_cast<char*>(block) + of_block, block_bytes - of_block};
    const ssize_t moved = call(fd, parts.data(), count, static_cast<off_t>(done));
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) return false;
    done += static_cast<std::size_t>(moved);
  }
  return true;
}

/// The number in the folder's file for it, which is made when it is not there. Without the right to make one it is another every time.
std::uint64_t secret_of(const std::string& folder) {
  const std::string file = folder + "/" + std::string(kSecret),
                    temporary = file + "." + std::to_string(::getpid()) + std::string(kTemporary);
  std::uint64_t found = 0;
  const auto read = [&] {
    const Descriptor fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    struct stat info{};
    return fd.get() >= 0 && ::fstat(fd.get(), &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == ::geteuid() &&
           ::pread(fd.get(), &found, sizeof found, 0) == sizeof found;
  };
  if (read()) return found;
  std::random_device random;
  const std::uint64_t number = std::uint64_t{random()} << 32 | random();
  {
    const Descriptor fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (fd.get() < 0 || ::write(fd.get(), &number, sizeof number) != sizeof number) return number;
  }
  // The first of several processes wins; what is no such file goes.
  const bool others = ::link(temporary.c_str(), file.c_str()) != 0 && read();
  if (!others) ::rename(temporary.c_str(), file.c_str());
  ::unlink(temporary.c_str());
  return others ? found : number;
}

/// A file's name as a key, if it is one of ours.
std::optional<BlockKey> key_of(std::string_view name) {
  BlockKey key;
  if (name.size() != 2 * key.size() + kEnding.size() || !name.ends_with(kEnding)) return std::nullopt;
  for (std::size_t i = 0; i < 2 * key.size(); ++i) {
    const char c = name[i];
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) return std::nullopt;
    key[i / 2] = static_cast<std::uint8_t>(i % 2 == 0 ? digit << 4 : key[i / 2] | digit);
  }
  return key;
}

}  // namespace

std::size_t BlockKeyHash::operator()(const BlockKey& key) const {
  std::size_t hash;
  std::memcpy(&hash, key.data(), sizeof hash);
  return hash;
}

DiskStore::DiskStore(DiskStoreOptions options)
    : options_(std::move(options)), file_bytes_(static_cast<std::int64_t>(sizeof(Header)) + options_.block_bytes) {
  QUERN_ASSERT(options_.block_bytes > 0);
  std::error_code error;
  // Its parents as the system makes them, itself for the user alone: keys and values tell what was said.
  if (const std::filesystem::path parent = std::filesystem::path(options_.folder).parent_path(); !parent.empty())
    std::filesystem::create_directories(parent, error);
  if (::mkdir(options_.folder.c_str(), 0700) != 0 && errno != EEXIST)
    throw Error(Code::invalid_argument, std::string("cannot make the folder for cached blocks: ") + std::strerror(errno))
        .at(options_.folder);
  if (std::filesystem::directory_iterator(options_.folder, error); error)
    throw Error(Code::invalid_argument, "cannot read the folder for cached blocks: " + error.message()).at(options_.folder);
  secret_ = secret_of(options_.folder);
  list_again();
  reader_ = std::thread([this] { read_jobs(); });
  writer_ = std::thread([this] { write_jobs(); });
}

DiskStore::~DiskStore() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  to_read_.notify_one();
  to_write_.notify_one();
  reader_.join();
  writer_.join();
}

BlockKey DiskStore::first(std::uint64_t partition) const {
  Sha256 hash;
  hash.add(std::as_bytes(std::span(options_.model)));
  const std::array<std::uint64_t, 3> numbers = {options_.model.size(), static_cast<std::uint64_t>(options_.block_bytes), partition};
  return hash.add(std::as_bytes(std::span(numbers))).digest();
}

BlockKey DiskStore::next(const BlockKey& before, std::span<const std::int32_t> tokens) {
  return Sha256().add(std::as_bytes(std::span(before))).add(std::as_bytes(tokens)).digest();
}

std::size_t DiskStore::leading(std::span<const BlockKey> keys) const {
  const std::lock_guard lock(mutex_);
  std::size_t count = 0;
  while (count < keys.size() && index_.contains(keys[count])) ++count;
  return count;
}

/// Room for what will be done, so that nothing is allocated on the way back.
void DiskStore::expect_another() {
  const std::size_t under_way = 2, all = done_.size() + reads_.size() + writes_.size() + under_way + 1;
  if (done_.capacity() < all) done_.reserve(2 * all);
}

void DiskStore::read(const BlockKey& key, std::span<std::byte> to, std::int32_t ticket) {
  QUERN_ASSERT(!to.empty() && static_cast<std::int64_t>(to.size()) <= options_.block_bytes);
  {
    const std::lock_guard lock(mutex_);
    expect_another();
    reads_.push_back({.key = key, .to = to, .ticket = ticket});
  }
  to_read_.notify_one();
}

void DiskStore::write(const BlockKey& key, std::size_t depth, std::span<const std::byte> from, std::int32_t ticket) {
  QUERN_ASSERT(!from.empty() && static_cast<std::int64_t>(from.size()) <= options_.block_bytes);
  {
    const std::lock_guard lock(mutex_);
    expect_another();
    writes_.push_back({.key = key, .depth = depth, .from = from, .ticket = ticket});
  }
  to_write_.notify_one();
}

void DiskStore::take_done(std::vector<Done>& done) {
  const std::lock_guard lock(mutex_);
  done.insert(done.end(), done_.begin(), done_.end());
  done_.clear();
}

void DiskStore::used(std::span<const BlockKey> keys, std::size_t depth) {
  const std::int64_t now = steady_seconds();
  bool any = false;
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto found = index_.find(keys[i]);
      if (found == index_.end()) break;
      if (now - found->second < kMarkedFor) continue;
      found->second = now;
      used_.emplace_back(keys[i], depth + i);
      any = true;
    }
  }
  if (any) to_write_.notify_one();
}

double DiskStore::seconds_to_read(std::size_t blocks) const {
  const std::lock_guard lock(mutex_);
  return static_cast<double>(reads_.size() + blocks) * read_seconds_;
}

DiskStore::Statistics DiskStore::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

std::string DiskStore::path(const BlockKey& key) const {
  std::string name = options_.folder + "/";
  for (const std::uint8_t byte : key) name += fmt::format("{:02x}", byte);
  return name.append(kEnding);
}

void DiskStore::complain(std::string_view what) {
  const int error = errno;
  {
    const std::lock_guard lock(mutex_);
    const std::int64_t now = steady_seconds();
    if (now - complained_ < kPause) return;
    complained_ = now;
  }
  if (options_.note) options_.note(fmt::format("{}: {}: {}", options_.folder, what, std::strerror(error)));
}

void DiskStore::finish(const Job& job, bool good) {
  const bool was_read = !job.to.empty();
  {
    const std::lock_guard lock(mutex_);
    done_.push_back({was_read, good, job.ticket});
    if (good) ++(was_read ? statistics_.blocks_read : statistics_.blocks_written);
  }
  if (options_.ready) options_.ready();
}

// --- reading ---

void DiskStore::read_jobs() {
  for (;;) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      to_read_.wait(lock, [&] { return stop_ || !reads_.empty(); });
      if (stop_) return;
      job = reads_.front();
      reads_.pop_front();
    }
    const auto begin = std::chrono::steady_clock::now();
    bool good = false;
    try {
      good = read_block(job);
    } catch (const std::exception&) {  // no memory for a name: it is computed again
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    {
      const std::lock_guard lock(mutex_);
      if (good) read_seconds_ += 0.1 * (seconds - read_seconds_);
    }
    finish(job, good);
  }
}

bool DiskStore::read_block(const Job& job) {
  const std::string file = path(job.key);
  const Descriptor fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  const int error = fd.get() < 0 ? errno : 0;
  struct stat info{};
  const bool ours = error == 0 && ::fstat(fd.get(), &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == ::geteuid();
  Header header{};
  if (ours && info.st_size == static_cast<off_t>(sizeof(Header) + job.to.size()) && !faults::due(faults::Point::disk_read) &&
      transfer(::preadv, fd.get(), &header, job.to.data(), job.to.size()) && header == header_of(job.key, job.to))
    return true;
  const bool gone = error == ENOENT || error == ENOTDIR;  // another process needed the room
  // Damaged, or nothing that we would have written: a link, a folder, another user's. What cannot be removed stays, and so does what is
  // there and cannot be opened, for want of descriptors or rights.
  if (error == 0 || error == ELOOP || error == ENXIO) ::unlink(file.c_str());
  const std::lock_guard lock(mutex_);
  index_.erase(job.key);
  if (!gone) ++statistics_.read_errors;
  return false;
}

// --- writing ---

void DiskStore::write_jobs() {
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), 10);  // of this thread alone: steps go before
  for (;;) {
    Job job;
    decltype(used_) used;
    {
      std::unique_lock lock(mutex_);
      to_write_.wait_for(lock, kLookAgain, [&] { return stop_ || !writes_.empty() || !used_.empty(); });
      if (stop_) return;
      std::swap(used, used_);
      if (!writes_.empty()) {
        job = writes_.front();
        writes_.pop_front();
      }
    }
    bool good = false;
    try {
      for (const auto& [key, depth] : used) ::utimensat(AT_FDCWD, path(key).c_str(), times_of_use(depth).data(), AT_SYMLINK_NOFOLLOW);
      if (job.from.empty()) {
        list_again();
        continue;
      }
      good = write_block(job);
    } catch (const std::exception&) {  // no memory for a name: it is not kept
    }
    if (!job.from.empty()) finish(job, good);
  }
}

/// A file for the block, whole or not there; 0 or what went wrong.
int DiskStore::create(const Job& job) const {
  const std::string file = path(job.key);
  std::string temporary = file + ".XXXXXX" + std::string(kTemporary);
  const Descriptor fd(::mkostemps(temporary.data(), static_cast<int>(kTemporary.size()), O_CLOEXEC));  // readable by the user alone
  if (fd.get() < 0) return errno;
  Header header = header_of(job.key, job.from);
  errno = ENOSPC;  // for a write that ends early without saying why
  if (!faults::due(faults::Point::disk_write) &&
      transfer(::pwritev, fd.get(), &header, const_cast<std::byte*>(job.from.data()), job.from.size()) &&
      ::futimens(fd.get(), times_of_use(job.depth).data()) == 0 && ::rename(temporary.c_str(), file.c_str()) == 0)
    return 0;
  const int error = errno;
  ::unlink(temporary.c_str());
  return error;
}

bool DiskStore::write_block(const Job& job) {
  const std::int64_t now = steady_seconds();
  if (now < paused_until_) return false;
  const auto bytes = static_cast<std::int64_t>(sizeof(Header) + job.from.size());
  if (room_ < bytes) make_room();
  if (room_ < bytes) {
    paused_until_ = std::max(paused_until_, now + 1);
    return false;
  }
  int error = create(job);
  if (error == ENOENT) {  // the folder was removed
    ::mkdir(options_.folder.c_str(), 0700);
    error = create(job);
  }
  if (error != 0) {
    paused_until_ = now + kPause;
    room_ = 0;
    errno = error;
    complain("blocks of the cache cannot be written for now");
    const std::lock_guard lock(mutex_);
    ++statistics_.write_errors;
    return false;
  }
  room_ -= bytes;
  const std::lock_guard lock(mutex_);
  statistics_.bytes += bytes;
  index_[job.key] = steady_seconds();
  return true;
}

/// Takes note of what other processes wrote and removed, if the folder has changed.
void DiskStore::list_again() {
  struct stat info{};
  const std::int64_t time =
      ::stat(options_.folder.c_str(), &info) == 0 ? std::int64_t(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec : 0;
  if (time == folder_time_) return;
  folder_time_ = time;
  std::unordered_set<BlockKey, BlockKeyHash> found;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(options_.folder, error), end; !error && entry != end && found.size() < kMostFiles;
       entry.increment(error))
    if (const auto key = key_of(entry->path().filename().native())) found.insert(*key);

  // Some at a time: a step may want the lock. No other thread adds to the index, so its buckets stay.
  constexpr std::size_t kAtOnce = 256;
  const std::int64_t unmarked = steady_seconds() - kMarkedFor;
  for (auto next = found.begin(); next != found.end();) {
    const std::lock_guard lock(mutex_);
    for (std::size_t n = 0; n < kAtOnce && next != found.end(); ++n) index_.try_emplace(*next++, unmarked);
  }
  std::vector<BlockKey> gone;
  for (std::size_t bucket = 0; bucket < index_.bucket_count();) {
    const std::lock_guard lock(mutex_);
    for (std::size_t n = 0; n < kAtOnce && bucket < index_.bucket_count(); ++n, ++bucket)
      for (auto entry = index_.begin(bucket); entry != index_.end(bucket); ++entry)
        if (!found.contains(entry->first)) gone.push_back(entry->first);
  }
  for (std::size_t i = 0; i < gone.size();) {
    const std::lock_guard lock(mutex_);
    for (std::size_t n = 0; n < kAtOnce && i < gone.size(); ++n, ++i) index_.erase(gone[i]);
  }
}

/// Counts what is in the folder, and removes the least recently used files when it is nearly full. Two processes that write stay within the
/// bound, since each counts again after a sixteenth of it.
void DiskStore::make_room() {
  struct File {
    std::string path;
    std::int64_t bytes, used;
  };
  const Descriptor lock(::open((options_.folder + "/" + std::string(kLock)).c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  const bool locked = lock.get() >= 0 && ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0;  // else another process does it just now
  std::vector<File> files;
  std::int64_t sum = 0, removed = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(options_.folder, error), end; !error && entry != end && files.size() < kMostFiles;
       entry.increment(error)) {
    const std::string file = entry->path().string();
    struct stat info{};
    if (::lstat(file.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    if (file.ends_with(kTemporary) && file.find(kEnding) != std::string::npos && info.st_mtime + kAbandoned < std::time(nullptr))
      ::unlink(file.c_str());
    if (!key_of(entry->path().filename().native())) continue;
    files.push_back({file, std::int64_t(info.st_size), std::int64_t(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec});
    sum += info.st_size;
  }
  const std::int64_t bound = options_.max_bytes / 8 * 7;
  if (locked && sum > bound - options_.max_bytes / 16) {
    std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.used < b.used; });
    for (const File& file : files) {
      if (sum <= bound - options_.max_bytes / 8) break;
      if (::unlink(file.path.c_str()) != 0) continue;
      sum -= file.bytes;
      ++removed;
    }
  }
  struct statvfs disk{};
  constexpr std::uint64_t kLeftFree = 20;  // of the disk, a twentieth is left to others
  const bool full = ::statvfs(options_.folder.c_str(), &disk) == 0 && disk.f_bavail < disk.f_blocks / kLeftFree;
  room_ = std::max(file_bytes_, options_.max_bytes / 16);
  if (full || sum >= bound || sum + room_ > options_.max_bytes) room_ = 0;
  if (full) {
    paused_until_ = steady_seconds() + kPause;
    errno = ENOSPC;
    complain("the disk is nearly full, so no blocks of the cache are written for now");
  }
  list_again();
  const std::lock_guard guard(mutex_);
  statistics_.bytes = sum;
  statistics_.blocks_removed += removed;
}

}  // namespace quern::kvcache
