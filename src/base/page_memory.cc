#include "base/page_memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>
#include <string>

#include "base/error.h"

namespace quern {

PageMemory::PageMemory(std::size_t bytes, const char* what, const char* hint) {
  void* mapped = MAP_FAILED;
  if (bytes <= SIZE_MAX - kHugePage)
    mapped = ::mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED)
    throw Error(Code::resource_exhausted, "no memory for " + std::to_string(bytes) + " bytes of " + what).hint(hint);
  mapped_ = mapped;
  mapped_bytes_ = bytes + kHugePage;
  data_ = static_cast<std::byte*>(mapped) + (kHugePage - reinterpret_cast<std::uintptr_t>(mapped) % kHugePage) % kHugePage;
  if (bytes > 0) ::madvise(data_, bytes, MADV_HUGEPAGE);  // a system without them refuses, and nothing is lost
}

PageMemory::~PageMemory() {
  if (mapped_ != nullptr) ::munmap(mapped_, mapped_bytes_);
}

namespace detail {
namespace {

/// What a piece of `bytes` takes: all but a last huge page that would be less than half used, of which only the pages of 4 KiB.
std::size_t mapped_size(std::size_t bytes) {
  constexpr std::size_t kPage = 4096, kHuge = PageMemory::kHugePage;
  const std::size_t last = bytes % kHuge;
  return bytes - last + (last >= kHuge / 2 ? kHuge : (last + kPage - 1) / kPage * kPage);
}

}  // namespace

void* take_pages(std::size_t bytes) {
  constexpr std::size_t kHuge = PageMemory::kHugePage;
  if (bytes > SIZE_MAX / 2) throw std::bad_alloc();
  const std::size_t size = mapped_size(bytes);
  void* const mapped = ::mmap(nullptr, size + kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  auto* const at = static_cast<std::byte*>(mapped);
  const std::size_t before = (kHuge - reinterpret_cast<std::uintptr_t>(mapped) % kHuge) % kHuge;
  if (before > 0) ::munmap(at, before);
  ::munmap(at + before + size, kHuge - before);
  ::madvise(at + before, size, MADV_HUGEPAGE);  // a system without them refuses, and nothing is lost
  return at + before;
}

void give_pages(void* pages, std::size_t bytes) { ::munmap(pages, mapped_size(bytes)); }

}  // namespace detail
}  // namespace quern
