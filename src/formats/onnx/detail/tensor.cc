#include "formats/onnx/detail/tensor.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <utility>

namespace quern::onnx {
namespace {

using ir::DType;
namespace fs = std::filesystem;

/// The field of TensorProto that holds numbers of a type when they are not raw.
std::uint32_t typed_field(DType type) {
  switch (type) {
    case DType::f32: return 4;   // float_data
    case DType::i64: return 7;   // int64_data
    case DType::f64: return 10;  // double_data
    case DType::u32:
    case DType::u64: return 11;  // uint64_data
    default: return 5;           // int32_data: small integers, booleans, and the bits of halves
  }
}

/// Appends to memory whose size the shape has fixed; one number too many is an error, not a larger buffer.
class Filler {
 public:
  Filler(const wire::Source& source, const TensorProto& tensor, std::vector<std::byte>& out, std::size_t element)
      : source_(source), tensor_(tensor), out_(out), element_(element) {}

  template <class T>
  void add(T value) {  // little-endian: the low bytes are the narrower number
    static_assert(sizeof(T) >= 4);
    if (at_ + element_ > out_.size())
      source_.corrupt("tensor '" + std::string(tensor_.name) + "' has more numbers than its shape asks for", tensor_.body.data());
    std::memcpy(out_.data() + at_, &value, element_);
    at_ += element_;
  }
  void finish() const {
    if (at_ != out_.size())
      source_.corrupt("tensor '" + std::string(tensor_.name) + "' has " + std::to_string(at_ / element_) +
                          " numbers where its shape asks for " + std::to_string(out_.size() / element_),
                      tensor_.body.data());
  }

 private:
  const wire::Source& source_;
  const TensorProto& tensor_;
  std::vector<std::byte>& out_;
  std::size_t element_, at_ = 0;
};

std::shared_ptr<std::vector<std::byte>> decode_fields(const wire::Source& source, const TensorProto& tensor, DType type,
                                                      std::size_t bytes) {
  // A number takes at least a byte of the file, so a file cannot ask for more than eight times its size.
  const auto element = static_cast<std::size_t>(ir::block_bytes(type));
  if (bytes / element > tensor.body.size())
    source.corrupt("tensor '" + std::string(tensor.name) + "' has fewer numbers than its shape asks for", tensor.body.data());
  auto out = std::make_shared<std::vector<std::byte>>(bytes);
  Filler filler(source, tensor, *out, element);
  const std::uint32_t wanted = typed_field(type);
  wire::Field f;
  for (wire::Reader reader(source, tensor.body); reader.next(f);) {
    if (f.number != wanted) continue;
    if (type == DType::f32) {
      f.floats([&](float v) { filler.add(v); });
    } else if (type == DType::f64) {
      f.doubles([&](double v) { filler.add(v); });
    } else {
      f.integers([&](std::int64_t v) { filler.add(type == DType::boolean ? std::int64_t{v != 0} : v); });
    }
  }
  filler.finish();
  return out;
}

std::uint64_t parse_count(const wire::Source& source, std::string_view text, const char* what) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    source.corrupt(std::string("the ") + what + " of external data is not a number", text.data());
  return value;
}

}  // namespace

std::shared_ptr<const MappedFile> TensorReader::external_file(std::string_view location, const char* position) {
  if (const auto found = files_.find(location); found != files_.end()) return found->second;
  const auto refuse = [&](const std::string& why) {
    throw Error(Code::invalid_argument, "external data '" + std::string(location.substr(0, 200)) + "' " + why)
        .at(source_.path, source_.offset(position))
        .hint("a model may only name files in its own folder");
  };
  if (folder_.empty()) refuse("is named by a model that was not read from a folder");
  const fs::path relative{std::string(location)};
  if (location.empty() || relative.is_absolute() || location.find('\\') != std::string_view::npos) refuse("is not a relative path");
  if (std::find(relative.begin(), relative.end(), fs::path("..")) != relative.end()) refuse("leaves the model's folder");
  std::error_code error;
  const fs::path folder = fs::canonical(folder_, error);
  if (error) refuse("lies in a folder that cannot be read");
  const fs::path target = fs::canonical(folder / relative, error);
  if (error)
    throw Error(Code::not_found, "external data file '" + std::string(location.substr(0, 200)) + "' is missing")
        .at(source_.path, source_.offset(position));
  // Links inside the folder are followed; one that leads out of it is not.
  if (std::mismatch(folder.begin(), folder.end(), target.begin(), target.end()).first != folder.end())
    refuse("is a link that leaves the model's folder");
  auto file = std::make_shared<const MappedFile>(target.string());
  files_.emplace(std::string(location), file);
  return file;
}

TensorReader::Loaded TensorReader::load(const TensorProto& tensor, std::string_view name) {
  const char* const position = tensor.body.data();
  const auto dtype = dtype_of(tensor.data_type);
  if (!dtype)
    source_.fail(Code::unsupported,
                 "tensor '" + std::string(name) + "' has elements of type " + std::string(data_type_name(tensor.data_type)) + " (" +
                     std::to_string(tensor.data_type) + ")",
                 position);
  Loaded out{ir::Type{*dtype, {tensor.dims.begin(), tensor.dims.end()}}, nullptr};
  std::size_t bytes = static_cast<std::size_t>(ir::block_bytes(*dtype));  // cannot overflow: the parser bounds the elements
  for (const std::int64_t d : tensor.dims) bytes *= static_cast<std::size_t>(d);

  auto constant = std::make_shared<ir::Constant>();
  constant->name = name;
  constant->bytes = bytes;
  const auto check_size = [&](std::uint64_t have) {
    if (have != bytes)
      source_.corrupt("tensor '" + std::string(name) + "' of type " + ir::to_string(out.type) + " needs " + std::to_string(bytes) +
                          " bytes of data but has " + std::to_string(have),
                      position);
  };
  if (tensor.external) {
    std::string_view location;
    std::uint64_t offset = 0;
    std::optional<std::uint64_t> length;
    for (const auto& [key, value] : tensor.external_data) {
      if (key == "location") location = value;
      if (key == "offset") offset = parse_count(source_, value, "offset");
      if (key == "length") length = parse_count(source_, value, "length");
    }
    const auto file = external_file(location, position);
    check_size(length.value_or(bytes));
    if (offset > file->bytes().size() || bytes > file->bytes().size() - offset)
      throw Error(Code::data_corrupt, "tensor '" + std::string(name) + "' ends past its file").at(file->path(), offset);
    constant->data = file->bytes().data() + offset;
    constant->owner = file;
  } else if (tensor.raw) {
    check_size(tensor.raw->size());
    constant->data = reinterpret_cast<const std::byte*>(tensor.raw->data());
    constant->owner = owner_;
  } else {
    auto decoded = decode_fields(source_, tensor, *dtype, bytes);
    constant->data = decoded->data();
    constant->owner = std::move(decoded);
  }
  out.constant = std::move(constant);
  return out;
}

}  // namespace quern::onnx
