#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tokenizers/detail/char_set.h"
#include "tokenizers/detail/regex_parser.h"
#include "tokenizers/detail/utf8.h"

namespace quern::tokenizers::detail {

/// A CharSet for matching: a bitmap of ASCII, and bitmaps of 256 code points up to where the rest is all in or all out.
class FastSet {
 public:
  explicit FastSet(const CharSet& set);

  bool contains_ascii(unsigned char c) const { return ascii_[c >> 6] >> (c & 63) & 1; }
  bool contains(std::uint32_t code) const {
    if (code >> 8 >= pages_.size()) return tail_;
    return blocks_[pages_[code >> 8]][code >> 6 & 3] >> (code & 63) & 1;
  }
  /// The character at p of valid text.
  bool contains_at(const char* p) const {
    const auto c = static_cast<unsigned char>(*p);
    return c < 0x80 ? contains_ascii(c) : contains(code_point(p));
  }
  const std::array<std::uint64_t, 2>& ascii() const { return ascii_; }

 private:
  std::array<std::uint64_t, 2> ascii_{};
  std::vector<std::uint16_t> pages_;
  std::vector<std::array<std::uint64_t, 4>> blocks_;
  bool tail_ = false;
};

/// What may come first where some instruction goes on: more than can match, never less.
struct RegexFirst {
  std::array<std::uint64_t, 2> ascii{};
  bool other = false;  // any character above ASCII
  bool end = false;    // the end of the text, and so any character

  bool allows(const char* p, const char* text_end) const {
    if (p == text_end) return end;
    const auto c = static_cast<unsigned char>(*p);
    return c < 0x80 ? ascii[c >> 6] >> (c & 63) & 1 : other;
  }
  void add(const RegexFirst& more) { ascii[0] |= more.ascii[0], ascii[1] |= more.ascii[1], other |= more.other, end |= more.end; }
};

struct RegexInstruction {
  enum class Op : std::uint8_t {
    set,             // one character of sets[a]
    set_times,       // b characters of sets[a]
    run,             // as many as possible, at most b, and fewer where that leads nowhere; `other_first` is what may follow
    run_possessive,  // as many as possible, at most b
    split,           // go on at a, and where that leads nowhere at b
    jump,            // to a
    look_ahead,      // the instructions behind it, up to accept, must match here; go on at a
    look_behind,     // they must match from b to c characters before here
    atomic,          // they match here, once; go on at a
    loop_begin,      // remembers in register a where an iteration begins
    loop_check,      // ends the loop, at b, if the iteration matched nothing
    check,           // a RegexNode::Kind
    accept,
  };
  Op op = Op::accept;
  bool negated = false;
  std::uint32_t a = 0, b = 0, c = 0;
  std::uint32_t memo = 0xFFFFFFFFu;          // number among the choices whose failures are remembered
  std::uint32_t first = 0, other_first = 0;  // of a and b: numbers in firsts
};

struct RegexProgram {
  std::vector<RegexInstruction> code;
  std::vector<FastSet> sets;
  std::vector<RegexFirst> firsts;
  RegexFirst first;  // of a whole match
  std::uint32_t registers = 0, choices = 0;
  bool asks_whether = false;  // has look-ahead
};

/// Errors: resource_exhausted when the program is too large, unsupported for a look-behind of unbounded width.
RegexProgram compile_regex(const RegexNode& tree);

}  // namespace quern::tokenizers::detail
