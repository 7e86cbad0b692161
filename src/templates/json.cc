#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "templates/operators.h"
#include "templates/sort.h"
#include "templates/text.h"
#include "templates/value.h"

namespace quern::templates {
namespace {

constexpr int kMaxDepth = 256;

class Reader {
 public:
  Reader(Heap& heap, std::string_view text, bool untrusted) : heap_(heap), text_(text), untrusted_(untrusted) {}

  Value read() {
    Value v = value(0);
    skip_space();
    if (pos_ != text_.size()) fail("text after the end of the value");
    return v;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    std::size_t line = 1, start = 0;
    for (std::size_t i = 0; i < pos_ && i < text_.size(); ++i)
      if (text_[i] == '\n') ++line, start = i + 1;
    throw Error(Code::invalid_argument, "JSON: " + what)
        .in("line " + std::to_string(line) + ", column " + std::to_string(pos_ - start + 1));
  }
  void skip_space() {
    while (pos_ < text_.size() && (text_[pos_] == ' ' || text_[pos_] == '\n' || text_[pos_] == '\r' || text_[pos_] == '\t')) ++pos_;
  }
  char peek() { return pos_ < text_.size() ? text_[pos_] : '\0'; }
  bool take(char c) {
    skip_space();
    if (peek() != c || pos_ == text_.size()) return false;
    ++pos_;
    return true;
  }
  bool word(std::string_view w) {
    if (text_.substr(pos_, w.size()) != w) return false;
    pos_ += w.size();
    return true;
  }

  Value value(int depth) {
    if (depth > kMaxDepth) fail("nested deeper than " + std::to_string(kMaxDepth));
    skip_space();
    switch (peek()) {
      case '{': return object(depth);
      case '[': return array(depth);
      case '"': return string();
      case 't':
        if (word("true")) return Value::of(true);
        break;
      case 'f':
        if (word("false")) return Value::of(false);
        break;
      case 'n':
        if (word("null")) return Value::none();
        break;
      default:
        if (peek() == '-' || (peek() >= '0' && peek() <= '9')) return number();
    }
    fail(pos_ == text_.size() ? "the text ends where a value should be" : "not a value");
  }

  Value object(int depth) {
    ++pos_;
    Dict* dict = make_dict(heap_);
    if (take('}')) return Value::of(dict);
    do {
      skip_space();
      if (peek() != '"') fail("a key in quotes should be here");
      const Value key = string();
      if (!take(':')) fail("':' should be here");
      set(heap_, *dict, key, value(depth + 1));
    } while (take(','));
    if (!take('}')) fail("',' or '}' should be here");
    return Value::of(dict);
  }

  Value array(int depth) {
    ++pos_;
    List* list = make_list(heap_);
    if (take(']')) return Value::of(list);
    do append(heap_, *list, value(depth + 1));
    while (take(','));
    if (!take(']')) fail("',' or ']' should be here");
    return Value::of(list);
  }

  Value number() {
    const std::size_t start = pos_;
    bool whole = true;
    const auto digits = [&] {
      const std::size_t from = pos_;
      while (peek() >= '0' && peek() <= '9') ++pos_;
      if (pos_ == from) fail("a digit should be here");
    };
    if (peek() == '-') ++pos_;
    if (peek() == '0')
      ++pos_;
    else
      digits();
    if (peek() == '.') ++pos_, whole = false, digits();
    if (peek() == 'e' || peek() == 'E') {
      ++pos_, whole = false;
      if (peek() == '+' || peek() == '-') ++pos_;
      digits();
    }
    const std::string_view t = text_.substr(start, pos_ - start);
    if (whole) {
      std::int64_t i = 0;
      if (std::from_chars(t.data(), t.data() + t.size(), i).ec == std::errc()) return Value::of(i);
      Value big = make_string(heap_, t);
      big.kind = Kind::big;
      return big;
    }
    double d = 0;
    if (std::from_chars(t.data(), t.data() + t.size(), d).ec != std::errc()) d = std::strtod(std::string(t).c_str(), nullptr);
    return Value::of(d);
  }

  unsigned hex4() {
    unsigned v = 0;
    if (pos_ + 4 > text_.size() || std::from_chars(text_.data() + pos_, text_.data() + pos_ + 4, v, 16).ptr != text_.data() + pos_ + 4)
      fail("four hex digits should be here");
    pos_ += 4;
    return v;
  }

  Value string() {
    const std::size_t start = ++pos_;
    const std::size_t end = text_.find_first_of("\"\\", start);
    if (end == text_.npos) fail("a string has no end");
    std::string out(text_.substr(start, end - start));
    for (pos_ = end; text_[pos_] != '"';) {
      if (text_[pos_] != '\\') {
        const std::size_t next = text_.find_first_of("\"\\", pos_);
        if (next == text_.npos) fail("a string has no end");
        out += text_.substr(pos_, next - pos_);
        pos_ = next;
        continue;
      }
      if (++pos_ >= text_.size()) fail("a string has no end");
      switch (text_[pos_++]) {
        case '"': out += '"'; break;
        case '\\': out += '\\'; break;
        case '/': out += '/'; break;
        case 'b': out += '\b'; break;
        case 'f': out += '\f'; break;
        case 'n': out += '\n'; break;
        case 'r': out += '\r'; break;
        case 't': out += '\t'; break;
        case 'u': {
          char32_t c = hex4();
          if (c >= 0xd800 && c < 0xdc00 && text_.substr(pos_, 2) == "\\u") {
            const std::size_t back = pos_;
            pos_ += 2;
            const char32_t low = hex4();
            if (low >= 0xdc00 && low < 0xe000)
              c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
            else
              pos_ = back;
          }
          append_code_point(out, c);
          break;
        }
        default: --pos_; fail("not an escape of JSON");
      }
      if (pos_ >= text_.size()) fail("a string has no end");
    }
    for (const char c : out.size() == end - start ? std::string_view(out) : std::string_view())
      if (static_cast<unsigned char>(c) < 0x20) fail("a control character in a string");
    ++pos_;
    return make_string(heap_, out, untrusted_);
  }

  Heap& heap_;
  std::string_view text_;
  std::size_t pos_ = 0;
  bool untrusted_;
};

// The text of a JSON string, without the origin: the writer below marks a whole run at once.
std::string quoted(std::string_view text, bool ensure_ascii) {
  static constexpr char kHex[] = "0123456789abcdef";
  const auto unit = [&](std::string& out, unsigned u) {
    out += "\\u";
    for (int shift = 12; shift >= 0; shift -= 4) out += kHex[u >> shift & 15];
  };
  std::string out = "\"";
  out.reserve(text.size() + 2);
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte >= 0x80 && ensure_ascii) {
      const char32_t c = next_code_point(text, i);
      if (c >= 0x10000) {
        unit(out, 0xd800 + ((c - 0x10000) >> 10));
        unit(out, 0xdc00 + ((c - 0x10000) & 0x3ff));
      } else {
        unit(out, c);
      }
      continue;
    }
    ++i;
    switch (byte) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      case '\b': out += "\\b"; break;
      case '\f': out += "\\f"; break;
      default:
        if (byte < 0x20 || (byte == 0x7f && ensure_ascii))
          unit(out, byte);
        else
          out += static_cast<char>(byte);
    }
  }
  return out += '"';
}

// Whether a string needs no escapes.
bool is_plain(std::string_view text, bool ensure_ascii) {
  unsigned found = 0;  // no branch a byte: the compiler makes vectors of it
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    found |= (byte < 0x20) | (byte == '"') | (byte == '\\') | (byte >= 0x7f && ensure_ascii);
  }
  return found == 0;
}

class JsonWriter {
 public:
  JsonWriter(Writer& out, const JsonStyle& style) : out_(out), style_(style) {}

  void write(const Value& v, int depth) {
    if (depth > kMaxDepth) throw Error(Code::invalid_argument, "a value is nested too deeply for JSON (or holds itself)");
    switch (v.kind) {
      case Kind::none: return out_.add("null");
      case Kind::boolean: return out_.add(v.boolean ? "true" : "false");
      case Kind::integer: {
        char digits[24];
        return out_.add({digits, std::to_chars(digits, digits + sizeof digits, v.integer).ptr});
      }
      case Kind::big: return out_.add(v.text());
      case Kind::real: return out_.add(real(v.real));
      case Kind::string: {
        const std::string_view text = v.text();
        if (!is_plain(text, style_.ensure_ascii)) return out_.add(quoted(text, style_.ensure_ascii), any_untrusted(*v.string));
        const bool untrusted = any_untrusted(*v.string);
        out_.add("\"", untrusted);
        out_.add(text, untrusted);
        return out_.add("\"", untrusted);
      }
      case Kind::list:
        if (v.list->type <= Sequence::group) return list(*v.list, depth);
        break;
      case Kind::dict: return dict(*v.dict, depth);
      case Kind::undefined: fail("Undefined");
      default: break;
    }
    fail(type_name(v));
  }

 private:
  [[noreturn]] static void fail(std::string_view type) {
    throw Error(Code::invalid_argument, "Object of type " + std::string(type) + " is not JSON serializable");
  }
  static std::string real(double d) {
    if (std::isnan(d)) return "NaN";
    if (std::isinf(d)) return d < 0 ? "-Infinity" : "Infinity";
    return float_repr(d);
  }
  void new_line(int depth) {
    if (!style_.pretty) return;
    out_.add("\n");
    for (int i = 0; i < depth; ++i) out_.add(style_.indent);
  }
  void list(const List& items, int depth) {
    if (items.size == 0) return out_.add("[]");
    out_.add("[");
    for (std::size_t i = 0; i < items.size; ++i) {
      if (i != 0) out_.add(style_.item_separator);
      new_line(depth + 1);
      write(items.at(i), depth + 1);
    }
    new_line(depth);
    out_.add("]");
  }
  void key(const Value& k) {
    switch (k.kind) {
      case Kind::string: return write(k, 0);
      case Kind::none:
      case Kind::boolean:
      case Kind::integer:
      case Kind::big:
      case Kind::real:
        out_.add("\"");
        write(k, 0);
        return out_.add("\"");
      default: throw Error(Code::invalid_argument, "keys must be str, int, float, bool or None, not " + std::string(type_name(k)));
    }
  }
  void dict(const Dict& d, int depth) {
    if (d.size == 0) return out_.add("{}");
    std::vector<const Entry*> order;
    if (style_.sort_keys) {
      for (std::size_t i = 0; i < d.size; ++i) order.push_back(&d.entries[i]);
      sort_stably(order.data(), order.size(), [](const Entry* a, const Entry* b) { return compare(a->key, b->key) < 0; });
    }
    out_.add("{");
    for (std::size_t i = 0; i < d.size; ++i) {
      if (i != 0) out_.add(style_.item_separator);
      new_line(depth + 1);
      const Entry& entry = style_.sort_keys ? *order[i] : d.entries[i];
      key(entry.key);
      out_.add(style_.key_separator);
      write(entry.value, depth + 1);
    }
    new_line(depth);
    out_.add("}");
  }

  Writer& out_;
  const JsonStyle& style_;
};

}  // namespace

Value parse_json(Heap& heap, std::string_view text, bool untrusted) { return Reader(heap, text, untrusted).read(); }

void write_json(Writer& out, const Value& value, const JsonStyle& style) { JsonWriter(out, style).write(value, 0); }

std::string to_json(const Value& value) {
  Heap heap;
  Writer out(heap);
  write_json(out, value, {});
  return out.text();
}

}  // namespace quern::templates
