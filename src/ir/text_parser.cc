#include <algorithm>
#include <charconv>
#include <cstring>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "ir/detail/text_values.h"
#include "ir/text.h"

namespace quern::ir {
namespace {

constexpr std::size_t kMaxTextBytes = std::size_t{1} << 26;
constexpr int kMaxRegionDepth = 64;
// Reading a size may cost some thousand times its length; a real graph repeats few of them.
constexpr std::size_t kMaxSizeTextBytes = std::size_t{1} << 20;

bool is_word_char(char c) { return detail::is_plain_name(std::string_view(&c, 1)); }

/// Characters to tokens; positions for messages.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {
    if (text.size() > kMaxTextBytes) throw Error(Code::resource_exhausted, "the text of a graph is longer than 64 MiB");
  }

  /// The next character that is neither space nor comment; 0 at the end.
  char peek() {
    while (at_ < text_.size()) {
      if (std::strchr(" \t\r\n", text_[at_]) != nullptr && text_[at_] != '\0') {
        ++at_;
      } else if (text_.substr(at_, 2) == "//") {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else {
        break;
      }
    }
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool at_end() { return peek() == '\0' && at_ == text_.size(); }
  bool take(char c) {
    if (peek() != c || at_ == text_.size()) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(std::string("'") + c + "' was expected");
  }
  /// Letters, digits, '_' and '.'; may be empty.
  std::string_view word() {
    peek();
    const std::size_t start = at_;
    while (at_ < text_.size() && is_word_char(text_[at_])) ++at_;
    return text_.substr(start, at_ - start);
  }
  bool take_word(std::string_view wanted) {
    peek();
    const std::size_t start = at_;
    if (word() == wanted) return true;
    at_ = start;
    return false;
  }
  /// A number as detail::float_text and std::to_string write them.
  std::string_view number() {
    peek();
    const std::size_t start = at_;
    while (at_ < text_.size() && (is_word_char(text_[at_]) || text_[at_] == '+' || text_[at_] == '-')) ++at_;
    if (text_.substr(start, at_ - start) == "nan" && text_.substr(at_, 1) == "(")
      at_ = std::min(text_.find(')', at_), text_.size() - 1) + 1;
    return text_.substr(start, at_ - start);
  }
  std::string quoted() {
    expect('"');
    std::string out;
    for (; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\n') fail("a line ends inside a string");
      if (text_[at_] != '\\') {
        out += text_[at_];
        continue;
      }
      const char c = ++at_ < text_.size() ? text_[at_] : '\0';
      if (c == 'x') {
        const auto byte = hex_byte(at_ + 1);
        out += static_cast<char>(byte);
        at_ += 2;
      } else if (c == '"' || c == '\\') {
        out += c;
      } else if (c == 'n' || c == 't') {
        out += c == 'n' ? '\n' : '\t';
      } else {
        fail("unknown escape in a string");
      }
    }
    if (at_ >= text_.size()) fail("a string has no end");
    ++at_;
    return out;
  }
  /// A plain word, or any name in quotes.
  std::string name(std::string_view what) {
    if (peek() == '"') return quoted();
    const std::string_view plain = word();
    if (plain.empty()) fail(std::string(what) + " was expected");
    return std::string(plain);
  }
  /// Up to, not including, the ',' or ']' that ends a size.
  std::string_view size_text() {
    peek();
    const std::size_t start = at_;
    for (int depth = 0; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '(') ++depth;
      if (c == ')') --depth;
      if (c == '\n' || (depth <= 0 && (c == ',' || c == ']'))) break;
    }
    return text_.substr(start, at_ - start);
  }
  /// The bytes of a string of hexadecimal digits.
  std::vector<std::byte> hex_bytes() {
    std::vector<std::byte> out;
    expect('"');
    for (; at_ < text_.size() && text_[at_] != '"'; at_ += 2) out.push_back(static_cast<std::byte>(hex_byte(at_)));
    expect('"');
    return out;
  }

  std::size_t position() {
    peek();
    return at_;
  }
  std::string describe(std::size_t position) const {
    const std::string_view before = text_.substr(0, position);
    const std::size_t line_start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
    return "line " + std::to_string(1 + std::count(before.begin(), before.end(), '\n')) + ", column " +
           std::to_string(position - line_start + 1);
  }
  [[noreturn]] void fail(const std::string& message, Code code = Code::invalid_argument) const { fail_at(at_, message, code); }
  [[noreturn]] void fail_at(std::size_t position, const std::string& message, Code code = Code::invalid_argument) const {
    throw Error(code, message).in(describe(position));
  }

 private:
  unsigned hex_byte(std::size_t at) {
    unsigned value = 0;
    const std::string_view digits = text_.substr(std::min(at, text_.size()), 2);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (error != std::errc() || end != digits.data() + 2) fail_at(at, "two hexadecimal digits were expected");
    return value;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

class Parser {
 public:
  Parser(std::string_view text, OpLookup ops, const ConstantLookup& constants) : in_(text), ops_(ops), constants_(constants) {}

  std::unique_ptr<Graph> whole() {
    auto g = graph(nullptr, 0);
    if (!in_.at_end()) in_.fail("text after the end of the graph");
    return g;
  }

 private:
  struct Result {
    std::size_t position;
    std::string name;
  };

  /// Adds the position to errors of the graph itself.
  template <class Make>
  auto placed(std::size_t position, Make make) {
    try {
      return make();
    } catch (Error& e) {
      e.in(in_.describe(position));
      throw;
    }
  }

  std::unique_ptr<Graph> graph(Graph* parent, int depth) {
    if (depth > kMaxRegionDepth) in_.fail("regions are nested too deeply", Code::resource_exhausted);
    if (!in_.take_word("graph")) in_.fail("'graph' was expected");
    auto g = std::make_unique<Graph>(in_.name("the graph's name"), parent);
    const std::size_t scope_start = scope_.size();
    in_.expect('(');
    if (!in_.take(')')) {
      do {
        const Result input = result();
        in_.expect(':');
        const Type t = type();
        define(input, placed(input.position, [&] { return g->add_input(input.name, t); }));
      } while (in_.take(','));
      in_.expect(')');
    }
    in_.expect('{');
    while (!in_.take_word("return")) statement(*g, depth);
    std::vector<Value*> outputs;
    if (in_.peek() != '}') {
      do outputs.push_back(use());
      while (in_.take(','));
    }
    in_.expect('}');
    g->set_outputs(std::move(outputs));
    // What a region makes is not seen outside it.
    for (std::size_t i = scope_start; i < scope_.size(); ++i) visible_.erase(scope_[i]);
    scope_.resize(scope_start);
    return g;
  }

  void statement(Graph& g, int depth) {
    std::vector<Result> results;
    if (in_.peek() == '%') {
      do results.push_back(result());
      while (in_.take(','));
      in_.expect('=');
    }
    const std::size_t position = in_.position();
    const std::string_view op_name = in_.word();
    if (op_name.empty()) in_.fail("a statement or 'return' was expected");
    if (op_name != "constant") return node(g, depth, std::move(results), position, op_name);
    if (results.size() != 1) in_.fail_at(position, "a constant has one name");
    constant(g, results[0]);
  }

  void constant(Graph& g, const Result& result) {
    const bool named = in_.peek() == '"';
    const std::string name = named ? in_.quoted() : "";
    in_.expect(':');
    const std::size_t position = in_.position();
    const Type t = type();
    Value* value = nullptr;
    if (in_.take('=')) {
      const std::vector<std::byte> bytes = elements(t);
      value = placed(position, [&] { return g.add_constant("", t, bytes); });
    } else {
      auto found = placed(position, [&] { return constants_ ? constants_(name, t) : nullptr; });
      if (found == nullptr) in_.fail_at(position, "there is no constant " + detail::quoted(name), Code::not_found);
      value = placed(position, [&] { return g.add_constant(t, std::move(found)); });
    }
    g.rename(value, result.name);
    define(result, value);
    const std::string_view wanted = named ? name : detail::implied_name(value);
    if (value->constant->name != wanted) {
      auto renamed = std::make_shared<Constant>(*value->constant);
      renamed->name = wanted;
      value->constant = std::move(renamed);
    }
  }

  /// The elements of a constant, as bytes.
  std::vector<std::byte> elements(const Type& t) {
    if (in_.take_word("hex")) return in_.hex_bytes();
    if (is_block(t.dtype)) in_.fail("the bytes of a block format are written as hex \"…\"");
    const auto size = static_cast<std::size_t>(block_bytes(t.dtype));
    std::vector<std::byte> bytes;
    const auto element = [&] {
      const std::size_t position = in_.position();
      bytes.resize(bytes.size() + size);
      const std::string_view text = in_.number();
      if (!detail::element_from_text(t.dtype, text, bytes.data() + bytes.size() - size))
        in_.fail_at(position, "'" + std::string(text) + "' is no element of type " + std::string(name(t.dtype)));
    };
    if (!in_.take('[')) {
      element();
    } else if (!in_.take(']')) {
      do element();
      while (in_.take(','));
      in_.expect(']');
    }
    return bytes;
  }

  void node(Graph& g, int depth, std::vector<Result> results, std::size_t position, std::string_view op_name) {
    const Op* op = ops_(op_name);
    if (op == nullptr) in_.fail_at(position, "there is no op '" + std::string(op_name) + "'", Code::not_found);
    std::optional<std::string> name;
    if (in_.take('@')) name = in_.name("the node's name");
    in_.expect('(');
    std::vector<Value*> inputs;
    if (!in_.take(')')) {
      do inputs.push_back(in_.peek() == '%' ? use() : absent());
      while (in_.take(','));
      in_.expect(')');
    }
    Attributes attributes;
    std::vector<std::unique_ptr<Graph>> regions;
    bool open = in_.take('{');  // attributes, or regions where there are no attributes
    if (open && !starts_region()) {
      attributes = attribute_list();
      open = false;
    }
    std::vector<std::pair<std::size_t, Type>> types;
    if (!open && in_.take(':')) {
      do {
        const std::size_t at = in_.position();
        types.emplace_back(at, type());
      } while (in_.take(','));
    }
    if (open || in_.take('{')) {
      do regions.push_back(graph(&g, depth + 1));
      while (!in_.take('}'));
    }

    // A made-up value name ("v12") implies no node name; any other is the node's.
    Value first;
    first.name = results.empty() ? "" : results[0].name;
    const std::string node_name = name ? *name : std::string(detail::implied_name(&first));
    Node* made = placed(position, [&] { return g.append(*op, std::move(inputs), std::move(attributes), node_name, std::move(regions)); });
    if (made->outputs.size() != results.size())
      in_.fail_at(position, std::string(op_name) + " makes " + std::to_string(made->outputs.size()) + " values, not " +
                                std::to_string(results.size()));
    if (!types.empty() && types.size() != results.size())
      in_.fail_at(types[0].first, std::to_string(types.size()) + " types for " + std::to_string(results.size()) + " values");
    for (std::size_t i = 0; i < types.size(); ++i)
      if (!(types[i].second == made->outputs[i]->type))
        in_.fail_at(types[i].first,
                    std::string(op_name) + " makes " + to_string(made->outputs[i]->type) + ", not " + to_string(types[i].second));
    rename_outputs(g, *made, results);
  }

  /// Gives outputs the names of the text, which no other value bears; one output may still hold the name of another for a turn.
  void rename_outputs(Graph& g, const Node& made, const std::vector<Result>& results) {
    for (bool again = true; again;) {
      again = false;
      for (std::size_t i = 0; i < results.size(); ++i) {
        if (made.outputs[i]->name == results[i].name) continue;
        g.rename(made.outputs[i], results[i].name);
        again = true;
      }
    }
    for (std::size_t i = 0; i < results.size(); ++i) define(results[i], made.outputs[i]);
  }

  bool starts_region() {
    Scanner ahead = in_;
    return ahead.take_word("graph") && ahead.peek() != '=';
  }

  Attributes attribute_list() {
    Attributes out;
    if (in_.take('}')) return out;
    do {
      const std::size_t position = in_.position();
      std::string key = in_.name("an attribute");
      in_.expect('=');
      if (!out.emplace(key, attribute()).second) in_.fail_at(position, "attribute '" + key + "' is written twice");
    } while (in_.take(','));
    in_.expect('}');
    return out;
  }

  Attribute attribute() {
    if (in_.peek() == '"') return in_.quoted();
    if (in_.take('[')) return list();
    const std::size_t position = in_.position();
    const std::string_view text = in_.number();
    if (text == "ints" || text == "floats" || text == "strings") {
      in_.expect('[');
      in_.expect(']');
      if (text == "ints") return std::vector<std::int64_t>();
      if (text == "floats") return std::vector<double>();
      return std::vector<std::string>();
    }
    if (const auto dtype = dtype_from_name(text)) return *dtype;
    return number(position, text);
  }

  Attribute number(std::size_t position, std::string_view text) {
    if (text.find_first_not_of("-0123456789") == std::string_view::npos) {
      std::int64_t value = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (error == std::errc() && end == text.data() + text.size()) return value;
    } else if (const auto value = detail::float_from_text(text)) {
      return *value;
    }
    in_.fail_at(position, text.empty() ? "a value was expected" : "'" + std::string(text) + "' is no value that fits an attribute");
  }

  Attribute list() {
    if (in_.peek() == ']') in_.fail("an empty list is written ints[], floats[] or strings[]");
    std::vector<std::int64_t> integers;
    std::vector<double> numbers;
    std::vector<std::string> texts;
    do {
      const std::size_t position = in_.position();
      Attribute element = in_.peek() == '"' ? Attribute(in_.quoted()) : number(position, in_.number());
      if (auto* i = std::get_if<std::int64_t>(&element)) integers.push_back(*i);
      if (auto* d = std::get_if<double>(&element)) numbers.push_back(*d);
      if (auto* s = std::get_if<std::string>(&element)) texts.push_back(std::move(*s));
      if (int(!integers.empty()) + int(!numbers.empty()) + int(!texts.empty()) > 1)
        in_.fail_at(position, "the elements of a list are of one kind");
    } while (in_.take(','));
    in_.expect(']');
    if (!integers.empty()) return integers;
    if (!numbers.empty()) return numbers;
    return texts;
  }

  Type type() {
    Type t;
    t.state = in_.take_word("state");
    const std::size_t position = in_.position();
    const std::string_view text = in_.word();
    const auto dtype = dtype_from_name(text);
    if (!dtype) in_.fail_at(position, text.empty() ? "a type was expected" : "there is no element type '" + std::string(text) + "'");
    t.dtype = *dtype;
    in_.expect('[');
    if (in_.take(']')) return t;
    do {
      t.shape.push_back(size());
      if (t.shape.size() > kMaxRank) in_.fail("a tensor has at most 8 dimensions");
    } while (in_.take(','));
    in_.expect(']');
    return t;
  }

  Dim size() {
    const std::size_t position = in_.position();
    const std::string_view text = in_.size_text();
    const auto known = sizes_.find(text);
    if (known != sizes_.end()) return known->second;
    size_bytes_ += text.size();
    if (size_bytes_ > kMaxSizeTextBytes) in_.fail_at(position, "the sizes in this text are too large in all", Code::resource_exhausted);
    return placed(position, [&] { return sizes_.emplace(text, Dim::parse(text)).first->second; });
  }

  Result result() {
    const std::size_t position = in_.position();
    in_.expect('%');
    Result r{position, in_.name("a value's name")};
    if (r.name.empty()) in_.fail_at(position, "a value's name is empty");
    if (!taken_.insert(r.name).second) in_.fail_at(position, "%" + r.name + " is made twice");
    return r;
  }

  void define(const Result& result, Value* value) {
    QUERN_ASSERT(value->name == result.name);
    visible_.emplace(result.name, value);
    scope_.push_back(result.name);
  }

  Value* use() {
    const std::size_t position = in_.position();
    in_.expect('%');
    const std::string name = in_.name("a value's name");
    const auto found = visible_.find(name);
    if (found == visible_.end()) in_.fail_at(position, "there is no %" + name + " here");
    return found->second;
  }

  Value* absent() {
    if (!in_.take_word("_")) in_.fail("a value or _ was expected");
    return nullptr;
  }

  Scanner in_;
  OpLookup ops_;
  const ConstantLookup& constants_;
  std::unordered_map<std::string, Value*> visible_;
  std::unordered_set<std::string> taken_;  // names are unique in the whole text
  std::vector<std::string> scope_;         // visible names, innermost region last
  std::unordered_map<std::string_view, Dim> sizes_;
  std::size_t size_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Graph> parse_graph(std::string_view text, OpLookup ops, const ConstantLookup& constants) {
  return Parser(text, ops, constants).whole();
}

}  // namespace quern::ir
