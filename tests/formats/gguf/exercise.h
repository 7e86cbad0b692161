#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "dtypes/dequantize.h"
#include "formats/gguf/file.h"

namespace quern::gguf::testing {

/// Uses all that a file offers: every metadata entry as text and as every type, and the floats of every tensor's first and last blocks.
/// Throws whatever Error the file earns; anything else is a bug.
inline void exercise(const File& file) {
  for (const Value& value : file.metadata()) {
    if (file.find(value.key()) != &value) throw Error(Code::internal, "a key is not found by its name");
    value.text();
    value.bytes();
    const auto attempt = [](auto read) {
      try {
        read();
      } catch (const Error& e) {
        if (e.code() != Code::data_corrupt) throw;
      }
    };
    attempt([&] { value.get<bool>(); });
    attempt([&] { value.get<std::int16_t>(); });
    attempt([&] { value.get<std::uint64_t>(); });
    attempt([&] { value.get<double>(); });
    attempt([&] { value.get<std::string_view>(); });
    attempt([&] { value.array<std::string_view>(); });
    attempt([&] { value.array<std::int32_t>(); });
    attempt([&] { value.array<float>(); });
  }
  std::vector<float> floats;
  for (const Tensor& t : file.tensors()) {
    if (file.find_tensor(t.name) != &t) throw Error(Code::internal, "a tensor is not found by its name");
    const std::int64_t block = ir::block_elements(t.type), bytes = ir::block_bytes(t.type), blocks = t.elements() / block;
    const std::int64_t some = std::min<std::int64_t>(blocks, 64);
    floats.resize(static_cast<std::size_t>(some * block));
    dtypes::dequantize(t.type, t.data.data(), floats.data(), some * block);
    dtypes::dequantize(t.type, t.data.data() + (blocks - some) * bytes, floats.data(), some * block);
  }
}

}  // namespace quern::gguf::testing
