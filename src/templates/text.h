#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "templates/value.h"

// Text as Python sees it (code points, its white space, its case rules), held as UTF-8, and the building of strings that know their origin.
namespace quern::templates {

/// The code point at `pos` of valid UTF-8; moves pos behind it.
char32_t next_code_point(std::string_view text, std::size_t& pos);
void append_code_point(std::string& out, char32_t c);
std::size_t code_points(std::string_view text);
/// Byte offset of code point `n` (text.size() if there are fewer).
std::size_t byte_offset(std::string_view text, std::size_t n);
/// Start of the code point that ends at `end` (> 0).
std::size_t previous_start(std::string_view text, std::size_t end);
bool is_valid_utf8(std::string_view text);
std::string to_valid_utf8(std::string_view text);

bool is_space(char32_t c);
bool is_printable(char32_t c);
bool is_letter(char32_t c);
bool is_mark(char32_t c);
bool is_letter_number(char32_t c);  // Roman numerals and the like
bool is_decimal(char32_t c);
bool is_digit(char32_t c);
bool is_numeric(char32_t c);
bool is_word(char32_t c);  // \w of Python's regular expressions
bool is_upper(char32_t c);
bool is_lower(char32_t c);
bool is_title(char32_t c);
std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string fold_case(std::string_view text);
std::string swap_case(std::string_view text);
std::string title(std::string_view text);  // str.title: a letter after a non-letter is upper case
std::string capitalize(std::string_view text);

/// Whether `size` bytes are the same: without a call where they are few, as most keys and words of templates are.
inline bool same_bytes(const char* a, const char* b, std::size_t size) {
  const auto differ = [&]<typename Word>(Word, std::size_t at) {
    Word x, y;
    std::memcpy(&x, a + at, sizeof x);
    std::memcpy(&y, b + at, sizeof y);
    return x != y;
  };
  constexpr std::uint64_t k8 = 0;
  constexpr std::uint32_t k4 = 0;
  if (size > 16) return std::memcmp(a, b, size) == 0;
  if (size >= 8) return !differ(k8, 0) && !differ(k8, size - 8);  // the two words may overlap
  if (size >= 4) return !differ(k4, 0) && !differ(k4, size - 4);
  for (std::size_t i = 0; i < size; ++i)
    if (a[i] != b[i]) return false;
  return true;
}

/// Where `what` begins in `text` from `from` on, or npos. Takes time that grows with the sum of the sizes, where std::string_view::find may
/// take their product ("aaaa…b" in "aaaa…").
std::size_t find_text(std::string_view text, std::string_view what, std::size_t from = 0);
/// The last such place, or npos; in the same time.
std::size_t find_last_text(std::string_view text, std::string_view what);
/// The bytes from back to front.
std::string reversed(std::string_view text);

/// Bytes [first, second) that are left after stripping white space, or the code points in `chars`.
std::pair<std::size_t, std::size_t> strip(std::string_view text, bool left, bool right);
std::pair<std::size_t, std::size_t> strip(std::string_view text, std::string_view chars, bool left, bool right);

std::string html_escape(std::string_view text);
/// As Python's repr: shortest digits that read back, 1.0, 1e-07, 1e+16, inf, nan.
std::string float_repr(double value);
std::string string_repr(std::string_view text);
/// Python's ascii() of a text that is a repr already: what is not ASCII becomes an escape.
std::string ascii(std::string_view repr);

/// Collects text with its origin; every byte counts against the heap's limit and `limit`.
class Writer {
 public:
  explicit Writer(Heap& heap, std::size_t limit = kMost) : heap_(heap), limit_(limit) {}
  /// `memory` is an empty string whose memory is used.
  Writer(Heap& heap, std::string memory) : heap_(heap), limit_(kMost), text_(std::move(memory)) {}

  void add(std::string_view text, bool untrusted = false) {
    if (text.empty()) return;
    if (text.size() > limit_ - text_.size()) [[unlikely]]
      check_room(text.size());
    heap_.charge(text.size());
    if (untrusted != untrusted_) [[unlikely]]
      change_origin(untrusted);
    text_.append(text);
  }
  void add(const String& s) { s.span_count == 0 ? add(s.view(), s.untrusted) : add(s, 0, s.size); }
  void add(const String& s, std::size_t from, std::size_t to);
  void add_repeated(const String& s, std::size_t times);
  /// The string as a value of the heap.
  Value take(bool markup = false);

  const std::string& text() const { return text_; }
  std::string& text() { return text_; }
  std::vector<Span> spans() const;
  bool any_untrusted() const;

 private:
  static constexpr std::size_t kMost = std::size_t{1} << 30;

  void check_room(std::size_t bytes) const;
  void change_origin(bool untrusted);
  std::uint32_t end() const { return static_cast<std::uint32_t>(text_.size()); }

  Heap& heap_;
  std::size_t limit_;
  std::string text_;
  std::vector<Span> spans_;  // all but the last, which ends where the text does
  bool untrusted_ = false;   // of the last
};

bool any_untrusted(const String& s);
/// A part of a string; shares its bytes.
Value substring(Heap& heap, const Value& s, std::size_t from, std::size_t to);

}  // namespace quern::templates
