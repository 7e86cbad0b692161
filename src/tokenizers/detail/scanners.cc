#include "tokenizers/detail/scanners.h"

#include <cstddef>

#include "tokenizers/detail/unicode.h"
#include "tokenizers/detail/utf8.h"

namespace quern::tokenizers::detail {
namespace {

constexpr std::uint8_t kNotOther = kLetter | kNumber | kSpace;  // the complement of [^\s\p{L}\p{N}]

/// The characters of one piece.
class Cursor {
 public:
  Cursor(std::string_view text, const CharTable& table) : base_(text.data()), table_(table) {}

  void enter(std::uint32_t end) { end_ = base_ + end; }
  const char* end() const { return end_; }
  const char* at(std::uint32_t offset) const { return base_ + offset; }
  std::uint32_t offset(const char* p) const { return static_cast<std::uint32_t>(p - base_); }

  std::uint8_t flags(const char* p) const {
    const auto b = static_cast<unsigned char>(*p);
    return b < 0x80 ? table_.blocks[b] : table_[code_point(p)];  // block 0 is that of the first 256 code points
  }
  /// The first place from p on whose class has none of `mask`, or for run_without one of it.
  const char* run(const char* p, std::uint8_t mask) const {
    while (p < end_ && (flags(p) & mask)) p += character_length(*p);
    return p;
  }
  const char* run_without(const char* p, std::uint8_t mask) const {
    while (p < end_ && !(flags(p) & mask)) p += character_length(*p);
    return p;
  }

 private:
  const char* base_;
  const char* end_ = nullptr;
  const CharTable& table_;
};

/// Runs `next(cursor, p) -> end of the match at p` over every piece.
template <class Next>
void scan_pieces(std::string_view text, const Ends& in, Ends& out, Next next) {
  Cursor cursor(text, char_table());
  std::uint32_t begin = 0;
  for (const std::uint32_t end : in) {
    cursor.enter(end);
    for (const char* p = cursor.at(begin); p < cursor.end();) out.push_back(cursor.offset(p = next(cursor, p)));
    begin = end;
  }
}

/// Length of the contraction at p (which holds an apostrophe), or 0.
template <bool kAnyCase>
std::size_t contraction(const char* p, const char* end) {
  const auto letter = [&](int i) -> char {
    if (end - p <= i) return 0;
    const char c = p[i];
    return kAnyCase && c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
  };
  switch (letter(1)) {
    case 's':
    case 't':
    case 'm':
    case 'd': return 2;
    case 'r':
    case 'v': return letter(2) == 'e' ? 3 : 0;
    case 'l': return letter(2) == 'l' ? 3 : 0;
    case '\xC5': return kAnyCase && letter(2) == '\xBF' ? 3 : 0;  // U+017F, the long s, is an s where case is ignored
    default: return 0;
  }
}

/// \s+(?!\S)|\s+ at p, which is white: the last white character before a word is left to that word.
const char* white_run(const Cursor& cursor, const char* p, const char* run_end) {
  if (run_end == cursor.end()) return run_end;
  const char* last = run_end - 1;
  while ((static_cast<unsigned char>(*last) & 0xC0) == 0x80) --last;
  return last > p ? last : run_end;
}

template <bool kSingleDigits>
void scan_gpt2_like(std::string_view text, const Ends& in, Ends& out) {
  scan_pieces(text, in, out, [](const Cursor& cursor, const char* p) {
    const char* end = cursor.end();
    if (*p == '\'') {
      if (const std::size_t length = contraction<false>(p, end)) return p + length;
    }
    const char* word = p + (*p == ' ' && p + 1 < end);
    const std::uint8_t flags = cursor.flags(word);
    if (flags & kLetter) return cursor.run(word, kLetter);
    if (flags & kNumber) {
      // With digits cut out first, a space before one is the end of its piece.
      if (kSingleDigits) return word > p ? word : p + character_length(*p);
      return cursor.run(word, kNumber);
    }
    if (!(flags & kSpace)) return cursor.run_without(word, kNotOther);
    const char* run_end = cursor.run(p, kSpace);
    if (kSingleDigits && run_end < end && (cursor.flags(run_end) & kNumber)) return run_end;
    return white_run(cursor, p, run_end);
  });
}

struct WordRules {
  int max_digits = 3;
  bool contractions = true;
  bool marks_in_words = false;
  bool line_ends_after_punctuation = true;
};

template <WordRules kRules>
void scan_llama3_like(std::string_view text, const Ends& in, Ends& out) {
  constexpr std::uint8_t kWord = kRules.marks_in_words ? kLetter | kMark : kLetter;
  constexpr std::uint8_t kNotPunctuation = kNotOther | kWord;
  scan_pieces(text, in, out, [](const Cursor& cursor, const char* p) {
    const char* end = cursor.end();
    const char c = *p;
    if (kRules.contractions && c == '\'') {
      if (const std::size_t length = contraction<true>(p, end)) return p + length;
    }
    const std::uint8_t flags = cursor.flags(p);
    const char* next = p + character_length(c);
    if (flags & kWord) return cursor.run(next, kWord);
    if (flags & kNumber) {
      for (int n = 1; n < kRules.max_digits && next < end && (cursor.flags(next) & kNumber); ++n) next += character_length(*next);
      return next;
    }
    if (c != '\r' && c != '\n' && next < end && (cursor.flags(next) & kWord)) return cursor.run(next, kWord);
    const char* word = c == ' ' && next < end ? next : p;
    if (!(cursor.flags(word) & kNotPunctuation)) {
      word = cursor.run_without(word, kNotPunctuation);
      while (kRules.line_ends_after_punctuation && word < end && (*word == '\r' || *word == '\n')) ++word;
      return word;
    }
    const char* last_line_end = nullptr;
    const char* run_end = p;
    for (; run_end < end && (cursor.flags(run_end) & kSpace); run_end += character_length(*run_end)) {
      if (*run_end == '\r' || *run_end == '\n') last_line_end = run_end;
    }
    return last_line_end ? last_line_end + 1 : white_run(cursor, p, run_end);
  });
}

}  // namespace

void scan_gpt2(std::string_view text, const Ends& in, Ends& out) { scan_gpt2_like<false>(text, in, out); }
void scan_gpt2_single_digits(std::string_view text, const Ends& in, Ends& out) { scan_gpt2_like<true>(text, in, out); }

void scan_llama3(std::string_view text, const Ends& in, Ends& out) { scan_llama3_like<WordRules{}>(text, in, out); }
void scan_qwen2(std::string_view text, const Ends& in, Ends& out) { scan_llama3_like<WordRules{.max_digits = 1}>(text, in, out); }
void scan_qwen35(std::string_view text, const Ends& in, Ends& out) {
  scan_llama3_like<WordRules{.max_digits = 1, .marks_in_words = true}>(text, in, out);
}
void scan_qwen2_no_contractions(std::string_view text, const Ends& in, Ends& out) {
  scan_llama3_like<WordRules{.max_digits = 1, .contractions = false}>(text, in, out);
}
void scan_qwen2_bare_punctuation(std::string_view text, const Ends& in, Ends& out) {
  scan_llama3_like<WordRules{.max_digits = 1, .line_ends_after_punctuation = false}>(text, in, out);
}
void scan_llama3_long_numbers(std::string_view text, const Ends& in, Ends& out) {
  scan_llama3_like<WordRules{.max_digits = INT32_MAX}>(text, in, out);
}

void scan_single_digits(std::string_view text, const Ends& in, Ends& out) {
  scan_pieces(text, in, out, [](const Cursor& cursor, const char* p) {
    return cursor.flags(p) & kNumber ? p + character_length(*p) : cursor.run_without(p, kNumber);
  });
}

void scan_digits_by_three(std::string_view text, const Ends& in, Ends& out) {
  scan_pieces(text, in, out, [](const Cursor& cursor, const char* p) {
    if (!(cursor.flags(p) & kNumber)) return cursor.run_without(p, kNumber);
    for (int n = 0; n < 3 && p < cursor.end() && (cursor.flags(p) & kNumber); ++n) p += character_length(*p);
    return p;
  });
}

void scan_numbers(std::string_view text, const Ends& in, Ends& out) {
  scan_pieces(text, in, out, [](const Cursor& cursor, const char* p) {
    return cursor.flags(p) & kNumber ? cursor.run(p, kNumber) : cursor.run_without(p, kNumber);
  });
}

void scan_digits_by_three_from_right(std::string_view text, const Ends& in, Ends& out) {
  std::size_t left = 0;  // digits still to come in this run; 0 outside of one
  scan_pieces(text, in, out, [&left](const Cursor& cursor, const char* p) {
    if (!(cursor.flags(p) & kNumber)) return cursor.run_without(p, kNumber);
    if (left == 0) {
      for (const char* q = p; q < cursor.end() && (cursor.flags(q) & kNumber); q += character_length(*q)) ++left;
    }
    for (std::size_t n = left % 3 ? left % 3 : 3; n > 0; --n, --left) p += character_length(*p);
    return p;
  });
}

void scan_lines(std::string_view text, const Ends& in, Ends& out) {
  scan_pieces(text, in, out, [](const Cursor& cursor, const char* p) {
    const bool line_feeds = *p == '\n';
    while (p < cursor.end() && (*p == '\n') == line_feeds) ++p;
    return p;
  });
}

}  // namespace quern::tokenizers::detail
