#include "tokenizers/detail/unicode.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <vector>

namespace quern::tokenizers::detail {
namespace {

constexpr std::uint32_t kCategoryRuns[] = {
#include "tokenizers/detail/unicode_categories.inc"
};
constexpr std::uint32_t kScriptRuns[] = {
#include "tokenizers/detail/unicode_scripts.inc"
};
struct ScriptName {
  std::string_view short_name, long_name;
};
#define QUERN_SCRIPT_NAMES
constexpr ScriptName kScriptNames[] = {
#include "tokenizers/detail/unicode_scripts.inc"
};
#undef QUERN_SCRIPT_NAMES

// Flags of each general category; white space is by code point.
constexpr std::uint8_t kFlags[kCategories] = {
    kLetter | kUpper,
    kLetter | kLower,
    kLetter | kUpper,
    kLetter,
    kLetter,
    kMark,
    kMark,
    kMark,
    kNumber,
    kNumber,
    kNumber,
    kPunctuation,
    kPunctuation,
    kPunctuation,
    kPunctuation,
    kPunctuation,
    kPunctuation,
    kPunctuation,
    kSymbol,
    kSymbol,
    kSymbol,
    kSymbol,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
};

struct Storage {
  std::vector<std::uint16_t> index;
  std::vector<std::uint8_t> blocks;
  CharTable table;

  Storage() {
    std::array<int, 256> uniform;  // block whose 256 entries are all one value
    uniform.fill(-1);
    std::array<std::uint8_t, 256> block;
    const CodeRuns runs = category_runs();
    std::size_t run = 0;
    for (std::uint32_t base = 0; base < kCodePoints; base += 256) {
      bool same = true;
      for (std::uint32_t i = 0; i < 256; ++i) {
        while (runs.first(run + 1) <= base + i) ++run;
        block[i] = kFlags[runs.value(run)];
        if (base < 0x3100 && is_white_space(base + i)) block[i] |= kSpace;
        same = same && block[i] == block[0];
        if (same && i == 0 && runs.first(run + 1) >= base + 256 && base >= 0x3100) break;  // the rest is the same
      }
      if (same && uniform[block[0]] >= 0) {
        index.push_back(static_cast<std::uint16_t>(uniform[block[0]]));
        continue;
      }
      if (same) block.fill(block[0]);
      const auto number = static_cast<std::uint16_t>(blocks.size() / 256);
      if (same) uniform[block[0]] = number;
      index.push_back(number);
      blocks.insert(blocks.end(), block.begin(), block.end());
    }
    table = {index.data(), blocks.data()};
  }
};

}  // namespace

CodeRuns category_runs() { return {kCategoryRuns, std::size(kCategoryRuns)}; }
CodeRuns script_runs() { return {kScriptRuns, std::size(kScriptRuns)}; }

const CharTable& char_table() {
  static const Storage storage;
  return storage.table;
}

Category category(std::uint32_t code) {
  const auto* after = std::upper_bound(std::begin(kCategoryRuns), std::end(kCategoryRuns), code << 8 | 0xFF);
  return static_cast<Category>(*(after - 1) & 0xFF);
}

bool is_white_space(std::uint32_t code) {
  return (code >= 9 && code <= 13) || code == 0x20 || code == 0x85 || code == 0xA0 || code == 0x1680 ||
         (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

bool same_property_name(std::string_view a, std::string_view b) {
  const auto next = [](std::string_view s, std::size_t& i) -> char {
    while (i < s.size() && (s[i] == ' ' || s[i] == '-' || s[i] == '_')) ++i;
    if (i == s.size()) return 0;
    const char c = s[i++];
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
  };
  for (std::size_t i = 0, j = 0;;) {
    const char x = next(a, i), y = next(b, j);
    if (x != y) return false;
    if (x == 0) return true;
  }
}

std::optional<std::uint8_t> find_script(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kScriptNames); ++i) {
    if (same_property_name(name, kScriptNames[i].short_name) || same_property_name(name, kScriptNames[i].long_name))
      return static_cast<std::uint8_t>(i);
  }
  return std::nullopt;
}

}  // namespace quern::tokenizers::detail
