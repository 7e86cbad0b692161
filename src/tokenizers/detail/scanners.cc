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

// \s*[\r\n]+|\s+(?!\S)|\s+ at p, which is white; with `last_whole`, \s+$ comes first.
const char* white_run_by_lines(const Cursor& cursor, const char* p, bool last_whole = false) {
  const char* last_line_end = nullptr;
  const char* run_end = p;
  for (; run_end < cursor.end() && (cursor.flags(run_end) & kSpace); run_end += character_length(*run_end)) {
    if (*run_end == '\r' || *run_end == '\n') last_line_end = run_end;
  }
  if (last_whole && run_end == cursor.end()) return run_end;
  return last_line_end ? last_line_end + 1 : white_run(cursor, p, run_end);
}

bool is_line_end(char c) { return c == '\r' || c == '\n'; }

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
  bool white_by_powers = false;
  bool last_white_whole = false;  // white space that ends the text is one piece
};

// \s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|… |\s{4}(?!\S)|\s{1,2}(?!\S)|\s at p, which is white. `no_line_end` remembers how far the run is
// known to hold no line end, so that a long run is not looked through again for each of its parts.
const char* white_run_by_powers(const Cursor& cursor, const char* p, const char*& no_line_end) {
  if (p >= no_line_end) {
    const char* by_lines = white_run_by_lines(cursor, p);
    if (is_line_end(by_lines[-1])) return by_lines;
    no_line_end = by_lines;
  }
  std::size_t count = 0;
  const char* ends[514];  // where the first, second … character ends
  const char* q = p;
  for (; count < 513 && q < cursor.end() && (cursor.flags(q) & kSpace); ++count) ends[count] = q += character_length(*q);
  const bool to_end = q == cursor.end();
  const std::size_t free = to_end ? count : count - 1;  // white characters with none but white after them
  std::size_t take = 512;
  while (take > free && take > 1) take /= 2;
  return ends[take - 1];
}

template <WordRules kRules>
void scan_llama3_like(std::string_view text, const Ends& in, Ends& out) {
  constexpr std::uint8_t kWord = kRules.marks_in_words ? kLetter | kMark : kLetter;
  constexpr std::uint8_t kNotPunctuation = kNotOther | kWord;
  [[maybe_unused]] const char* no_line_end = text.data();
  scan_pieces(text, in, out, [&](const Cursor& cursor, const char* p) {
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
    if (!is_line_end(c) && next < end && (cursor.flags(next) & kWord)) return cursor.run(next, kWord);
    const char* word = c == ' ' && next < end ? next : p;
    if (!(cursor.flags(word) & kNotPunctuation)) {
      word = cursor.run_without(word, kNotPunctuation);
      while (kRules.line_ends_after_punctuation && word < end && is_line_end(*word)) ++word;
      return word;
    }
    if constexpr (kRules.white_by_powers) return white_run_by_powers(cursor, p, no_line_end);
    if constexpr (kRules.last_white_whole) return white_run_by_lines(cursor, p, true);
    return white_run_by_lines(cursor, p);
  });
}

struct CaseRules {
  int max_digits;
  bool contractions;
};

template <CaseRules kRules>
void scan_gpt4o_like(std::string_view text, const Ends& in, Ends& out) {
  // A letter that is neither upper nor lower, or a mark, may stand on both sides of the change of case.
  constexpr auto upper_side = [](std::uint8_t f) { return (f & kMark) || ((f & kLetter) && !(f & kLower)); };
  constexpr auto lower_side = [](std::uint8_t f) { return (f & kMark) || ((f & kLetter) && !(f & kUpper)); };
  // upper* lower+ from p, or null.
  constexpr auto with_lower = [upper_side, lower_side](const Cursor& cursor, const char* p) -> const char* {
    const char* after_last_lower = nullptr;
    bool lower_only = false;
    for (; p < cursor.end(); p += character_length(*p)) {
      const std::uint8_t f = cursor.flags(p);
      if (!lower_only && !upper_side(f)) lower_only = true;
      if (lower_only && !lower_side(f)) break;
      if (lower_side(f)) after_last_lower = p + character_length(*p);
    }
    return after_last_lower;
  };
  constexpr auto uppers = [upper_side](const Cursor& cursor, const char* p) {
    while (p < cursor.end() && upper_side(cursor.flags(p))) p += character_length(*p);
    return p;
  };
  scan_pieces(text, in, out, [=](const Cursor& cursor, const char* p) {
    const char* end = cursor.end();
    const char c = *p;
    const std::uint8_t flags = cursor.flags(p);
    const char* next = p + character_length(c);
    if (flags & kNumber) {
      for (int n = 1; n < kRules.max_digits && next < end && (cursor.flags(next) & kNumber); ++n) next += character_length(*next);
      return next;
    }
    const bool may_lead = !(flags & kLetter) && !is_line_end(c) && next < end;
    const bool in_word = flags & (kLetter | kMark);
    if (in_word || (may_lead && (cursor.flags(next) & (kLetter | kMark)))) {
      const char* word = may_lead ? with_lower(cursor, next) : nullptr;
      if (!word && in_word) word = with_lower(cursor, p);
      if (!word) word = uppers(cursor, may_lead && uppers(cursor, next) > next ? next : p);
      if (kRules.contractions && word < end && *word == '\'') word += contraction<true>(word, end);
      return word;
    }
    const char* mark = c == ' ' && next < end ? next : p;
    if (!(cursor.flags(mark) & kNotOther)) {
      mark = cursor.run_without(mark, kNotOther);
      while (mark < end && (is_line_end(*mark) || *mark == '/')) ++mark;
      return mark;
    }
    return white_run_by_lines(cursor, p);
  });
}

// The match of DeepSeek V3's pattern at p, or null.
const char* deepseek_v3_match(const Cursor& cursor, const char* p) {
  constexpr std::uint8_t kWord = kLetter | kMark, kSigns = kPunctuation | kSymbol;
  const char* end = cursor.end();
  const char c = *p;
  const std::uint8_t flags = cursor.flags(p);
  const char* next = p + character_length(c);
  const auto is_latin = [](char l) { return (l >= 'A' && l <= 'Z') || (l >= 'a' && l <= 'z'); };
  if ((flags & kSigns) && static_cast<unsigned char>(c) < 0x80 && next < end && is_latin(*next)) {
    while (next < end && is_latin(*next)) ++next;
    return next;
  }
  if (flags & kWord) return cursor.run(next, kWord);
  if (!(flags & kSigns) && !is_line_end(c) && next < end && (cursor.flags(next) & kWord)) return cursor.run(next, kWord);
  const char* sign = c == ' ' && next < end ? next : p;
  if (cursor.flags(sign) & kSigns) {
    sign = cursor.run(sign, kSigns);
    while (sign < end && is_line_end(*sign)) ++sign;
    return sign;
  }
  return flags & kSpace ? white_run_by_lines(cursor, p) : nullptr;
}

// \s?[class]+ and what stands between.
template <std::uint8_t kClass>
void scan_spaced(std::string_view text, const Ends& in, Ends& out) {
  scan_pieces(text, in, out, [](const Cursor& cursor, const char* p) {
    const auto match = [&cursor](const char* q) -> const char* {
      if ((cursor.flags(q) & kSpace) && q + character_length(*q) < cursor.end()) q += character_length(*q);
      return cursor.flags(q) & kClass ? cursor.run(q, kClass) : nullptr;
    };
    if (const char* end = match(p)) return end;
    while (p < cursor.end() && !match(p)) p += character_length(*p);
    return p;
  });
}

template <bool kBackquote>
void scan_punctuation_like(std::string_view text, const Ends& in, Ends& out) {
  constexpr std::string_view kMore = kBackquote ? "$+<=>^~|`" : "$+<=>^~|";
  scan_pieces(text, in, out, [kMore](const Cursor& cursor, const char* p) {
    const auto belongs = [&](const char* q) { return (cursor.flags(q) & kPunctuation) || kMore.find(*q) != std::string_view::npos; };
    const bool inside = belongs(p);
    while (p < cursor.end() && belongs(p) == inside) p += character_length(*p);
    return p;
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
void scan_jais2(std::string_view text, const Ends& in, Ends& out) { scan_llama3_like<WordRules{.white_by_powers = true}>(text, in, out); }
void scan_cl100k(std::string_view text, const Ends& in, Ends& out) { scan_llama3_like<WordRules{.last_white_whole = true}>(text, in, out); }
void scan_llama3_long_numbers(std::string_view text, const Ends& in, Ends& out) {
  scan_llama3_like<WordRules{.max_digits = INT32_MAX}>(text, in, out);
}

void scan_gpt4o(std::string_view text, const Ends& in, Ends& out) { scan_gpt4o_like<CaseRules{3, true}>(text, in, out); }
void scan_youtu(std::string_view text, const Ends& in, Ends& out) { scan_gpt4o_like<CaseRules{1, true}>(text, in, out); }
void scan_tekken(std::string_view text, const Ends& in, Ends& out) { scan_gpt4o_like<CaseRules{1, false}>(text, in, out); }

void scan_deepseek_v3(std::string_view text, const Ends& in, Ends& out) {
  scan_pieces(text, in, out, [](const Cursor& cursor, const char* p) {
    if (const char* end = deepseek_v3_match(cursor, p)) return end;
    while (p < cursor.end() && !deepseek_v3_match(cursor, p)) p += character_length(*p);
    return p;
  });
}

void scan_spaced_letters(std::string_view text, const Ends& in, Ends& out) { scan_spaced<kLetter>(text, in, out); }
void scan_spaced_punctuation(std::string_view text, const Ends& in, Ends& out) { scan_spaced<kPunctuation>(text, in, out); }
void scan_punctuation(std::string_view text, const Ends& in, Ends& out) { scan_punctuation_like<false>(text, in, out); }
void scan_punctuation_and_backquote(std::string_view text, const Ends& in, Ends& out) { scan_punctuation_like<true>(text, in, out); }

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

void scan_lines(std::string_view text, const Ends& in, Ends& out) {
  scan_pieces(text, in, out, [](const Cursor& cursor, const char* p) {
    const bool line_feeds = *p == '\n';
    while (p < cursor.end() && (*p == '\n') == line_feeds) ++p;
    return p;
  });
}

}  // namespace quern::tokenizers::detail
