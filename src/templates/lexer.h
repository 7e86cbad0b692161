#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace quern::templates {

enum class TokenKind : std::uint8_t {
  data,
  variable_begin,
  variable_end,
  block_begin,
  block_end,
  name,
  string,
  integer,
  real,
  symbol,
  end
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::size_t offset = 0;  // in the source, for messages
  std::string_view text;   // data, name, symbol; a string with its quotes; a number as written

  bool is(TokenKind k) const { return kind == k; }
  bool is_name(std::string_view word) const { return kind == TokenKind::name && text == word; }
  bool is_symbol(std::string_view s) const { return kind == TokenKind::symbol && text == s; }
};

/// "NAME, line 3, column 7" (both from 1, in code points) of a byte of the source.
std::string position(std::string_view name, std::string_view source, std::size_t offset);
/// What the lexer sees of a file: line ends become '\n', one at the very end is dropped, bytes that are not UTF-8 become U+FFFD.
std::string normalized_source(std::string_view source);

/// Splits a template into tokens, with jinja2's trim_blocks and lstrip_blocks on. Errors: invalid_argument with line and column.
class Lexer {
 public:
  /// `source` is normalised and outlives the tokens.
  Lexer(std::string_view name, std::string_view source) : name_(name), source_(source) {}
  Token next();

 private:
  enum class Mode { data, variable, block };

  Token lex_data();
  Token lex_code();
  Token number();
  Token quoted();
  bool begins_raw(std::size_t pos, std::size_t& after, bool& strip_left) const;
  void raw(std::size_t begin, std::size_t after);
  bool close_tag(Token& token);
  std::string_view text_before(std::size_t begin, std::size_t end, char sign, bool variable) const;
  [[noreturn]] void fail(const std::string& message, std::size_t offset) const;

  std::string_view name_, source_;
  std::size_t pos_ = 0;
  Mode mode_ = Mode::data;
  bool line_starting_ = true;
  Token pending_;  // the tag that follows the text just returned
  bool has_pending_ = false;
  std::string open_;  // brackets open inside the current tag
};

}  // namespace quern::templates
