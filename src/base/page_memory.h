#pragma once

#include <cstddef>
#include <utility>

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

}  // namespace quern
