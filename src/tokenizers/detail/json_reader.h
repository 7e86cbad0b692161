#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace quern::tokenizers::detail {

/// Reads a JSON text from front to back without building a tree: vocabularies are tens of megabytes. Every value must be read or skipped.
/// Time is linear, memory constant; nesting is at most kMaxDepth. Errors: data_corrupt with the byte offset.
class JsonReader {
 public:
  static constexpr int kMaxDepth = 64;
  enum class Kind { object, array, string, number, boolean, null };

  /// `text` outlives the reader.
  explicit JsonReader(std::string_view text) : begin_(text.data()), p_(begin_), end_(begin_ + text.size()) {}

  /// Of the value that comes next.
  Kind kind() {
    switch (peek()) {
      case '{': return Kind::object;
      case '[': return Kind::array;
      case '"': return Kind::string;
      default: return other_kind();
    }
  }

  /// Calls member(key) for each member of the object; `key` stays valid until the next member, and `member` reads the value.
  template <class Member>
  void object(Member member) {
    std::string buffer;
    object(buffer, member);
  }
  /// With a buffer for keys that have escapes: others are parts of the text.
  template <class Member>
  void object(std::string& buffer, Member member) {
    open('{');
    if (!closes('}')) {
      do {
        const std::string_view key = string(buffer);
        expect(':');
        member(key);
      } while (goes_on('}'));
    }
    --depth_;
  }
  /// Calls element() for each element, which reads it.
  template <class Element>
  void array(Element element) {
    open('[');
    if (!closes(']')) {
      do element();
      while (goes_on(']'));
    }
    --depth_;
  }

  /// A string: a part of the text, or, where it has escapes, `buffer`. Half a surrogate pair becomes U+FFFD.
  std::string_view string(std::string& buffer) {
    expect('"');
    const char* start = p_;
    p_ = plain_end(p_, end_);
    if (p_ < end_ && *p_ == '"') return {start, static_cast<std::size_t>(p_++ - start)};
    return rest_of_string(start, buffer);
  }
  std::string string();
  double number();
  /// A whole number within `low` to `high`.
  std::int64_t integer(std::int64_t low, std::int64_t high);
  bool boolean();
  /// Whether the next value is null; reads it if so.
  bool null();
  void skip();
  /// Nothing but white space may be left.
  void finish();

  std::string_view rest() const { return {p_, static_cast<std::size_t>(end_ - p_)}; }
  std::size_t offset() const { return static_cast<std::size_t>(p_ - begin_); }
  [[noreturn]] void fail(std::string_view what) const;
  /// Goes back to where offset() was `offset`, outside of any array or object begun since.
  void seek(std::size_t offset) { p_ = begin_ + offset; }

 private:
  char peek() {
    if (p_ == end_ || static_cast<unsigned char>(*p_) <= ' ') skip_white();
    if (p_ == end_) fail("it ends too early");
    return *p_;
  }
  /// Files are often indented, so that most of their bytes are spaces: those eight at a time.
  void skip_white() {
    constexpr std::uint64_t kSpaces = 0x2020202020202020u;
    static_assert(std::endian::native == std::endian::little);
    for (;;) {
      if (end_ - p_ >= 8) {
        std::uint64_t word;
        std::memcpy(&word, p_, 8);
        const int spaces = std::countr_zero(word ^ kSpaces) / 8;
        p_ += spaces;
        if (spaces == 8) continue;
      } else if (p_ == end_) {
        return;
      }
      if (*p_ != ' ' && *p_ != '\n' && *p_ != '\r' && *p_ != '\t') return;
      ++p_;
    }
  }
  void open(char bracket) {
    expect(bracket);
    if (++depth_ > kMaxDepth) fail_depth();
  }
  [[noreturn]] void fail_depth() const;
  bool closes(char bracket) {
    if (peek() != bracket) return false;
    ++p_;
    return true;
  }
  bool goes_on(char bracket) {
    const char c = peek();
    if (c != ',' && c != bracket) fail_expected(bracket);
    ++p_;
    return c == ',';
  }
  void expect(char c) {
    if (peek() != c) fail_expected(c);
    ++p_;
  }
  [[noreturn]] void fail_expected(char c) const;
  Kind other_kind();
  /// Where a string's plain part ends: a quote, a backslash, a control character, or the end of the text. 16 bytes at a time, which most
  /// strings are shorter than: nothing is guessed wrong then.
  static const char* plain_end(const char* p, const char* end) {
    constexpr std::uint64_t kOnes = 0x0101010101010101u, kHigh = 0x8080808080808080u;
    const auto zeros = [](std::uint64_t w) { return (w - kOnes) & ~w; };  // high bit set in the first byte that is 0, none before it
    const auto ends = [&](const char* at) {
      std::uint64_t word;
      std::memcpy(&word, at, 8);
      return (zeros(word ^ kOnes * '"') | zeros(word ^ kOnes * '\\') | ((word - kOnes * 0x20) & ~word)) & kHigh;
    };
    for (; end - p >= 16; p += 16) {
      const std::uint64_t low = ends(p), high = ends(p + 8);
      if ((low | high) != 0) return p + (low != 0 ? 0 : 8) + std::countr_zero(low != 0 ? low : high) / 8;
    }
    while (p < end && *p != '"' && *p != '\\' && static_cast<unsigned char>(*p) >= 0x20) ++p;
    return p;
  }
  /// Of a string that began at `start` and is plain up to here.
  std::string_view rest_of_string(const char* start, std::string& buffer);
  void word(std::string_view rest);
  void unescape(std::string& out);
  std::uint32_t hex4();

  const char* begin_;
  const char* p_;
  const char* end_;
  int depth_ = 0;
};

}  // namespace quern::tokenizers::detail
