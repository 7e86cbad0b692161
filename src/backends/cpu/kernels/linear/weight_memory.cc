#include "backends/cpu/kernels/linear/weight_memory.h"

#include <algorithm>
#include <mutex>

#include "base/page_memory.h"

namespace quern::cpu {
namespace {

constexpr std::size_t kChunk = std::size_t{16} << 20;  // what is not used of a chunk is never touched, so it costs no memory

std::shared_ptr<PageMemory> pages(std::size_t bytes) {
  return std::make_shared<PageMemory>(bytes, "packed weights", "use a smaller model");
}

std::shared_ptr<std::uint8_t[]> part(const std::shared_ptr<PageMemory>& chunk, std::size_t offset) {
  return {chunk, reinterpret_cast<std::uint8_t*>(chunk->data()) + offset};
}

}  // namespace

std::shared_ptr<std::uint8_t[]> allocate_weights(std::size_t bytes) {
  static std::mutex mutex;
  static std::weak_ptr<PageMemory> current;  // the chunk that still has room; its owners are the weights in it
  static std::size_t used = 0;

  if (bytes > kChunk / 2) return part(pages(bytes), 0);
  const std::size_t size = (std::max<std::size_t>(bytes, 1) + 63) / 64 * 64;
  const std::lock_guard lock(mutex);
  std::shared_ptr<PageMemory> chunk = current.lock();
  if (!chunk || kChunk - used < size) {
    chunk = pages(kChunk);
    current = chunk;
    used = 0;
  }
  used += size;
  return part(chunk, used - size);
}

}  // namespace quern::cpu
