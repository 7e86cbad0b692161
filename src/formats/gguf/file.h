#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/gguf/value.h"
#include "ir/dtype.h"

namespace quern::gguf {

/// One tensor of the file. `name` and `data` point into the file and live as long as the File.
struct Tensor {
  std::string_view name;
  ir::DType type = ir::DType::f32;
  std::uint8_t rank = 0;               // number of dimensions, 0 (a scalar) to 4
  std::array<std::int64_t, 4> dims{};  // as the file has them: the fastest dimension FIRST; those past `rank` are 1
  std::span<const std::byte> data;     // exactly the tensor's bytes, aligned to 8 or more

  /// The dimensions as Quern's IR writes them: row-major, the fastest dimension LAST. A weight of `out` rows of `in` is [out, in].
  std::vector<std::int64_t> shape() const { return {dims.rend() - rank, dims.rend()}; }
  std::int64_t elements() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
};

/// A GGUF file (version 2 or 3, little-endian), mapped into memory and checked from end to end before anything of it is given out: no
/// count, offset, length, string or shape is trusted. Opening costs one pass over the metadata; tensor bytes are not touched (and are any
/// bytes: scales may be NaN). Beside the mapping it allocates at most about the bytes of the header, and a few MB at the very most.
/// Movable, not copyable; const members may be called from many threads.
class File {
 public:
  /// Opens a file, or all the files of a model that was split: given any of NAME-00001-of-0000N.gguf it opens all N and shows one model:
  /// the metadata of the first part and the tensors of all. Errors: not_found (no such file, or a part is missing), data_corrupt (with path
  /// and offset), unsupported (version 1 or a future one, big-endian, a tensor type that the format has dropped or that we do not know).
  static File open(const std::string& path);
  /// The same over bytes in memory, borrowed for the life of the File and aligned to 8; `name` stands for the path in errors. Parts of a
  /// split model cannot be opened so.
  static File over(std::span<const std::byte> bytes, std::string name);

  ~File();
  File(File&&) noexcept;
  File& operator=(File&&) noexcept;

  const std::string& path() const;
  std::uint32_t version() const;
  std::size_t parts() const;
  /// Size of the file, of all parts together.
  std::uint64_t bytes() const;
  /// MappedFile::identity() of all parts; empty when one has none, or the bytes are no file's.
  std::string identity() const;
  /// As identity(), but where there is none, a checksum of all bytes: for a name that must not be missing.
  std::string fingerprint() const;
  /// Gives back the memory of all mapped pages; what is read again comes from the file again.
  void release_pages() const;

  /// Metadata in the order of the file, also keys nobody knows.
  std::span<const Value> metadata() const;
  /// Null when there is no such key.
  const Value* find(std::string_view key) const;

  /// Metadata that must be there. Errors: data_corrupt (missing; of another type; out of T's range), naming file and key.
  template <Readable T>
  T get(std::string_view key) const {
    return read(require(key), [](const Value& v) { return v.get<T>(); });
  }
  /// Metadata that may be missing (but not of another type).
  template <Readable T>
  T get(std::string_view key, T otherwise) const {
    const Value* value = find(key);
    return value ? read(*value, [](const Value& v) { return v.get<T>(); }) : std::move(otherwise);
  }
  /// An array that must be there. Strings as string_view point into the file.
  template <Readable T, class Container = std::vector<T>>
  Container array(std::string_view key) const {
    return read(require(key), [](const Value& v) { return v.array<T, Container>(); });
  }

  /// Tensors in the order of the file (of the parts).
  std::span<const Tensor> tensors() const;
  /// Null when there is no such tensor.
  const Tensor* find_tensor(std::string_view name) const;
  /// Errors: data_corrupt when the file has no such tensor.
  const Tensor& tensor(std::string_view name) const;

 private:
  struct State;
  explicit File(std::unique_ptr<State> state);

  const Value& require(std::string_view key) const;
  [[noreturn]] void rethrow_with_path() const;  // called inside a handler
  template <class F>
  auto read(const Value& value, F f) const {
    try {
      return f(value);
    } catch (...) {
      rethrow_with_path();
    }
  }

  std::unique_ptr<State> state_;
};

}  // namespace quern::gguf
