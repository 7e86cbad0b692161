#include "base/page_memory.h"

#include <sys/mman.h>

#include <cstdint>
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

}  // namespace quern
