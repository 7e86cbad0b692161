#include "tokenizers/detail/regex_parser.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "tokenizers/detail/unicode.h"
#include "tokenizers/detail/utf8.h"

namespace quern::tokenizers::detail {
namespace {

using Node = RegexNode;
using Kind = Node::Kind;
using NodePtr = std::unique_ptr<Node>;

constexpr std::size_t kMaxPattern = 1 << 16;
constexpr int kMaxDepth = 200;               // of groups and classes in each other
constexpr int kMaxStacked = 8;               // quantifiers behind each other
constexpr std::uint32_t kMaxCount = 10'000;  // of a counted repeat

NodePtr make(Kind kind) {
  auto node = std::make_unique<Node>();
  node->kind = kind;
  return node;
}
NodePtr make_set(CharSet set) {
  NodePtr node = make(Kind::set);
  node->set = std::move(set);
  return node;
}
NodePtr wrap(Kind kind, NodePtr child) {
  NodePtr node = make(kind);
  node->children.push_back(std::move(child));
  return node;
}

CharSet code_points(std::initializer_list<CharSet::Range> ranges) { return CharSet(std::vector<CharSet::Range>(ranges)); }

class Parser {
 public:
  Parser(std::string_view pattern, RegexSyntax syntax) : text_(pattern), syntax_(syntax) {}

  NodePtr parse() {
    if (text_.size() > kMaxPattern)
      throw Error(Code::resource_exhausted, fmt::format("a pattern has {} bytes; the limit is {}", text_.size(), kMaxPattern));
    if (valid_prefix(text_) != text_.size()) fail("it is not UTF-8");
    NodePtr node = alternation();
    if (at_ < text_.size()) fail("a ) without its (");
    return node;
  }

 private:
  struct Flags {
    bool ignore_case = false, multi_line = false, dot_all = false, extended = false;
  };

  [[noreturn]] void fail(std::string_view what, Code code = Code::data_corrupt) const {
    throw Error(code, fmt::format("pattern '{}{}': {} at byte {}", text_.substr(0, valid_prefix(text_.substr(0, 120))),
                                  text_.size() > 120 ? "…" : "", what, at_));
  }

  bool done() const { return at_ >= text_.size(); }
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool eat(std::string_view s) {
    if (!text_.substr(at_).starts_with(s)) return false;
    at_ += s.size();
    return true;
  }
  std::uint32_t take_character() {
    if (done()) fail("it ends too early");
    const std::uint32_t code = code_point(text_.data() + at_);
    at_ += character_length(text_[at_]);
    return code;
  }
  void enter() {
    if (++depth_ > kMaxDepth) fail("its groups are nested too deeply", Code::resource_exhausted);
  }

  NodePtr alternation() {
    enter();
    const Flags outer = flags_;
    NodePtr first = sequence();
    if (peek() == '|' && !done()) {
      NodePtr node = wrap(Kind::alternate, std::move(first));
      while (!done() && eat("|")) node->children.push_back(sequence());
      first = std::move(node);
    }
    flags_ = outer;
    --depth_;
    return first;
  }

  NodePtr sequence() {
    NodePtr node = make(Kind::concat);
    for (;;) {
      if (flags_.extended) skip_layout();
      if (done() || peek() == '|' || peek() == ')') break;
      if (NodePtr item = atom()) node->children.push_back(quantified(std::move(item)));
    }
    if (node->children.empty()) return make(Kind::empty);
    if (node->children.size() == 1) return std::move(node->children[0]);
    return node;
  }

  void skip_layout() {
    while (!done()) {
      if (peek() == '#') {
        while (!done() && peek() != '\n') ++at_;
      } else if (peek() == ' ' || (peek() >= '\t' && peek() <= '\r')) {
        ++at_;
      } else {
        return;
      }
    }
  }

  // Null: something that is no part of the tree, such as flags for what follows.
  NodePtr atom() {
    switch (peek()) {
      case '(': return group();
      case '[': return make_set(cased(character_class()));
      case '.': {
        ++at_;
        CharSet set = CharSet::of('\n', '\n');
        set.negate();
        return make_set(flags_.dot_all ? CharSet::all() : std::move(set));
      }
      case '^': return ++at_, make(syntax_ == RegexSyntax::oniguruma || flags_.multi_line ? Kind::line_begin : Kind::text_begin);
      case '$': return ++at_, make(syntax_ == RegexSyntax::oniguruma || flags_.multi_line ? Kind::line_end : Kind::text_end);
      case '\\': return escaped();
      case '*':
      case '+':
      case '?': fail("nothing to repeat");
      default: {
        const std::uint32_t code = take_character();
        return make_set(cased(CharSet::of(code, code)));
      }
    }
  }

  CharSet cased(CharSet set) const {
    if (flags_.ignore_case) set.add_cases();
    return set;
  }

  NodePtr group() {
    ++at_;  // (
    if (!eat("?")) return group_end(alternation());
    if (eat(":")) return group_end(alternation());
    if (eat(">")) return wrap(Kind::atomic, group_end(alternation()));
    if (eat("=")) return wrap(Kind::look_ahead, group_end(alternation()));
    if (eat("<=")) return wrap(Kind::look_behind, group_end(alternation()));
    const auto negated = [this](Kind kind) {
      NodePtr node = wrap(kind, group_end(alternation()));
      node->negated = true;
      return node;
    };
    if (eat("!")) return negated(Kind::look_ahead);
    if (eat("<!")) return negated(Kind::look_behind);
    if (eat("#")) {
      const std::size_t close = text_.find(')', at_);
      if (close == text_.npos) fail("a comment without its end");
      at_ = close + 1;
      return nullptr;
    }
    if (eat("P<") || eat("<")) {
      const std::size_t close = text_.find('>', at_);
      if (close == text_.npos || close == at_) fail("a group's name without its end");
      at_ = close + 1;
      return group_end(alternation());
    }
    return flag_group();
  }

  NodePtr group_end(NodePtr node) {
    if (!eat(")")) fail("a ( without its )");
    return node;
  }

  NodePtr flag_group() {
    Flags flags = flags_;
    bool on = true;
    for (;; ++at_) {
      switch (peek()) {
        case 'i': flags.ignore_case = on; continue;
        case 'x': flags.extended = on; continue;
        case 'm': (syntax_ == RegexSyntax::oniguruma ? flags.dot_all : flags.multi_line) = on; continue;
        case 's': flags.dot_all = on; continue;
        case 'u': continue;  // Unicode, which it always is
        case '-': on = false; continue;
        default: break;
      }
      break;
    }
    if (eat(")")) {
      flags_ = flags;  // until the end of the group that this stands in
      if (syntax_ != RegexSyntax::oniguruma) return nullptr;
      return alternation();  // Oniguruma: a(?i)b|c is a(?i:b|c)
    }
    if (!eat(":")) fail("an unknown kind of group");
    const Flags outer = std::exchange(flags_, flags);
    NodePtr node = alternation();
    flags_ = outer;
    return group_end(std::move(node));
  }

  NodePtr quantified(NodePtr item) {
    for (int stacked = 0;; ++stacked) {
      if (flags_.extended) skip_layout();
      std::uint32_t min = 0, max = Node::kUnbounded;
      const std::size_t before = at_;
      bool counted = false;
      if (eat("*")) {
      } else if (eat("+")) {
        min = 1;
      } else if (eat("?")) {
        max = 1;
      } else if (peek() == '{' && counts(min, max)) {
        counted = true;
      } else {
        return item;
      }
      if (item->kind >= Kind::text_begin && text_[before - 1] != ')') fail("an anchor cannot be repeated");
      if (stacked == kMaxStacked) fail("too many repeats of a repeat", Code::resource_exhausted);
      if (counted && min > max) at_ = before, fail("a repeat whose bounds are in the wrong order");
      const bool ruby_count = counted && syntax_ == RegexSyntax::oniguruma;
      NodePtr node = make(Kind::repeat);
      node->min = min, node->max = max;
      if (ruby_count && min == max && eat("?")) {  // x{n}? is (?:x{n})?
        node->children.push_back(std::move(item));
        item = wrap(Kind::repeat, std::move(node));
        item->max = 1;
        continue;
      }
      node->lazy = eat("?");
      const bool possessive = !node->lazy && !ruby_count && eat("+");
      node->children.push_back(std::move(item));
      simplify(*node);
      item = possessive ? wrap(Kind::atomic, std::move(node)) : std::move(node);
    }
  }

  // (x*)*, (x+)* and (x?)* are x*, and (x+)+ is x+: what no inner choice can tell apart.
  static void simplify(Node& node) {
    if (node.min > 1 || node.max != Node::kUnbounded || node.lazy) return;
    Node& inner = *node.children[0];
    if (inner.kind != Kind::repeat || inner.lazy || inner.min > 1 || inner.children[0]->kind != Kind::set) return;
    if (inner.max != Node::kUnbounded && inner.max != 1) return;
    node.min = std::min(node.min, inner.min);
    NodePtr body = std::move(inner.children[0]);
    node.children[0] = std::move(body);
  }

  // {n}, {n,}, {n,m}, {,m}; false, with nothing read, when the brace is a character.
  bool counts(std::uint32_t& min, std::uint32_t& max) {
    const std::size_t before = at_;
    ++at_;
    const auto low = number();
    std::optional<std::uint32_t> high = low;
    bool comma = false;
    if (eat(",")) comma = true, high = number();
    if (!eat("}") || (!low && !high)) {
      at_ = before;
      return false;
    }
    min = low.value_or(0);
    max = comma && !high ? Node::kUnbounded : *high;
    if (min > kMaxCount || (max != Node::kUnbounded && max > kMaxCount))
      fail("a repeat of more than 10,000 times", Code::resource_exhausted);
    return true;
  }
  std::optional<std::uint32_t> number() {
    std::optional<std::uint32_t> value;
    for (; peek() >= '0' && peek() <= '9'; ++at_)
      value = std::min(value.value_or(0) * 10 + static_cast<std::uint32_t>(peek() - '0'), 99'999u);
    return value;
  }

  NodePtr escaped() {
    switch (peek(1)) {
      case 'b':
      case 'B': {
        NodePtr node = make(Kind::word_boundary);
        node->negated = peek(1) == 'B';
        at_ += 2;
        return node;
      }
      case 'A': return at_ += 2, make(Kind::text_begin);
      case 'z': return at_ += 2, make(Kind::text_end);
      case 'Z': return at_ += 2, make(Kind::text_end_or_line_feed);
      case 'R': {  // a line break, CR LF as one
        at_ += 2;
        NodePtr both = make(Kind::concat);
        both->children.push_back(make_set(CharSet::of('\r', '\r')));
        both->children.push_back(make_set(CharSet::of('\n', '\n')));
        NodePtr node = wrap(Kind::alternate, std::move(both));
        node->children.push_back(make_set(code_points({{'\n', '\r'}, {0x85, 0x85}, {0x2028, 0x2029}})));
        return wrap(Kind::atomic, std::move(node));
      }
      default: {
        const bool named = std::string_view("sSdDhHwWpP").find(peek(1)) != std::string_view::npos;
        CharSet set = escaped_set();  // Oniguruma: case matters to a class that stands alone
        return make_set(named && syntax_ == RegexSyntax::oniguruma ? std::move(set) : cased(std::move(set)));
      }
    }
  }

  // An escape that stands for one character or a class, in and outside brackets.
  CharSet escaped_set() {
    ++at_;  // the backslash
    if (done()) fail("it ends in a backslash");
    const std::uint32_t c = take_character();
    const auto not_if = [](CharSet set, bool negated) {
      if (negated) set.negate();
      return set;
    };
    const auto literal = [](std::uint32_t code) { return CharSet::of(code, code); };
    switch (c) {
      case 's':
      case 'S': return not_if(*find_property("Space"), c == 'S');
      case 'd':
      case 'D': return not_if(*find_property("Digit"), c == 'D');
      case 'h':
      case 'H': return not_if(*find_property("XDigit"), c == 'H');
      case 'w':
      case 'W': {
        CharSet set = word_characters();
        if (syntax_ == RegexSyntax::rust) set.add(CharSet::of(0x200C, 0x200D));
        return not_if(std::move(set), c == 'W');
      }
      case 'p':
      case 'P': return property(c == 'P');
      case 't': return literal('\t');
      case 'n': return literal('\n');
      case 'r': return literal('\r');
      case 'f': return literal('\f');
      case 'v': return literal('\v');
      case 'a': return literal('\a');
      case 'e': return literal(0x1B);
      case '0': return literal(0);
      case 'x':
        if (peek() == '{') return literal(braced_code());
        return literal(hexadecimal(2));
      case 'u':
        if (peek() == '{') return literal(braced_code());
        return literal(hexadecimal(4));
      default: break;
    }
    if (c >= '1' && c <= '9') fail("a back reference", Code::unsupported);
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) fail("an escape that is not known", Code::unsupported);
    return literal(c);
  }

  std::uint32_t hexadecimal(std::size_t digits) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < digits; ++i) {
      const char c = peek();
      const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
      if (digit < 0) fail("a hexadecimal digit was expected");
      value = value << 4 | static_cast<std::uint32_t>(digit);
      ++at_;
    }
    return value;
  }
  std::uint32_t braced_code() {
    ++at_;
    const std::size_t close = text_.find('}', at_);
    if (close == text_.npos || close == at_ || close - at_ > 6) fail("a code point in braces was expected");
    const std::uint32_t code = hexadecimal(close - at_);
    ++at_;
    if (code >= kCodePoints) fail("there is no such code point");
    return code;
  }

  CharSet property(bool negated) {
    std::string_view name;
    if (peek() == '{') {
      const std::size_t close = text_.find('}', at_);
      if (close == text_.npos) fail("a property's name without its end");
      name = text_.substr(at_ + 1, close - at_ - 1);
      if (name.starts_with('^')) negated = !negated, name.remove_prefix(1);
      at_ = close + 1;
    } else if (!done()) {
      name = text_.substr(at_, 1);
      take_character();
    }
    auto set = find_property(name);
    if (!set) fail(fmt::format("the property '{}' is not known", name.substr(0, valid_prefix(name.substr(0, 40)))), Code::unsupported);
    if (negated) set->negate();
    return *std::move(set);
  }

  CharSet character_class() {
    enter();
    ++at_;  // [
    const bool negated = eat("^");
    CharSet set;
    std::optional<CharSet> intersection;
    for (bool first = true;; first = false) {
      if (done()) fail("a [ without its ]");
      if (peek() == ']' && !first) break;
      if (eat("&&")) {
        and_with(intersection, std::move(set));
        set = {};
        continue;
      }
      if (text_.substr(at_).starts_with("[:")) {
        if (const auto posix = posix_class()) {
          set.add(*posix);
          continue;
        }
      }
      if (peek() == '[') {
        set.add(character_class());
        continue;
      }
      const CharSet one = class_item();
      const bool single = one.ranges().size() == 1 && one.ranges()[0].first == one.ranges()[0].last;
      if (single && peek() == '-' && peek(1) != ']' && peek(1) != '[' && peek(1) != '\0') {
        const std::size_t before = at_;
        ++at_;
        const CharSet other = class_item();
        const bool other_single = other.ranges().size() == 1 && other.ranges()[0].first == other.ranges()[0].last;
        if (!other_single) {  // a-\d: the three of them
          set.add(one), set.add(CharSet::of('-', '-')), set.add(other);
          continue;
        }
        if (other.ranges()[0].first < one.ranges()[0].first) at_ = before, fail("a range in the wrong order");
        set.add(CharSet::of(one.ranges()[0].first, other.ranges()[0].first));
        continue;
      }
      set.add(one);
    }
    ++at_;  // ]
    if (intersection) and_with(intersection, std::move(set)), set = *std::move(intersection);
    if (flags_.ignore_case) set.add_cases();  // before it is negated
    if (negated) set.negate();
    --depth_;
    return set;
  }

  static void and_with(std::optional<CharSet>& intersection, CharSet set) {
    if (!intersection) {
      intersection = std::move(set);
    } else {
      intersection->intersect(set);
    }
  }

  CharSet class_item() {
    if (peek() == '\\') {
      if (peek(1) == 'b') return at_ += 2, CharSet::of('\b', '\b');
      return escaped_set();
    }
    const std::uint32_t code = take_character();
    return CharSet::of(code, code);
  }

  // [:alpha:], [:^alpha:]; nothing, with nothing read, when it is none.
  std::optional<CharSet> posix_class() {
    const std::size_t close = text_.find(":]", at_ + 2);
    if (close == text_.npos || close - at_ > 20) return std::nullopt;
    std::string_view name = text_.substr(at_ + 2, close - at_ - 2);
    const bool negated = name.starts_with('^');
    if (negated) name.remove_prefix(1);
    auto set = find_property(name);
    if (!set) return std::nullopt;
    if (negated) set->negate();
    at_ = close + 2;
    return set;
  }

  std::string_view text_;
  RegexSyntax syntax_;
  std::size_t at_ = 0;
  Flags flags_;
  int depth_ = 0;
};

}  // namespace

std::unique_ptr<RegexNode> parse_regex(std::string_view pattern, RegexSyntax syntax) { return Parser(pattern, syntax).parse(); }

}  // namespace quern::tokenizers::detail
