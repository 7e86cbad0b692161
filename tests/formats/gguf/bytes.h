#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quern::gguf::testing {

/// Bytes of a file made by hand, so that every field can lie. The vector is aligned to 16.
struct Bytes {
  std::vector<std::byte> data;

  template <class T>
  Bytes& put(T number) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&number);
    data.insert(data.end(), bytes, bytes + sizeof number);
    return *this;
  }
  Bytes& u32(std::uint32_t n) { return put(n); }
  Bytes& u64(std::uint64_t n) { return put(n); }
  Bytes& raw(std::string_view text) {
    for (char c : text) data.push_back(static_cast<std::byte>(c));
    return *this;
  }
  Bytes& string(std::string_view text) { return u64(text.size()).raw(text); }
  Bytes& header(std::uint64_t tensors, std::uint64_t keys, std::uint32_t version = 3) {
    return raw("GGUF").u32(version).u64(tensors).u64(keys);
  }
  /// An entry of a tensor: dims fastest first.
  Bytes& tensor(std::string_view name, const std::vector<std::uint64_t>& dims, std::uint32_t type, std::uint64_t offset) {
    string(name).u32(static_cast<std::uint32_t>(dims.size()));
    for (std::uint64_t d : dims) u64(d);
    return u32(type).u64(offset);
  }
  Bytes& pad(std::size_t alignment = 32) {
    while (data.size() % alignment != 0) data.push_back(std::byte{0});
    return *this;
  }
  Bytes& zeros(std::size_t n) {
    data.resize(data.size() + n);
    return *this;
  }
};

inline std::string data_path(const std::string& name) { return std::string(QUERN_SOURCE_DIR) + "/tests/formats/gguf/data/" + name; }

inline std::vector<std::byte> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return {bytes, bytes + text.size()};
}

inline void write_file(const std::string& path, std::span<const std::byte> bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

/// A directory that is removed with its contents at the end of the test.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "quern-gguf-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace quern::gguf::testing
