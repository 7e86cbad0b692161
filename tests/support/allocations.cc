// Stands in front of glibc's allocator and counts. For test programs that link it.
#include "support/allocations.h"

#include <atomic>
#include <cerrno>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define QUERN_TEST_SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define QUERN_TEST_SANITIZED
#endif

namespace {
std::atomic<std::size_t> count{0};
}

namespace quern::testing {
std::size_t allocations() { return count.load(); }
#ifdef QUERN_TEST_SANITIZED
bool counts_allocations() { return false; }
#else
bool counts_allocations() { return true; }
#endif
}  // namespace quern::testing

#ifndef QUERN_TEST_SANITIZED
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t size) {
  ++count;
  return __libc_malloc(size);
}
void* calloc(std::size_t n, std::size_t size) {
  ++count;
  return __libc_calloc(n, size);
}
void* realloc(void* p, std::size_t size) {
  ++count;
  return __libc_realloc(p, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  ++count;
  return __libc_memalign(alignment, size);
}
void* memalign(std::size_t alignment, std::size_t size) {
  ++count;
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** p, std::size_t alignment, std::size_t size) {
  ++count;
  *p = __libc_memalign(alignment, size);
  return *p == nullptr ? ENOMEM : 0;
}
}
#endif
