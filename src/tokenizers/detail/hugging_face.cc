#include "tokenizers/detail/hugging_face.h"

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace quern::tokenizers::detail {
namespace {

constexpr std::uint32_t kClasses[] = {
#include "tokenizers/detail/hugging_face_classes.inc"
};
constexpr std::uint32_t kScripts[] = {
#include "tokenizers/detail/hugging_face_scripts.inc"
};
constexpr std::uint32_t kCodePoints = 0x110000, kBlock = 128;

/// A byte for each code point in two levels; blocks of one value are shared.
struct ByteTable {
  std::array<std::uint16_t, kCodePoints / kBlock> index;
  std::vector<std::uint8_t> blocks;

  explicit ByteTable(std::span<const std::uint32_t> runs) {
    std::array<int, 256> uniform;
    uniform.fill(-1);
    std::size_t run = 0;
    const auto run_end = [&](std::size_t r) { return r + 1 < runs.size() ? runs[r + 1] >> 8 : kCodePoints; };
    for (std::uint32_t base = 0; base < kCodePoints; base += kBlock) {
      while (run_end(run) <= base) ++run;
      const auto value = static_cast<std::uint8_t>(runs[run]);
      const bool same = run_end(run) >= base + kBlock;
      auto block = static_cast<std::uint16_t>(blocks.size() / kBlock);
      if (same && uniform[value] >= 0) block = static_cast<std::uint16_t>(uniform[value]);
      index[base / kBlock] = block;
      if (block * kBlock < blocks.size()) continue;
      if (same) uniform[value] = block;
      for (std::uint32_t c = base; c < base + kBlock; ++c) {
        while (run_end(run) <= c) ++run;
        blocks.push_back(static_cast<std::uint8_t>(runs[run]));
      }
    }
  }

  std::uint8_t operator[](std::uint32_t code) const { return blocks[std::size_t{index[code / kBlock]} * kBlock + code % kBlock]; }
};

}  // namespace

std::uint8_t hugging_face_class(std::uint32_t code) {
  static const ByteTable table(kClasses);
  return table[code];
}

std::uint8_t hugging_face_script(std::uint32_t code) {
  static const ByteTable table(kScripts);
  return table[code];
}

}  // namespace quern::tokenizers::detail
