#include "tokenizers/detail/unicode.h"

#include <array>
#include <cstddef>
#include <iterator>
#include <vector>

namespace quern::tokenizers::detail {
namespace {

constexpr std::uint32_t kRanges[] = {
#include "tokenizers/detail/unicode_ranges.inc"
};
constexpr std::uint32_t kCodePoints = 0x110000;

// First code point after a range.
constexpr std::uint32_t next_start(std::size_t range) { return range + 1 < std::size(kRanges) ? kRanges[range + 1] >> 8 : kCodePoints; }

struct Storage {
  std::vector<std::uint16_t> index;
  std::vector<std::uint8_t> blocks;
  CharTable table;

  Storage() {
    std::array<int, 256> uniform;  // block whose 256 entries are all one value
    uniform.fill(-1);
    std::array<std::uint8_t, 256> block;
    std::size_t range = 0;
    for (std::uint32_t base = 0; base < kCodePoints; base += 256) {
      while (next_start(range) <= base) ++range;
      const bool same = next_start(range) >= base + 256;
      for (std::uint32_t i = 0; i < 256; ++i) {
        while (!same && next_start(range) <= base + i) ++range;
        block[i] = static_cast<std::uint8_t>(kRanges[range]);
      }
      if (same && uniform[block[0]] >= 0) {
        index.push_back(static_cast<std::uint16_t>(uniform[block[0]]));
        continue;
      }
      const auto number = static_cast<std::uint16_t>(blocks.size() / 256);
      if (same) uniform[block[0]] = number;
      index.push_back(number);
      blocks.insert(blocks.end(), block.begin(), block.end());
    }
    table = {index.data(), blocks.data()};
  }
};

}  // namespace

const CharTable& char_table() {
  static const Storage storage;
  return storage.table;
}

}  // namespace quern::tokenizers::detail
