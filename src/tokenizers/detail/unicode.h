#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace quern::tokenizers::detail {

/// Unicode's general categories; all data here are Unicode 16.0 whatever the system's libraries know.
enum class Category : std::uint8_t {
  Lu,
  Ll,
  Lt,
  Lm,
  Lo,
  Mn,
  Mc,
  Me,
  Nd,
  Nl,
  No,
  Pc,
  Pd,
  Ps,
  Pe,
  Pi,
  Pf,
  Po,
  Sm,
  Sc,
  Sk,
  So,
  Zs,
  Zl,
  Zp,
  Cc,
  Cf,
  Cs,
  Co,
  Cn,  //
};
inline constexpr std::uint32_t kCategories = 30;
inline constexpr std::uint32_t kCodePoints = 0x110000;

/// Classes of a code point, as flags. A titlecase letter counts as upper.
enum CharClass : std::uint8_t {
  kLetter = 1,
  kNumber = 2,
  kSpace = 4,  ///< White_Space
  kMark = 8,
  kPunctuation = 16,
  kSymbol = 32,
  kLower = 64,
  kUpper = 128,
};

/// Two-level table: flags of code point c are blocks[index[c >> 8] << 8 | (c & 255)]. The first block is that of c < 256.
struct CharTable {
  const std::uint16_t* index;
  const std::uint8_t* blocks;

  std::uint8_t operator[](std::uint32_t code) const { return blocks[std::uint32_t{index[code >> 8]} << 8 | (code & 255)]; }
};

/// Built at the first call (under a millisecond).
const CharTable& char_table();

/// For code points below kCodePoints; a binary search.
Category category(std::uint32_t code);
/// The White_Space property.
bool is_white_space(std::uint32_t code);

/// Calls f(first, last, category number) for each run of code points with one general category, in order.
template <class F>
void for_each_category_run(F f);
/// Calls f(first, last) for each run of code points of a script.
template <class F>
void for_each_script_run(std::uint8_t script, F f);
/// By short or long name, as spelled in the Unicode Character Database ("Hani", "Han"), whatever its case, spaces, hyphens or underscores.
std::optional<std::uint8_t> find_script(std::string_view name);

/// Whether two names of properties are the same but for case, spaces, hyphens and underscores.
bool same_property_name(std::string_view a, std::string_view b);

// Ranges as in unicode_*.inc: first code point << 8 | value.
struct CodeRuns {
  const std::uint32_t* runs;
  std::size_t count;

  std::uint32_t first(std::size_t i) const { return i < count ? runs[i] >> 8 : kCodePoints; }
  std::uint8_t value(std::size_t i) const { return static_cast<std::uint8_t>(runs[i]); }
};
CodeRuns category_runs();
CodeRuns script_runs();

template <class F>
void for_each_category_run(F f) {
  const CodeRuns runs = category_runs();
  for (std::size_t i = 0; i < runs.count; ++i) f(runs.first(i), runs.first(i + 1) - 1, runs.value(i));
}

template <class F>
void for_each_script_run(std::uint8_t script, F f) {
  const CodeRuns runs = script_runs();
  for (std::size_t i = 0; i < runs.count; ++i) {
    if (runs.value(i) == script) f(runs.first(i), runs.first(i + 1) - 1);
  }
}

}  // namespace quern::tokenizers::detail
