#include "backends/cpu/kernels/linear/weight_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <mutex>
#include <string>

#include "base/error.h"

namespace quern::cpu {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kChunk = std::size_t{16} << 20;  // what is not used of a chunk is never touched, so it costs no memory

/// Whole huge pages of fresh memory.
class Chunk {
 public:
  explicit Chunk(std::size_t bytes) : size_(bytes + kHugePage) {
    void* p = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
      throw Error(Code::resource_exhausted, "no memory for " + std::to_string(bytes) + " bytes of packed weights")
          .hint("use a smaller model");
    mapped_ = static_cast<std::uint8_t*>(p);
    begin_ = mapped_ + (kHugePage - reinterpret_cast<std::uintptr_t>(mapped_) % kHugePage) % kHugePage;
    madvise(begin_, bytes, MADV_HUGEPAGE);
  }
  ~Chunk() { munmap(mapped_, size_); }
  Chunk(const Chunk&) = delete;
  Chunk& operator=(const Chunk&) = delete;

  std::uint8_t* begin() const { return begin_; }

 private:
  std::size_t size_;
  std::uint8_t *mapped_, *begin_;
};

std::shared_ptr<std::uint8_t[]> part(const std::shared_ptr<Chunk>& chunk, std::size_t offset) { return {chunk, chunk->begin() + offset}; }

}  // namespace

std::shared_ptr<std::uint8_t[]> allocate_weights(std::size_t bytes) {
  static std::mutex mutex;
  static std::weak_ptr<Chunk> current;  // the chunk that still has room; its owners are the weights in it
  static std::size_t used = 0;

  if (bytes > SIZE_MAX - 2 * kHugePage) throw Error(Code::resource_exhausted, "no memory for so many packed weights");
  const std::size_t size = (std::max<std::size_t>(bytes, 1) + 63) / 64 * 64;
  if (size > kChunk / 2) return part(std::make_shared<Chunk>((size + kHugePage - 1) / kHugePage * kHugePage), 0);
  const std::lock_guard lock(mutex);
  std::shared_ptr<Chunk> chunk = current.lock();
  if (!chunk || kChunk - used < size) {
    chunk = std::make_shared<Chunk>(kChunk);
    current = chunk;
    used = 0;
  }
  used += size;
  return part(chunk, used - size);
}

}  // namespace quern::cpu
