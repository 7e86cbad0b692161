#include "allocation_peak.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

namespace {

std::atomic<long long> in_use{0}, most{0};

void* counted(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  const long long now = in_use += static_cast<long long>(malloc_usable_size(memory));
  long long seen = most;
  while (now > seen && !most.compare_exchange_weak(seen, now)) {
  }
  return memory;
}

void release(void* memory) {
  if (memory != nullptr) in_use -= static_cast<long long>(malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t size) { return counted(std::malloc(std::max<std::size_t>(size, 1))); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  const auto a = static_cast<std::size_t>(alignment);
  return counted(std::aligned_alloc(a, (std::max<std::size_t>(size, 1) + a - 1) / a * a));
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }

namespace quern::gguf::testing {

AllocationPeak::AllocationPeak() : start_(in_use) { most = start_; }
std::size_t AllocationPeak::bytes() const { return static_cast<std::size_t>(std::max(0LL, most.load() - start_)); }

TEST(AllocationPeak, sees_the_most_that_was_in_use_at_once) {
  const AllocationPeak peak;
  for (int i = 0; i < 3; ++i) std::vector<char>(100000, 'x');
  EXPECT_GE(peak.bytes(), 100000u);
  EXPECT_LT(peak.bytes(), 200000u);
}

}  // namespace quern::gguf::testing
