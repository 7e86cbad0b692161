#include "formats/gguf/writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "base/unaligned.h"
#include "formats/gguf/detail/layout.h"
#include "formats/gguf/types.h"

namespace quern::gguf {
namespace {

using detail::quoted;

template <class T>
void append(std::vector<std::byte>& out, T number) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&number);
  out.insert(out.end(), bytes, bytes + sizeof number);
}

void append(std::vector<std::byte>& out, std::string_view text) {
  append(out, std::uint64_t{text.size()});
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  out.insert(out.end(), bytes, bytes + text.size());
}

void check(bool good, const std::string& message) {
  if (!good) throw Error(Code::invalid_argument, message);
}

// A file under a name of its own, which disappears unless it is renamed at the end.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& path) : path_(path), temporary_(path + ".tmp" + std::to_string(::getpid())) {
    file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (file_ < 0) fail("create");
  }
  ~TemporaryFile() {
    if (file_ >= 0) ::close(file_);
    if (!renamed_) ::unlink(temporary_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  std::uint64_t written() const { return written_; }

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(file_, bytes.data(), std::min<std::size_t>(bytes.size(), 1u << 30));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail("write");
      written_ += static_cast<std::uint64_t>(n);
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
  }

  void pad(std::uint64_t alignment) {
    const std::uint64_t target = (written_ + alignment - 1) & ~(alignment - 1);
    constexpr std::byte kZeros[64] = {};
    while (written_ < target) write(std::span(kZeros).first(std::min<std::uint64_t>(target - written_, sizeof kZeros)));
  }

  void rename() {
    if (::fsync(file_) != 0) fail("write");
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("rename");
    renamed_ = true;
  }

 private:
  [[noreturn]] void fail(std::string_view verb) const {
    const int error = errno;
    const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
    throw Error(full ? Code::resource_exhausted : Code::invalid_argument, fmt::format("cannot {} the file: {}", verb, std::strerror(error)))
        .at(path_);
  }

  std::string path_, temporary_;
  int file_ = -1;
  bool renamed_ = false;
  std::uint64_t written_ = 0;
};

}  // namespace

std::vector<std::byte> Writer::string_bytes(std::span<const std::string_view> strings) {
  std::vector<std::byte> out;
  for (std::string_view text : strings) {
    check(text.size() <= detail::kMaxStringBytes,
          fmt::format("a string of {} bytes is over the limit of {}", text.size(), detail::kMaxStringBytes));
    append(out, text);
  }
  return out;
}

void Writer::entry(std::string_view key, ValueType type, bool is_array, std::uint64_t size, std::span<const std::byte> bytes) {
  check(!key.empty() && key.size() <= detail::kMaxKeyBytes, fmt::format("a metadata key of {} bytes", key.size()));
  check(!keys_.contains(key), fmt::format("metadata {} is given twice", quoted(key)));
  check(keys_.size() < detail::kMaxKeys, fmt::format("more than {} metadata keys", detail::kMaxKeys));
  if (key == detail::kAlignmentKey) {
    check(type == ValueType::u32 && !is_array, fmt::format("'{}' must be u32", key));
    const auto alignment = load<std::uint32_t>(bytes.data());
    check(detail::is_power_of_two(alignment) && alignment >= detail::kMinAlignment,
          fmt::format("'{}' is {}; it must be a power of two and at least {}", key, alignment, detail::kMinAlignment));
    alignment_ = alignment;
  }
  keys_.emplace(key);
  append(metadata_, key);
  append(metadata_, is_array ? ValueType::array : type);
  if (is_array) {
    append(metadata_, type);
    append(metadata_, size);
  }
  metadata_.insert(metadata_.end(), bytes.begin(), bytes.end());
}

void Writer::copy(const Value& value) { entry(value.key(), value.element_type(), value.is_array(), value.size(), value.bytes()); }

void Writer::add_tensor(std::string_view name, ir::DType type, std::span<const std::int64_t> shape, std::span<const std::byte> data) {
  add_tensor(name, type, shape, Source([data] { return data; }));
}

void Writer::add_tensor(std::string_view name, ir::DType type, std::span<const std::int64_t> shape, Source source) {
  const auto number = gguf_type(type);
  check(number.has_value(), fmt::format("tensor {} is of type {}, which GGUF has not", quoted(name), ir::name(type)));
  check(!name.empty() && name.size() <= detail::kMaxTensorNameBytes,
        fmt::format("tensor {} has a name of {} bytes", quoted(name), name.size()));
  check(!names_.contains(name), fmt::format("tensor {} is given twice", quoted(name)));
  check(tensors_.size() < detail::kMaxTensors, fmt::format("more than {} tensors", detail::kMaxTensors));
  check(shape.size() <= detail::kMaxDims,
        fmt::format("tensor {} has {} dimensions; the limit is {}", quoted(name), shape.size(), detail::kMaxDims));
  std::uint64_t elements = 1;
  for (const std::int64_t dim : shape) {
    const auto product = dim < 1 ? std::nullopt : detail::multiply(elements, static_cast<std::uint64_t>(dim));
    check(product && *product <= std::uint64_t(std::numeric_limits<std::int64_t>::max()),
          fmt::format("tensor {} has a dimension {}", quoted(name), dim));
    elements = *product;
  }
  const auto block = static_cast<std::uint64_t>(ir::block_elements(type));
  check((shape.empty() ? 1u : static_cast<std::uint64_t>(shape.back())) % block == 0,
        fmt::format("the rows of tensor {} are not whole blocks of {}", quoted(name), ir::name(type)));
  const auto bytes = detail::multiply(elements / block, static_cast<std::uint64_t>(ir::block_bytes(type)));
  check(bytes.has_value(), fmt::format("the size of tensor {} overflows 64 bits", quoted(name)));

  names_.emplace(name);
  append(infos_, name);
  append(infos_, static_cast<std::uint32_t>(shape.size()));
  std::for_each(shape.rbegin(), shape.rend(), [&](std::int64_t dim) { append(infos_, dim); });
  append(infos_, *number);
  offsets_.push_back(infos_.size());
  append(infos_, std::uint64_t{0});
  tensors_.push_back({std::string(name), *bytes, std::move(source)});
}

void Writer::write(const std::string& path) const {
  std::vector<std::byte> infos = infos_;
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    std::memcpy(infos.data() + offsets_[i], &offset, sizeof offset);
    const auto end = detail::add(offset, tensors_[i].bytes);
    const auto next = end ? detail::align_up(*end, alignment_) : std::nullopt;
    check(next.has_value(), "the tensors together overflow 64 bits");
    offset = *next;
  }

  std::vector<std::byte> header;
  append(header, detail::kMagic);
  append(header, detail::kVersion);
  append(header, std::uint64_t{tensors_.size()});
  append(header, std::uint64_t{keys_.size()});

  TemporaryFile file(path);
  file.write(header);
  file.write(metadata_);
  file.write(infos);
  file.pad(alignment_);
  for (const Planned& t : tensors_) {
    const std::span<const std::byte> data = t.source();
    check(data.size() == t.bytes, fmt::format("tensor {} has {} bytes, where its shape asks for {}", quoted(t.name), data.size(), t.bytes));
    file.write(data);
    file.pad(alignment_);
  }
  file.rename();
}

}  // namespace quern::gguf
