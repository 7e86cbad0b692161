#pragma once

#include <cstddef>
#include <cstdint>
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
  Kind kind();

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
  std::string_view string(std::string& buffer);
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
    while (p_ < end_ && (*p_ == ' ' || *p_ == '\n' || *p_ == '\r' || *p_ == '\t')) ++p_;
    if (p_ == end_) fail("it ends too early");
    return *p_;
  }
  void open(char bracket);
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
  void word(std::string_view rest);
  void unescape(std::string& out);
  std::uint32_t hex4();

  const char* begin_;
  const char* p_;
  const char* end_;
  int depth_ = 0;
};

}  // namespace quern::tokenizers::detail
