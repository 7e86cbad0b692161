#pragma once

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace quern::test {

/// A tensor of a case file.
struct Tensor {
  ir::DType dtype = ir::DType::f32;
  std::vector<std::int64_t> dims;
  std::vector<std::byte> bytes;
  double relative = 0, absolute = 0;  // how far a float may be from this one
};

struct Input {
  enum Kind { absent, runtime, constant } kind = absent;
  Tensor tensor;
};

/// One node with inputs, and what others say it makes (oracle.py has the file format).
struct Case {
  std::string op, label, file;
  bool numbers_only = false;
  ir::Attributes attributes;
  std::vector<Input> inputs;
  std::vector<Tensor> outputs;
};

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : name_(path.filename()) {
    std::ifstream file(path, std::ios::binary);
    data_.assign(std::istreambuf_iterator<char>(file), {});
    if (take(5) != "QOPS1") throw std::runtime_error(name_ + " is no file of cases");
  }
  bool done() const { return at_ == data_.size(); }

  Case next() {
    Case c;
    c.file = name_;
    c.op = text();
    c.label = text();
    c.numbers_only = number<std::uint8_t>() != 0;
    for (int n = number<std::uint16_t>(); n > 0; --n) {
      const std::string name = text();
      c.attributes[name] = attribute();
    }
    for (int n = number<std::uint16_t>(); n > 0; --n) {
      Input input;
      input.kind = static_cast<Input::Kind>(number<std::uint8_t>());
      if (input.kind != Input::absent) input.tensor = tensor();
      c.inputs.push_back(std::move(input));
    }
    for (int n = number<std::uint16_t>(); n > 0; --n) {
      const auto relative = number<double>(), absolute = number<double>();
      c.outputs.push_back(tensor());
      c.outputs.back().relative = relative;
      c.outputs.back().absolute = absolute;
    }
    return c;
  }

 private:
  std::string take(std::size_t n) {
    if (n > data_.size() - at_) throw std::runtime_error(name_ + " ends early");
    at_ += n;
    return data_.substr(at_ - n, n);
  }
  template <class T>
  T number() {
    T v;
    std::memcpy(&v, take(sizeof(T)).data(), sizeof(T));
    return v;
  }
  std::string text() { return take(number<std::uint16_t>()); }
  template <class T>
  std::vector<T> list() {
    std::vector<T> out(number<std::uint16_t>());
    for (T& v : out) {
      if constexpr (std::is_same_v<T, std::string>)
        v = text();
      else
        v = number<T>();
    }
    return out;
  }
  ir::Attribute attribute() {
    switch (number<char>()) {
      case 'i': return number<std::int64_t>();
      case 'f': return number<double>();
      case 's': return text();
      case 'I': return list<std::int64_t>();
      case 'F': return list<double>();
      case 'S': return list<std::string>();
      default: return ir::dtype_from_name(text()).value();
    }
  }
  Tensor tensor() {
    Tensor t;
    t.dtype = ir::dtype_from_name(text()).value();
    std::int64_t elements = 1;
    for (int n = number<std::uint8_t>(); n > 0; --n) elements *= t.dims.emplace_back(number<std::int64_t>());
    const std::string bytes = take(static_cast<std::size_t>(elements * ir::block_bytes(t.dtype)));
    t.bytes.resize(bytes.size());
    if (!bytes.empty()) std::memcpy(t.bytes.data(), bytes.data(), bytes.size());
    return t;
  }

  std::string name_, data_;
  std::size_t at_ = 0;
};

/// All cases under tests/ops/data.
inline const std::vector<Case>& all_cases() {
  static const std::vector<Case> cases = [] {
    std::vector<Case> out;
    for (const auto& entry : std::filesystem::directory_iterator(QUERN_SOURCE_DIR "/tests/ops/data")) {
      if (entry.path().extension() != ".cases") continue;
      for (Reader reader(entry.path()); !reader.done();) out.push_back(reader.next());
    }
    return out;
  }();
  return cases;
}

}  // namespace quern::test
