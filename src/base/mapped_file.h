#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace quern {

/// A whole file mapped read-only into memory; pages are read from disk when first touched. Movable, not copyable.
/// A file that another process shortens while it is mapped raises SIGBUS on access, as with every mapped file.
class MappedFile {
 public:
  /// Errors: not_found (no such file, or a directory), invalid_argument (cannot be opened or mapped).
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }
  /// Tells this file with these contents from all others: size, inode, and the times of the last change of its bytes and of its inode,
  /// which nobody can set back. Empty while the last change is so young (two seconds) that another could bear the same time.
  const std::string& identity() const { return identity_; }

 private:
  std::string path_, identity_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Lets the operating system take back the memory of whole pages in `bytes`, which must lie in a MappedFile: they are read again from disk
/// when next touched. For weights that have been copied into another layout.
void release_pages(std::span<const std::byte> bytes);

}  // namespace quern
