#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/gguf/file.h"

namespace quern::gguf::detail {

/// The contents of one file, all checked but one thing: that no key and no tensor name comes twice (File checks it over all parts).
struct Parsed {
  std::uint32_t version = 0;
  std::vector<Value> metadata;
  std::vector<Tensor> tensors;
};

/// Errors as File::open.
Parsed parse(std::span<const std::byte> bytes, const std::string& path);

}  // namespace quern::gguf::detail
