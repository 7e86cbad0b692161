#include "formats/gguf/detail/parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/unaligned.h"
#include "formats/gguf/detail/layout.h"
#include "formats/gguf/types.h"

namespace quern::gguf::detail {
namespace {

// A place in the file that cannot be read past its end.
class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  std::uint64_t offset() const { return offset_; }
  std::uint64_t left() const { return bytes_.size() - offset_; }
  const std::byte* here() const { return bytes_.data() + offset_; }

  template <class... Args>
  Error corrupt(std::uint64_t offset, fmt::format_string<Args...> format, Args&&... args) const {
    return Error(Code::data_corrupt, fmt::format(format, std::forward<Args>(args)...)).at(path_, offset);
  }

  void need(std::uint64_t bytes, std::string_view what) const {
    if (bytes > left())
      throw corrupt(offset_, "the file ends inside {}: {} bytes are needed, {} are left", what, bytes, left())
          .hint("it may have been cut short: fetch it again");
  }

  const std::byte* take(std::uint64_t bytes, std::string_view what) {
    need(bytes, what);
    const std::byte* at = here();
    offset_ += bytes;
    return at;
  }

  template <class T>
  T number(std::string_view what) {
    return load<T>(take(sizeof(T), what));
  }

  std::string_view string(std::uint64_t max, std::string_view what) {
    const std::uint64_t start = offset_, length = number<std::uint64_t>(what);
    if (length > max) throw corrupt(start, "{} claims {} bytes; the limit is {}", what, length, max);
    return {reinterpret_cast<const char*>(take(length, what)), static_cast<std::size_t>(length)};
  }

  // A count of things of at least `bytes_each` bytes: a false one is refused before anything is allocated for it.
  std::uint64_t count(std::uint64_t max, std::uint64_t bytes_each, std::string_view what) {
    const std::uint64_t start = offset_, n = number<std::uint64_t>(what);
    if (n > max) throw corrupt(start, "the file claims {} {}; the limit is {}", n, what, max);
    return n <= bytes_.size() / bytes_each
               ? n
               : throw corrupt(start, "the file claims {} {}, more than its {} bytes can hold", n, what, bytes_.size());
  }

  const std::string& path() const { return path_; }

 private:
  std::span<const std::byte> bytes_;
  const std::string& path_;
  std::uint64_t offset_ = 0;
};

std::uint32_t read_version(Cursor& in) {
  const auto starts_with = [&](std::string_view text) {
    return in.left() >= text.size() && std::memcmp(in.here(), text.data(), text.size()) == 0;
  };
  if (!starts_with("GGUF")) {
    Error error(Code::data_corrupt, "is not a GGUF file");
    error.at(in.path(), 0);
    if (starts_with("version https://git-lfs")) error.hint("it is a Git LFS pointer: fetch the file itself with 'git lfs pull'");
    if (starts_with("lmgg") || starts_with("fmgg") || starts_with("tjgg"))
      error.hint("it is of the old GGML kind: convert the model again");
    throw error;
  }
  in.number<std::uint32_t>("the header");
  const auto version = in.number<std::uint32_t>("the header");
  const auto unsupported = [&](std::string message, std::string_view hint) {
    return Error(Code::unsupported, std::move(message)).at(in.path(), 4).hint(hint);
  };
  if ((version & 0xffff) == 0 && version != 0)
    throw unsupported("is a big-endian GGUF file; only little-endian files are read",
                      "convert the model again for a little-endian machine");
  if (version == 1) throw unsupported("is of GGUF version 1; versions 2 and 3 are read", "convert the model again");
  if (version != 2 && version != 3)
    throw unsupported(fmt::format("is of GGUF version {}; versions 2 and 3 are read", version), "a newer Quern may read it");
  return version;
}

// Passes over `count` elements, checking each length and boolean.
void skip_elements(Cursor& in, std::string_view key, ValueType type, std::uint64_t count) {
  const std::uint64_t width = *element_bytes(type);
  if (type == ValueType::string) {
    if (count > in.left() / 8)
      throw in.corrupt(in.offset(), "metadata {} claims {} strings, more than the file can hold", quoted(key), count);
    for (std::uint64_t i = 0; i < count; ++i) in.string(kMaxStringBytes, "a string of the metadata");
    return;
  }
  const auto bytes = multiply(count, width);
  if (!bytes || *bytes > in.left())
    throw in.corrupt(in.offset(), "metadata {} claims {} elements of {}, more than the file can hold", quoted(key), count, name(type));
  const std::uint64_t start = in.offset();
  const std::byte* data = in.take(*bytes, "the metadata");
  if (type == ValueType::boolean)
    for (std::uint64_t i = 0; i < count; ++i)
      if (data[i] > std::byte{1})
        throw in.corrupt(start + i, "metadata {} has the boolean {}; it is 0 or 1", quoted(key), static_cast<int>(data[i]));
}

ValueType read_value_type(Cursor& in, std::string_view key) {
  const std::uint64_t start = in.offset();
  const auto type = static_cast<ValueType>(in.number<std::uint32_t>("a metadata type"));
  if (!element_bytes(type)) throw in.corrupt(start, "metadata {} is of the unknown type {}", quoted(key), static_cast<std::uint32_t>(type));
  return type;
}

Value read_value(Cursor& in) {
  const std::byte* entry = in.here();
  const std::uint64_t start = in.offset();
  const std::string_view key = in.string(kMaxKeyBytes, "a metadata key");
  if (key.empty()) throw in.corrupt(start, "a metadata key is empty");
  ValueType type = read_value_type(in, key);
  std::uint64_t size = 1;
  if (type == ValueType::array) {
    type = read_value_type(in, key);
    if (type == ValueType::array)
      throw Error(Code::unsupported, fmt::format("metadata {} is an array of arrays", quoted(key))).at(in.path(), in.offset() - 4);
    size = in.number<std::uint64_t>("an array's length");
  }
  skip_elements(in, key, type, size);
  return Value(entry);
}

std::uint64_t read_alignment(const Cursor& in, std::span<const Value> metadata) {
  const auto found = std::find_if(metadata.begin(), metadata.end(), [](const Value& v) { return v.key() == kAlignmentKey; });
  if (found == metadata.end()) return kDefaultAlignment;
  if (found->is_array() || found->element_type() != ValueType::u32)
    throw Error(Code::data_corrupt, fmt::format("'{}' is {}, where u32 is expected", kAlignmentKey, found->text())).at(in.path());
  const auto alignment = found->get<std::uint32_t>();
  if (!is_power_of_two(alignment) || alignment < kMinAlignment)
    throw Error(Code::data_corrupt,
                fmt::format("'{}' is {}; it is a power of two and at least {}", kAlignmentKey, alignment, kMinAlignment))
        .at(in.path());
  return alignment;
}

ir::DType read_type(Cursor& in, std::string_view name) {
  const std::uint64_t start = in.offset();
  const auto number = in.number<std::uint32_t>("a tensor's type");
  if (const auto type = dtype_from_gguf(number)) return *type;
  constexpr std::uint32_t kDropped[] = {4, 5, 31, 32, 33, 36, 37, 38};  // q4_2, q4_3 and the repacked q4_0 and iq4_nl
  const bool dropped = std::find(std::begin(kDropped), std::end(kDropped), number) != std::end(kDropped);
  throw Error(Code::unsupported, fmt::format("tensor {} is of type {}, which {}", quoted(name), number,
                                             dropped ? "was dropped from the format" : "is not known"))
      .at(in.path(), start)
      .hint(dropped ? "convert the model again" : "a newer Quern may read it");
}

std::string_view read_name(Cursor& in) {
  const std::uint64_t start = in.offset();
  const std::string_view name = in.string(kMaxTensorNameBytes, "a tensor's name");
  if (name.empty()) throw in.corrupt(start, "a tensor's name is empty");
  return name;
}

std::uint32_t read_rank(Cursor& in, std::string_view name) {
  const auto rank = in.number<std::uint32_t>("a tensor's rank");
  if (rank > kMaxDims) throw in.corrupt(in.offset() - 4, "tensor {} has {} dimensions; the limit is {}", quoted(name), rank, kMaxDims);
  return rank;
}

// Passes over a tensor's entry: where the data starts is known only behind the last one.
void skip_tensor(Cursor& in) {
  const std::string_view name = read_name(in);
  in.take(8 * std::uint64_t{read_rank(in, name)} + 4 + 8, "a tensor's entry");
}

// Reads the dimensions and type; the bytes they ask for.
std::uint64_t read_shape(Cursor& in, Tensor& t) {
  const std::uint64_t start = in.offset();
  t.rank = static_cast<std::uint8_t>(read_rank(in, t.name));
  t.dims.fill(1);
  std::uint64_t elements = 1;
  for (std::uint32_t d = 0; d < t.rank; ++d) {
    const auto dim = in.number<std::uint64_t>("a tensor's dimensions");
    const auto product = multiply(elements, dim);
    if (dim == 0 || !product || *product > std::uint64_t(std::numeric_limits<std::int64_t>::max()))
      throw in.corrupt(in.offset() - 8, "dimension {} of tensor {} is {}", d, quoted(t.name), dim);
    t.dims[d] = static_cast<std::int64_t>(dim);
    elements = *product;
  }
  t.type = read_type(in, t.name);
  const auto block = static_cast<std::uint64_t>(ir::block_elements(t.type));
  if (static_cast<std::uint64_t>(t.dims[0]) % block != 0)
    throw in.corrupt(start, "tensor {} has rows of {} elements, which are not whole blocks of {} ({} elements each)", quoted(t.name),
                     t.dims[0], ir::name(t.type), block);
  const auto bytes = multiply(elements / block, static_cast<std::uint64_t>(ir::block_bytes(t.type)));
  if (!bytes) throw in.corrupt(start, "the size of tensor {} overflows 64 bits", quoted(t.name));
  return *bytes;
}

Tensor read_tensor(Cursor& in, std::span<const std::byte> data, std::uint64_t alignment) {
  Tensor t;
  t.name = read_name(in);
  const std::uint64_t bytes = read_shape(in, t), start = in.offset();
  const auto offset = in.number<std::uint64_t>("a tensor's offset");
  if (offset % alignment != 0)
    throw in.corrupt(start, "the bytes of tensor {} are at offset {}, which is not a multiple of the alignment {}", quoted(t.name), offset,
                     alignment);
  const auto end = add(offset, bytes);
  if (!end || *end > data.size())
    throw in.corrupt(start, "tensor {} needs {} bytes from offset {} of the data, past the end of the file", quoted(t.name), bytes, offset)
        .hint("it may have been cut short: fetch it again");
  t.data = data.subspan(offset, bytes);
  return t;
}

void check_overlap(const Cursor& in, const std::vector<Tensor>& tensors) {
  std::vector<std::uint32_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return tensors[a].data.data() < tensors[b].data.data(); });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const Tensor &a = tensors[order[i - 1]], &b = tensors[order[i]];
    if (a.data.data() + a.data.size() > b.data.data())
      throw Error(Code::data_corrupt, fmt::format("the bytes of tensors {} and {} overlap", quoted(a.name), quoted(b.name))).at(in.path());
  }
}

}  // namespace

Parsed parse(std::span<const std::byte> bytes, const std::string& path) {
  Cursor in(bytes, path);
  Parsed out;
  out.version = read_version(in);
  constexpr std::uint64_t kLeastTensorBytes = 8 + 1 + 4 + 4 + 8, kLeastEntryBytes = 8 + 1 + 4 + 1;
  const std::uint64_t tensors = in.count(kMaxTensors, kLeastTensorBytes, "tensors");
  const std::uint64_t keys = in.count(kMaxKeys, kLeastEntryBytes, "metadata keys");

  out.metadata.reserve(keys);
  for (std::uint64_t i = 0; i < keys; ++i) out.metadata.push_back(read_value(in));
  const std::uint64_t alignment = read_alignment(in, out.metadata);

  Cursor again = in;
  for (std::uint64_t i = 0; i < tensors; ++i) skip_tensor(in);
  const std::uint64_t data_start = align_up(in.offset(), alignment).value_or(bytes.size());
  const auto data = bytes.subspan(std::min<std::uint64_t>(data_start, bytes.size()));
  out.tensors.reserve(tensors);
  for (std::uint64_t i = 0; i < tensors; ++i) out.tensors.push_back(read_tensor(again, data, alignment));
  check_overlap(in, out.tensors);
  return out;
}

}  // namespace quern::gguf::detail
