#include "templates/lexer.h"

#include <algorithm>

#include "base/error.h"
#include "templates/text.h"

namespace quern::templates {
namespace {

bool is_name_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= '0' && c <= '9') || static_cast<signed char>(c) < 0;
}
bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }

std::size_t skip_space(std::string_view text, std::size_t pos) { return pos + strip(text.substr(pos), true, false).first; }

std::string_view strip_right(std::string_view text) { return text.substr(0, strip(text, false, true).second); }

}  // namespace

std::string position(std::string_view name, std::string_view source, std::size_t offset) {
  const std::string_view before = source.substr(0, std::min(offset, source.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t start = before.rfind('\n') + 1;  // npos + 1 is 0
  return std::string(name) + ", line " + std::to_string(line) + ", column " + std::to_string(code_points(before.substr(start)) + 1);
}

std::string normalized_source(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return is_valid_utf8(out) ? out : to_valid_utf8(out);
}

void Lexer::fail(const std::string& message, std::size_t offset) const {
  throw Error(Code::invalid_argument, message).in(position(name_, source_, offset));
}

Token Lexer::next() {
  if (has_pending_) {
    has_pending_ = false;
    return pending_;
  }
  return mode_ == Mode::data ? lex_data() : lex_code();
}

// Text [begin, end) before a tag, shortened as the tag's sign and lstrip_blocks ask for.
std::string_view Lexer::text_before(std::size_t begin, std::size_t end, char sign, bool variable) const {
  const std::string_view text = source_.substr(begin, end - begin);
  if (sign == '-') return strip_right(text);
  if (sign == '+' || variable) return text;
  const std::size_t line = text.rfind('\n') + 1;
  if (line == 0 && !line_starting_) return text;
  return strip_right(text.substr(line)).empty() ? text.substr(0, line) : text;
}

bool Lexer::begins_raw(std::size_t pos, std::size_t& after, bool& strip_left) const {
  pos += 2;
  if (pos < source_.size() && (source_[pos] == '-' || source_[pos] == '+')) ++pos;
  pos = skip_space(source_, pos);
  if (source_.substr(pos, 3) != "raw") return false;
  pos = skip_space(source_, pos + 3);
  strip_left = source_.substr(pos, 3) == "-%}";
  if (!strip_left && source_.substr(pos, 2) != "%}") return false;
  after = strip_left ? skip_space(source_, pos + 3) : pos + 2;
  return true;
}

// Leaves the text of a raw block in pending_ and moves behind its end tag.
void Lexer::raw(std::size_t begin, std::size_t after) {
  if (after >= source_.size()) {  // as with comments
    pos_ = source_.size();
    return;
  }
  for (std::size_t tag = source_.find("{%", after); tag != source_.npos; tag = source_.find("{%", tag + 1)) {
    std::size_t pos = tag + 2;
    const char sign = pos < source_.size() ? source_[pos] : '\0';
    if (sign == '-' || sign == '+') ++pos;
    pos = skip_space(source_, pos);
    if (source_.substr(pos, 6) != "endraw") continue;
    pos = skip_space(source_, pos + 6);
    if (source_.substr(pos, 3) == "-%}") {
      pos_ = skip_space(source_, pos + 3);
    } else if (source_.substr(pos, 3) == "+%}") {
      pos_ = pos + 3;
    } else if (source_.substr(pos, 2) == "%}") {
      pos_ = pos + 2;
      if (pos_ < source_.size() && source_[pos_] == '\n') ++pos_;
    } else {
      continue;
    }
    line_starting_ = source_[after - 1] == '\n';
    pending_ = {TokenKind::data, after, text_before(after, tag, sign, false)};
    has_pending_ = true;
    line_starting_ = source_[pos_ - 1] == '\n';
    return;
  }
  fail("Missing end of raw directive", begin);
}

Token Lexer::lex_data() {
  const std::size_t begin = pos_;
  std::size_t tag = begin;
  for (;; ++tag) {
    tag = source_.find('{', tag);
    if (tag == source_.npos || tag + 1 >= source_.size()) {
      pos_ = source_.size();
      if (begin == pos_) return {TokenKind::end, pos_, {}};
      return {TokenKind::data, begin, source_.substr(begin)};
    }
    if (const char c = source_[tag + 1]; c == '{' || c == '%' || c == '#') break;
  }
  const char kind = source_[tag + 1], sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
  const Token text{TokenKind::data, begin, text_before(begin, tag, sign, kind == '{')};
  std::size_t after_raw = 0;
  bool strip_left = false;
  if (kind == '%' && begins_raw(tag, after_raw, strip_left)) {
    raw(tag, after_raw);
    return text;
  }
  pos_ = tag + 2 + (sign == '-' || sign == '+');
  if (kind == '#' && pos_ >= source_.size()) return text;  // jinja2 lets a comment begin at the very end
  if (kind == '#') {
    const std::size_t close = source_.find("#}", pos_);
    if (close == source_.npos) fail("Missing end of comment tag", tag);
    const char last = close > pos_ ? source_[close - 1] : '\0';
    pos_ = close + 2;
    if (last == '-')
      pos_ = skip_space(source_, pos_);
    else if (last != '+' && pos_ < source_.size() && source_[pos_] == '\n')
      ++pos_;
    line_starting_ = source_[pos_ - 1] == '\n';
    return text;
  }
  mode_ = kind == '{' ? Mode::variable : Mode::block;
  line_starting_ = false;
  pending_ = {kind == '{' ? TokenKind::variable_begin : TokenKind::block_begin, tag, source_.substr(tag, 2)};
  has_pending_ = true;
  return text;
}

bool Lexer::close_tag(Token& token) {
  if (!open_.empty()) return false;
  const bool variable = mode_ == Mode::variable;
  const std::string_view mark = variable ? "}}" : "%}";
  const char sign = source_[pos_];
  const std::size_t skip = sign == '-' || (sign == '+' && !variable);
  if (source_.substr(pos_ + skip, 2) != mark) return false;
  token = {variable ? TokenKind::variable_end : TokenKind::block_end, pos_, source_.substr(pos_, skip + 2)};
  pos_ += skip + 2;
  if (sign == '-')
    pos_ = skip_space(source_, pos_);
  else if (!variable && sign != '+' && pos_ < source_.size() && source_[pos_] == '\n')
    ++pos_;
  line_starting_ = source_[pos_ - 1] == '\n';
  mode_ = Mode::data;
  return true;
}

Token Lexer::number() {
  const std::size_t begin = pos_;
  const auto run = [&](auto accepts) {  // digits with single underscores between them
    while (pos_ < source_.size() &&
           (accepts(source_[pos_]) || (source_[pos_] == '_' && pos_ + 1 < source_.size() && accepts(source_[pos_ + 1]))))
      ++pos_;
  };
  if (source_[pos_] == '0' && pos_ + 2 < source_.size()) {
    const char base = static_cast<char>(source_[pos_ + 1] | 0x20);
    const auto accepts = [&](char c) {
      return base == 'b' ? c == '0' || c == '1' : base == 'o' ? c >= '0' && c <= '7' : std::isxdigit(static_cast<unsigned char>(c)) != 0;
    };
    if ((base == 'b' || base == 'o' || base == 'x') && (accepts(source_[pos_ + 2]) || source_[pos_ + 2] == '_')) {
      pos_ += 2;
      run(accepts);
      return {TokenKind::integer, begin, source_.substr(begin, pos_ - begin)};
    }
  }
  run(is_ascii_digit);
  bool real = false;
  if (pos_ + 1 < source_.size() && source_[pos_] == '.' && is_ascii_digit(source_[pos_ + 1])) {
    real = true;
    ++pos_;
    run(is_ascii_digit);
  }
  if (pos_ + 1 < source_.size() && (source_[pos_] | 0x20) == 'e') {
    const std::size_t digit = pos_ + 1 + (source_[pos_ + 1] == '+' || source_[pos_ + 1] == '-');
    if (digit < source_.size() && is_ascii_digit(source_[digit])) {
      real = true;
      pos_ = digit;
      run(is_ascii_digit);
    }
  }
  std::string_view text = source_.substr(begin, pos_ - begin);
  if (!real && text.size() > 1 && text[0] == '0' && text.find_first_not_of("0_") != text.npos) {
    pos_ = begin + 1;  // "01" is 0 and then 1, which the parser refuses
    text = text.substr(0, 1);
  }
  return {real ? TokenKind::real : TokenKind::integer, begin, text};
}

Token Lexer::quoted() {
  const std::size_t begin = pos_;
  const char quote = source_[pos_++];
  for (; pos_ < source_.size(); ++pos_) {
    if (source_[pos_] == '\\') {
      ++pos_;
    } else if (source_[pos_] == quote) {
      ++pos_;
      return {TokenKind::string, begin, source_.substr(begin, pos_ - begin)};
    }
  }
  fail(std::string("unexpected char '") + (quote == '\'' ? "\\'" : "\"") + "'", begin);
}

Token Lexer::lex_code() {
  if (pos_ >= source_.size()) return {TokenKind::end, source_.size(), {}};
  Token token;
  if (close_tag(token)) return token;
  pos_ = skip_space(source_, pos_);
  if (pos_ >= source_.size()) return {TokenKind::end, source_.size(), {}};
  if (close_tag(token)) return token;
  const char c = source_[pos_];
  if (is_ascii_digit(c)) return number();
  if (is_name_byte(c)) {
    const std::size_t begin = pos_;
    while (pos_ < source_.size() && is_name_byte(source_[pos_])) ++pos_;
    return {TokenKind::name, begin, source_.substr(begin, pos_ - begin)};
  }
  if (c == '\'' || c == '"') return quoted();
  static constexpr std::string_view kTwo[] = {"//", "**", "==", "!=", ">=", "<="};
  std::size_t size = 1;
  for (const std::string_view two : kTwo)
    if (source_.substr(pos_, 2) == two) size = 2;
  if (size == 1 && std::string_view("+-/*%~[](){}><=.:|,;").find(c) == std::string_view::npos)
    fail("unexpected char '" + std::string(1, c) + "'", pos_);
  token = {TokenKind::symbol, pos_, source_.substr(pos_, size)};
  if (c == '{' || c == '(' || c == '[') {
    open_ += c == '{' ? '}' : c == '(' ? ')' : ']';
  } else if (c == '}' || c == ')' || c == ']') {
    if (open_.empty()) fail("unexpected '" + std::string(1, c) + "'", pos_);
    if (open_.back() != c) fail("unexpected '" + std::string(1, c) + "', expected '" + std::string(1, open_.back()) + "'", pos_);
    open_.pop_back();
  }
  pos_ += size;
  return token;
}

}  // namespace quern::templates
