#pragma once

#include <cstddef>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace quern {

/// Fresh memory of whole pages, huge ones where the system has them, all zero and taken only as it is touched. For what is large and read
/// from end to end: on pages of 4 KiB a token that reads all weights once spends as long on address translation as on the weights
/// (measured in a virtual machine: 11 and 22 GB/s). Begins at a huge page.
class PageMemory {
 public:
  PageMemory() = default;
  /// Errors: resource_exhausted, "no memory for <bytes> bytes of <what>" with the hint.
  PageMemory(std::size_t bytes, const char* what, const char* hint);
  ~PageMemory();
  PageMemory(PageMemory&& other) noexcept { swap(other); }
  PageMemory& operator=(PageMemory&& other) noexcept {
    swap(other);
    return *this;
  }

  std::byte* data() const { return data_; }

  static constexpr std::size_t kHugePage = std::size_t{2} << 20;

 private:
  void swap(PageMemory& other) noexcept {
    std::swap(mapped_, other.mapped_);
    std::swap(mapped_bytes_, other.mapped_bytes_);
    std::swap(data_, other.data_);
  }

  void* mapped_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  std::byte* data_ = nullptr;
};

namespace detail {
/// Pages for what is large, huge where the system has them and they are at least half used. Errors: std::bad_alloc.
void* take_pages(std::size_t bytes);
void give_pages(void* pages, std::size_t bytes);
}  // namespace detail

/// For containers that hold megabytes and are looked up at random, or live briefly: with pages of 4 KiB the faults of a fresh array, and
/// the address translation of a large table, take as long as the work itself. What is small comes from the heap.
template <class T>
class PageAllocator {
 public:
  using value_type = T;

  PageAllocator() = default;
  template <class U>
  PageAllocator(const PageAllocator<U>&) {}  // NOLINT(google-explicit-constructor): what containers rebind by

  T* allocate(std::size_t count) {
    if (count > static_cast<std::size_t>(-1) / sizeof(T)) throw std::bad_alloc();
    return static_cast<T*>(is_large(count) ? detail::take_pages(count * sizeof(T)) : ::operator new(count * sizeof(T)));
  }
  void deallocate(T* at, std::size_t count) { is_large(count) ? detail::give_pages(at, count * sizeof(T)) : ::operator delete(at); }
  friend bool operator==(const PageAllocator&, const PageAllocator&) { return true; }

 private:
  static bool is_large(std::size_t count) { return count * sizeof(T) >= PageMemory::kHugePage / 2; }
};

template <class T>
using PageVector = std::vector<T, PageAllocator<T>>;
using PageString = std::basic_string<char, std::char_traits<char>, PageAllocator<char>>;

}  // namespace quern
