#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <utility>

#include "base/error.h"

namespace quern {

namespace {

std::string identity_of(const struct stat& info) {
  constexpr std::time_t kYoung = 2;  // the coarsest clock of a file system in use
  if (std::max(info.st_mtim.tv_sec, info.st_ctim.tv_sec) + kYoung > std::time(nullptr)) return "";
  std::string text;
  for (const auto number : {std::int64_t(info.st_size), std::int64_t(info.st_ino), std::int64_t(info.st_mtim.tv_sec),
                            std::int64_t(info.st_mtim.tv_nsec), std::int64_t(info.st_ctim.tv_sec), std::int64_t(info.st_ctim.tv_nsec)})
    text += std::to_string(number) + " ";
  return text;
}

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a FIFO would wait for a writer
  if (fd < 0) {
    const Code code = errno == ENOENT || errno == ENOTDIR ? Code::not_found : Code::invalid_argument;
    throw Error(code, std::string("cannot open the file: ") + std::strerror(errno)).at(path);
  }
  struct stat info{};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    throw Error(Code::not_found, S_ISDIR(info.st_mode) ? "is a directory, not a file" : "is not a regular file").at(path);
  }
  size_ = static_cast<std::size_t>(info.st_size);
  identity_ = identity_of(info);
  if (size_ > 0) {
    void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
    if (address == MAP_FAILED) {
      const int error = errno;
      ::close(fd);
      throw Error(Code::invalid_argument, std::string("cannot map the file: ") + std::strerror(error)).at(path);
    }
    data_ = static_cast<const std::byte*>(address);
  }
  ::close(fd);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      identity_(std::move(other.identity_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(identity_, other.identity_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void release_pages(std::span<const std::byte> bytes) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<std::uintptr_t>(bytes.data()) + page - 1) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(bytes.data() + bytes.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace quern
