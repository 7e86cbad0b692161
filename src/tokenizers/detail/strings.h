#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/page_memory.h"

namespace quern::tokenizers::detail {

/// Strings by number, in one piece of memory; less than 4 GiB of them.
struct Strings {
  PageString bytes = {};
  PageVector<std::uint32_t> ends = {};

  void reserve(std::size_t count, std::size_t size) { ends.reserve(count), bytes.reserve(size); }
  void add(std::string_view s) { bytes += s, ends.push_back(static_cast<std::uint32_t>(bytes.size())); }
  std::size_t size() const { return ends.size(); }
  std::string_view operator[](std::size_t i) const {
    const std::uint32_t begin = i ? ends[i - 1] : 0;
    return {bytes.data() + begin, ends[i] - begin};
  }
  // For many at a time: first where each ends, then its bytes.
  void prefetch_end(std::size_t i) const { __builtin_prefetch(&ends[i]); }
  void prefetch(std::size_t i) const { __builtin_prefetch(&bytes[i ? ends[i - 1] : 0]); }
};

}  // namespace quern::tokenizers::detail
