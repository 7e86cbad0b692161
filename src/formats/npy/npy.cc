#include "formats/npy/npy.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/mapped_file.h"

namespace quern::npy {
namespace {

using ir::DType;

constexpr std::string_view kMagic{"\x93NUMPY", 6};
constexpr std::size_t kMaxHeader = std::size_t{1} << 20;  // a plain array's header is some hundred bytes
constexpr std::size_t kMaxDims = 32;                      // NumPy's own limit up to version 1
constexpr std::size_t kAlignment = 64;

struct Descr {
  std::string_view text;  // without the byte-order mark
  DType dtype;
};
constexpr Descr kDescrs[] = {{"b1", DType::boolean}, {"i1", DType::i8},  {"i2", DType::i16}, {"i4", DType::i32}, {"i8", DType::i64},
                             {"u1", DType::u8},      {"u2", DType::u16}, {"u4", DType::u32}, {"u8", DType::u64}, {"f2", DType::f16},
                             {"V2", DType::bf16},    {"f4", DType::f32}, {"f8", DType::f64}};

struct Header {
  DType dtype = DType::f32;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

/// Reads the header: a Python dictionary of exactly three keys. Nothing more of Python is understood.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, std::size_t offset, const std::string& path) : text_(text), offset_(offset), path_(path) {}

  Header parse() {
    Header out;
    bool descr = false, order = false, shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr" && !descr) {
        out.dtype = dtype();
        descr = true;
      } else if (key == "fortran_order" && !order) {
        out.fortran_order = boolean();
        order = true;
      } else if (key == "shape" && !shape) {
        out.shape = dims();
        shape = true;
      } else {
        fail("the header has an unknown or repeated key");
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (pos_ != text_.size()) fail("the header goes on after its end");
    if (!descr || !order || !shape) fail("the header lacks 'descr', 'fortran_order' or 'shape'");
    return out;
  }

 private:
  [[noreturn]] void fail(std::string message, Code code = Code::data_corrupt) const {
    throw Error(code, std::move(message)).at(path_, offset_ + pos_);
  }
  void skip_space() {
    while (pos_ < text_.size() && (text_[pos_] == ' ' || text_[pos_] == '\n' || text_[pos_] == '\t' || text_[pos_] == '\r')) ++pos_;
  }
  bool accept(char c) {
    skip_space();
    if (pos_ >= text_.size() || text_[pos_] != c) return false;
    ++pos_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(std::string("the header is malformed: '") + c + "' expected");
  }
  std::string_view quoted() {
    skip_space();
    const char quote = pos_ < text_.size() ? text_[pos_] : 0;
    if (quote != '\'' && quote != '"') fail("the header is malformed: a string expected");
    const std::size_t end = text_.find(quote, pos_ + 1);
    if (end == std::string_view::npos) fail("the header has a string without end");
    const std::string_view out = text_.substr(pos_ + 1, end - pos_ - 1);
    pos_ = end + 1;
    return out;
  }
  bool boolean() {
    skip_space();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(pos_, word.size()) != word) continue;
      pos_ += word.size();
      return value;
    }
    fail("the header is malformed: True or False expected");
  }
  DType dtype() {
    skip_space();
    if (pos_ < text_.size() && text_[pos_] == '[') fail("structured arrays are not supported", Code::unsupported);
    const std::string_view text = quoted();
    if (text.size() > 1) {
      const auto known = std::find_if(std::begin(kDescrs), std::end(kDescrs), [&](const Descr& d) { return d.text == text.substr(1); });
      const bool one_byte = text.back() == '1';
      if (known != std::end(kDescrs)) {
        if (text[0] == '<' || text[0] == '=' || (text[0] == '|' && (one_byte || known->dtype == DType::bf16))) return known->dtype;
        if (text[0] == '>' && one_byte) return known->dtype;
        if (text[0] == '>') fail("big-endian arrays are not supported", Code::unsupported);
      }
    }
    fail("elements of type '" + std::string(text.substr(0, 40)) + "' are not supported", Code::unsupported);
  }
  std::vector<std::int64_t> dims() {
    std::vector<std::int64_t> out;
    expect('(');
    while (!accept(')')) {
      if (out.size() == kMaxDims) fail("the array has more than 32 dimensions", Code::unsupported);
      out.push_back(integer());
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return out;
  }
  std::int64_t integer() {
    skip_space();
    std::int64_t value = 0;
    const std::size_t start = pos_;
    for (; pos_ < text_.size() && text_[pos_] >= '0' && text_[pos_] <= '9'; ++pos_)
      if (__builtin_mul_overflow(value, std::int64_t{10}, &value) || __builtin_add_overflow(value, text_[pos_] - '0', &value))
        fail("a dimension does not fit 64 bits");
    if (pos_ == start) fail("the header is malformed: a dimension must be a number, not negative");
    if (pos_ < text_.size() && text_[pos_] == 'L') ++pos_;  // as Python 2 wrote long integers
    return value;
  }

  std::string_view text_;
  std::size_t offset_, pos_ = 0;
  const std::string& path_;
};

std::optional<std::size_t> byte_count(DType dtype, std::span<const std::int64_t> shape) {
  std::int64_t bytes = ir::block_bytes(dtype);
  // An empty array may have any other dimensions; only what is not empty can be too large.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  for (const std::int64_t d : shape)
    if (d < 0 || __builtin_mul_overflow(bytes, d, &bytes)) return std::nullopt;
  return static_cast<std::size_t>(bytes);
}

/// Column-major to row-major: walks the target in order and keeps the source's position by its strides.
std::shared_ptr<std::vector<std::byte>> to_row_major(const std::byte* source, const std::vector<std::int64_t>& shape, std::size_t size,
                                                     std::size_t bytes) {
  auto out = std::make_shared<std::vector<std::byte>>(bytes);
  std::vector<std::int64_t> index(shape.size(), 0), stride(shape.size(), static_cast<std::int64_t>(size));
  for (std::size_t i = 1; i < shape.size(); ++i) stride[i] = stride[i - 1] * shape[i - 1];
  std::int64_t at = 0;
  for (std::size_t to = 0; to < bytes; to += size) {
    std::memcpy(out->data() + to, source + at, size);
    for (std::size_t d = shape.size(); d-- > 0;) {
      at += stride[d];
      if (++index[d] < shape[d]) break;
      at -= stride[d] * shape[d];
      index[d] = 0;
    }
  }
  return out;
}

}  // namespace

Array read(std::span<const std::byte> file, std::shared_ptr<const void> owner, const std::string& path) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (!text.starts_with(kMagic)) throw Error(Code::data_corrupt, "is not a .npy file").at(path, 0);
  if (text.size() < 10) throw Error(Code::data_corrupt, "the file ends inside its header").at(path, text.size());
  const auto byte = [&](std::size_t i) { return std::size_t{static_cast<unsigned char>(text[i])}; };
  const std::size_t major = byte(6);
  if (major < 1 || major > 3)
    throw Error(Code::unsupported, "version " + std::to_string(major) + " of the .npy format is not known").at(path, 6);
  const std::size_t start = major == 1 ? 10 : 12;
  if (text.size() < start) throw Error(Code::data_corrupt, "the file ends inside its header").at(path, text.size());
  const std::size_t length = byte(8) | byte(9) << 8 | (major == 1 ? 0 : byte(10) << 16 | byte(11) << 24);
  if (length > text.size() - start) throw Error(Code::data_corrupt, "the file ends inside its header").at(path, text.size());
  if (length > kMaxHeader) throw Error(Code::data_corrupt, "the header is too long for a plain array").at(path, 8);
  Header head = HeaderParser(text.substr(start, length), start, path).parse();

  const std::size_t data = start + length;
  const auto bytes = byte_count(head.dtype, head.shape);
  if (!bytes) throw Error(Code::data_corrupt, "the array's size overflows 64 bits").at(path, start);
  if (*bytes != file.size() - data)
    throw Error(Code::data_corrupt, "the array's shape asks for " + std::to_string(*bytes) + " bytes of data, but the file has " +
                                        std::to_string(file.size() - data))
        .at(path, data);
  Array out{head.dtype, std::move(head.shape), file.subspan(data), std::move(owner)};
  if (head.fortran_order && out.shape.size() > 1 && *bytes > 0) {
    auto copy = to_row_major(out.bytes.data(), out.shape, static_cast<std::size_t>(ir::block_bytes(out.dtype)), *bytes);
    out.bytes = *copy;
    out.owner = std::move(copy);
  }
  return out;
}

Array read_file(const std::string& path) {
  auto file = std::make_shared<MappedFile>(path);
  const auto bytes = file->bytes();
  return read(bytes, std::move(file), path);
}

std::string header(DType dtype, std::span<const std::int64_t> shape) {
  const auto descr = std::find_if(std::begin(kDescrs), std::end(kDescrs), [&](const Descr& d) { return d.dtype == dtype; });
  if (descr == std::end(kDescrs))
    throw Error(Code::unsupported, "a .npy file cannot hold elements of type " + std::string(ir::name(dtype)))
        .hint("convert it to f32 first");
  std::string dict = std::string("{'descr': '") + (descr->text.back() == '1' ? '|' : '<') + std::string(descr->text) +
                     "', 'fortran_order': False, 'shape': (";
  for (std::size_t i = 0; i < shape.size(); ++i) dict += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  dict += shape.size() == 1 ? ",), }" : "), }";
  const std::size_t whole = (10 + dict.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
  dict.append(whole - 10 - dict.size() - 1, ' ');
  dict += '\n';
  if (dict.size() > 0xffff) throw Error(Code::invalid_argument, "the array has too many dimensions for a .npy file");
  std::string out(kMagic);
  out += {'\x01', '\x00', static_cast<char>(dict.size() & 0xff), static_cast<char>(dict.size() >> 8)};
  return out + dict;
}

void write_file(const std::string& path, DType dtype, std::span<const std::int64_t> shape, std::span<const std::byte> bytes) {
  const std::string head = header(dtype, shape);
  const auto expected = byte_count(dtype, shape);
  if (!expected || *expected != bytes.size())
    throw Error(Code::invalid_argument, "the array has " + std::to_string(bytes.size()) + " bytes, which do not fit its shape").at(path);
  std::FILE* file = std::fopen(path.c_str(), "wbe");
  if (file == nullptr) throw Error(Code::invalid_argument, std::string("cannot write the file: ") + std::strerror(errno)).at(path);
  const bool written = std::fwrite(head.data(), 1, head.size(), file) == head.size() &&
                       (bytes.empty() || std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size());
  const bool closed = std::fclose(file) == 0;
  if (!written || !closed) throw Error(Code::invalid_argument, std::string("cannot write the file: ") + std::strerror(errno)).at(path);
}

void write_file(const std::string& path, const Array& array) { write_file(path, array.dtype, array.shape, array.bytes); }

}  // namespace quern::npy
