#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "templates/big_integer.h"
#include "templates/parser.h"
#include "templates/text.h"

namespace quern::templates {
namespace {

// Python's escapes of a string literal; what is not an escape stays as written.
std::string unescaped(std::string_view text) {
  std::string out;
  const auto hex = [&](std::size_t& i, std::size_t digits) {
    unsigned long v = 0;
    const char* begin = text.data() + i + 1;
    if (i + 1 + digits > text.size() || std::from_chars(begin, begin + digits, v, 16).ptr != begin + digits)
      throw Error(Code::invalid_argument, "a string holds a truncated \\x, \\u or \\U escape");
    i += digits;
    append_code_point(out, static_cast<char32_t>(v));
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 >= text.size()) {
      out += text[i];
      continue;
    }
    switch (text[++i]) {
      case '\n': break;
      case '\\': out += '\\'; break;
      case '\'': out += '\''; break;
      case '"': out += '"'; break;
      case 'a': out += '\a'; break;
      case 'b': out += '\b'; break;
      case 'f': out += '\f'; break;
      case 'n': out += '\n'; break;
      case 'r': out += '\r'; break;
      case 't': out += '\t'; break;
      case 'v': out += '\v'; break;
      case 'x': hex(i, 2); break;
      case 'u': {
        const std::size_t first = i;
        unsigned low = 0, high = 0;
        const auto unit = [&](std::size_t at, unsigned& v) {
          return at + 5 <= text.size() && text[at] == 'u' &&
                 std::from_chars(text.data() + at + 1, text.data() + at + 5, v, 16).ptr == text.data() + at + 5;
        };
        if (unit(first, high) && high >= 0xd800 && high < 0xdc00 && first + 5 < text.size() && text[first + 5] == '\\' &&
            unit(first + 6, low) && low >= 0xdc00 && low < 0xe000) {
          append_code_point(out, 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00));
          i = first + 10;
        } else {
          hex(i, 4);
        }
        break;
      }
      case 'U': hex(i, 8); break;
      default:
        if (text[i] >= '0' && text[i] <= '7') {
          char32_t v = 0;
          std::size_t n = 0;
          for (; n < 3 && i + n < text.size() && text[i + n] >= '0' && text[i + n] <= '7'; ++n)
            v = v * 8 + static_cast<char32_t>(text[i + n] - '0');
          i += n - 1;
          append_code_point(out, v);
        } else {
          out += '\\';
          out += text[i];
        }
    }
  }
  return out;
}

std::uint32_t at(const Token& token) { return static_cast<std::uint32_t>(token.offset); }

}  // namespace

NodeId Parser::expression(bool with_conditional) {
  const Nested nested(*this);
  return with_conditional ? conditional() : logical_or();
}

// Counts from the last line that was asked for: whole templates would else be counted again and again.
std::size_t Parser::line_of(std::size_t offset) {
  const auto begin = program_.source.begin();
  const auto lines = [&](std::size_t from, std::size_t to) {
    return static_cast<std::size_t>(std::count(begin + static_cast<std::ptrdiff_t>(from), begin + static_cast<std::ptrdiff_t>(to), '\n'));
  };
  line_ = offset >= line_offset_ ? line_ + lines(line_offset_, offset) : line_ - lines(offset, line_offset_);
  line_offset_ = offset;
  return line_;
}

NodeId Parser::conditional() {
  const Token start = current_;
  const bool soft = soft_;
  const std::size_t known = unknown_.size();
  NodeId value = logical_or();
  while (skip_name("if")) {
    unknown_.erase(unknown_.begin() + static_cast<std::ptrdiff_t>(known), unknown_.end());
    soft_ = true;
    const NodeId test = logical_or();
    NodeId otherwise = kNoNode;
    if (skip_name("else")) {
      const Nested nested(*this);
      otherwise = conditional();
    }
    if (otherwise == kNoNode) {
      otherwise = constant(undefined_because(program_.heap, "the inline if-expression on line " + std::to_string(line_of(start.offset)) +
                                                                " evaluated to false and no else section was defined."),
                           start.offset);
    }
    value = make({.kind = NodeKind::conditional, .offset = at(start), .a = test, .b = value, .c = otherwise}, {test, value, otherwise});
  }
  soft_ = soft;
  return value;
}

NodeId Parser::logical_or() {
  const Token start = current_;
  std::vector<NodeId> items{logical_and()};
  while (skip_name("or")) items.push_back(logical_and());
  return items.size() == 1 ? items[0] : make_list_node(NodeKind::logical_or, at(start), items);
}

NodeId Parser::logical_and() {
  const Token start = current_;
  std::vector<NodeId> items{logical_not()};
  while (skip_name("and")) items.push_back(logical_not());
  return items.size() == 1 ? items[0] : make_list_node(NodeKind::logical_and, at(start), items);
}

NodeId Parser::logical_not() {
  if (!current_.is_name("not")) return comparison();
  const Nested nested(*this);
  const Token token = take();
  const NodeId operand = logical_not();
  return make({.kind = NodeKind::logical_not, .offset = at(token), .a = operand}, {operand});
}

NodeId Parser::comparison() {
  const Token start = current_;
  const NodeId left = sum();
  std::vector<NodeId> items;
  const auto add = [&](Comparison c) {
    items.push_back(static_cast<NodeId>(c));
    items.push_back(sum());
  };
  static constexpr std::pair<std::string_view, Comparison> kSymbols[] = {{"==", Comparison::eq}, {"!=", Comparison::ne},
                                                                         {"<", Comparison::lt},  {"<=", Comparison::le},
                                                                         {">", Comparison::gt},  {">=", Comparison::ge}};
  for (bool found = true; found;) {
    found = false;
    for (const auto& [symbol, comparison] : kSymbols) {
      if (!skip_symbol(symbol)) continue;
      add(comparison);
      found = true;
      break;
    }
    if (found) continue;
    if (skip_name("in")) {
      add(Comparison::in);
      found = true;
    } else if (current_.is_name("not") && peek().is_name("in")) {
      take();
      take();
      add(Comparison::not_in);
      found = true;
    }
  }
  if (items.empty()) return left;
  // The list holds comparisons too, which are no nodes: it is hung on after the node is made.
  const NodeId node = make({.kind = NodeKind::compare, .offset = at(start), .a = left}, {left});
  Node& made = program_.nodes[static_cast<std::size_t>(node)];
  made.first = static_cast<std::int32_t>(program_.lists.size());
  made.count = static_cast<std::int32_t>(items.size());
  program_.lists.insert(program_.lists.end(), items.begin(), items.end());
  for (std::size_t i = 1; i < items.size(); i += 2) cover(node, height_of(items[i]));
  return node;
}

NodeId Parser::sum() {
  const Token start = current_;
  std::vector<NodeId> items{join()};
  const auto close = [&] {  // a + b + c is one node
    return items.size() == 1 ? items[0] : make_list_node(NodeKind::sum, at(start), items);
  };
  for (;;) {
    if (skip_symbol("+")) {
      items.push_back(join());
    } else if (current_.is_symbol("-")) {
      const Token token = take();
      const NodeId left = close(), right = join();
      items = {make({.kind = NodeKind::binary, .op = Operator::subtract, .offset = at(token), .a = left, .b = right}, {left, right})};
    } else {
      return close();
    }
  }
}

NodeId Parser::join() {
  const Token start = current_;
  std::vector<NodeId> items{product()};
  while (skip_symbol("~")) items.push_back(product());
  return items.size() == 1 ? items[0] : make_list_node(NodeKind::join, at(start), items);
}

NodeId Parser::product() {
  static constexpr std::pair<std::string_view, Operator> kSymbols[] = {
      {"*", Operator::multiply}, {"/", Operator::divide}, {"//", Operator::floor_divide}, {"%", Operator::modulo}};
  NodeId left = power();
  for (bool found = true; found;) {
    found = false;
    for (const auto& [symbol, op] : kSymbols) {
      if (!current_.is_symbol(symbol)) continue;
      const Token token = take();
      const NodeId right = power();
      left = make({.kind = NodeKind::binary, .op = op, .offset = at(token), .a = left, .b = right}, {left, right});
      found = true;
      break;
    }
  }
  return left;
}

NodeId Parser::power() {
  NodeId left = unary();
  while (current_.is_symbol("**")) {
    const Token token = take();
    const NodeId right = unary();
    left = make({.kind = NodeKind::binary, .op = Operator::power, .offset = at(token), .a = left, .b = right}, {left, right});
  }
  return left;
}

NodeId Parser::unary(bool with_filter) {
  NodeId node = kNoNode;
  if (current_.is_symbol("-") || current_.is_symbol("+")) {
    const Nested nested(*this);
    const Token token = take();
    const NodeId operand = unary(false);
    node = make({.kind = token.text == "-" ? NodeKind::negative : NodeKind::positive, .offset = at(token), .a = operand}, {operand});
  } else {
    node = primary();
  }
  node = postfix(node);
  return with_filter ? filters_and_tests(node) : node;
}

NodeId Parser::primary() {
  const Token token = current_;
  switch (token.kind) {
    case TokenKind::name:
      take();
      if (token.text == "true" || token.text == "True") return constant(Value::of(true), token.offset);
      if (token.text == "false" || token.text == "False") return constant(Value::of(false), token.offset);
      if (token.text == "none" || token.text == "None") return constant(Value::none(), token.offset);
      return use_name(token);
    case TokenKind::string: return string_literal();
    case TokenKind::integer:
    case TokenKind::real: return number_literal();
    case TokenKind::symbol:
      if (token.text == "(") {
        take();
        const NodeId inner = tuple(true, true);
        expect_symbol(")");
        return inner;
      }
      if (token.text == "[") return list_literal();
      if (token.text == "{") return dict_literal();
      break;
    default: break;
  }
  fail_unexpected(token, "");
}

NodeId Parser::string_literal() {
  const Token token = current_;
  std::string text;
  while (current_.is(TokenKind::string)) {
    const std::string_view quoted = take().text;
    try {
      text += unescaped(quoted.substr(1, quoted.size() - 2));
    } catch (const Error& error) {
      fail(error.message(), token.offset);
    }
  }
  return constant(make_string(program_.heap, text), token.offset);
}

NodeId Parser::number_literal() {
  const Token token = take();
  std::string digits(token.text);
  std::erase(digits, '_');
  if (token.is(TokenKind::real)) return constant(Value::of(std::strtod(digits.c_str(), nullptr)), token.offset);
  int base = 10;
  if (digits.size() > 2 && digits[0] == '0') {
    const char mark = static_cast<char>(digits[1] | 0x20);
    base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
    if (base != 10) digits.erase(0, 2);
  }
  std::int64_t value = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (result.ec == std::errc()) return constant(Value::of(value), token.offset);
  if (base == 10 && digits.size() > 4300) fail("Exceeds the limit (4300 digits) for integer string conversion", token.offset);
  return constant(BigInteger::parse(digits, static_cast<unsigned>(base)).value(program_.heap), token.offset);
}

bool Parser::ends_tuple(std::string_view end_word) const {
  return current_.is(TokenKind::variable_end) || current_.is(TokenKind::block_end) || current_.is_symbol(")") ||
         (!end_word.empty() && current_.is_name(end_word));
}

NodeId Parser::tuple(bool with_conditional, bool parentheses, std::string_view end_word) {
  const Token start = current_;
  std::vector<NodeId> items;
  bool is_tuple = false;
  do {
    if (ends_tuple(end_word)) break;
    items.push_back(expression(with_conditional));
    if (!current_.is_symbol(",")) break;
    is_tuple = true;
  } while (skip_symbol(","));
  if (!is_tuple && !items.empty()) return items[0];
  if (!is_tuple && !parentheses) fail("Expected an expression, got '" + described(current_) + "'", current_.offset);
  return make_list_node(NodeKind::tuple, at(start), items);
}

NodeId Parser::list_literal() {
  const Token start = take();
  std::vector<NodeId> items;
  while (!current_.is_symbol("]")) {
    if (!items.empty()) expect_symbol(",");
    if (current_.is_symbol("]")) break;
    items.push_back(expression());
  }
  expect_symbol("]");
  return make_list_node(NodeKind::list, at(start), items);
}

NodeId Parser::dict_literal() {
  const Token start = take();
  std::vector<NodeId> items;
  while (!current_.is_symbol("}")) {
    if (!items.empty()) expect_symbol(",");
    if (current_.is_symbol("}")) break;
    items.push_back(expression());
    expect_symbol(":");
    items.push_back(expression());
  }
  expect_symbol("}");
  return make_list_node(NodeKind::dict, at(start), items);
}

NodeId Parser::postfix(NodeId node) {
  for (;;) {
    if (current_.is_symbol(".") || current_.is_symbol("["))
      node = subscript(node);
    else if (current_.is_symbol("("))
      node = call(node);
    else
      return node;
  }
}

NodeId Parser::filters_and_tests(NodeId node) {
  for (;;) {
    if (current_.is_symbol("|"))
      node = filter(node, false);
    else if (current_.is_name("is"))
      node = test(node);
    else if (current_.is_symbol("("))
      node = call(node);
    else
      return node;
  }
}

NodeId Parser::subscript(NodeId object) {
  const Token token = take();
  if (token.text == ".") {
    const Token attribute = take();
    if (attribute.is(TokenKind::name))
      return make({.kind = NodeKind::attribute, .offset = at(token), .a = object, .b = intern(attribute.text)}, {object});
    if (!attribute.is(TokenKind::integer)) fail("expected name or number", attribute.offset);
    std::int64_t index = 0;
    std::from_chars(attribute.text.data(), attribute.text.data() + attribute.text.size(), index);
    const NodeId key = constant(Value::of(index), attribute.offset);
    return make({.kind = NodeKind::item, .offset = at(token), .a = object, .b = key}, {object});
  }
  const bool slice = current_.is_symbol(":");
  NodeId first = slice || current_.is_symbol("]") ? kNoNode : expression();
  if (!slice && first == kNoNode) {
    first = make_list_node(NodeKind::tuple, at(token), {});
  } else if (current_.is_symbol(",") && !slice) {
    std::vector<NodeId> items{first};
    while (skip_symbol(",")) {
      if (current_.is_symbol("]")) break;
      items.push_back(expression());
    }
    first = make_list_node(NodeKind::tuple, at(token), items);
  } else if (skip_symbol(":")) {
    NodeId stop = kNoNode, step = kNoNode;
    if (!current_.is_symbol(":") && !current_.is_symbol("]")) stop = expression();
    if (skip_symbol(":") && !current_.is_symbol("]")) step = expression();
    expect_symbol("]");
    return make({.kind = NodeKind::slice, .offset = at(token), .a = object, .b = first, .c = stop, .d = step}, {object, first, stop, step});
  }
  expect_symbol("]");
  return make({.kind = NodeKind::item, .offset = at(token), .a = object, .b = first}, {object, first});
}

std::int32_t Parser::call_arguments() {
  const Nested nested(*this);
  ArgumentNodes arguments;
  std::set<NameId> names;
  expect_symbol("(");
  for (bool more = false; !current_.is_symbol(")"); more = true) {
    if (more) expect_symbol(",");
    if (current_.is_symbol(")")) break;
    const Token token = current_;
    if (skip_symbol("*")) {
      if (arguments.star != kNoNode || arguments.double_star != kNoNode) fail("invalid syntax for function call expression", token.offset);
      arguments.star = expression();
    } else if (skip_symbol("**")) {
      if (arguments.double_star != kNoNode) fail("invalid syntax for function call expression", token.offset);
      arguments.double_star = expression();
    } else if (token.is(TokenKind::name) && peek().is_symbol("=")) {
      if (arguments.double_star != kNoNode) fail("invalid syntax for function call expression", token.offset);
      take();
      take();
      const NameId name = intern(token.text);
      if (!names.insert(name).second) fail("keyword argument repeated: " + std::string(token.text), token.offset);
      arguments.named.emplace_back(name, expression());
    } else {
      if (arguments.star != kNoNode || arguments.double_star != kNoNode || !arguments.named.empty())
        fail("invalid syntax for function call expression", token.offset);
      arguments.positional.push_back(expression());
    }
  }
  expect_symbol(")");
  for (const NodeId node : arguments.positional) arguments.height = std::max(arguments.height, height_of(node));
  for (const auto& [name, node] : arguments.named) arguments.height = std::max(arguments.height, height_of(node));
  arguments.height = std::max({arguments.height, height_of(arguments.star), height_of(arguments.double_star)});
  program_.arguments.push_back(std::move(arguments));
  return static_cast<std::int32_t>(program_.arguments.size() - 1);
}

NodeId Parser::call(NodeId callee) {
  const Token token = current_;
  const std::int32_t arguments = call_arguments();
  return cover(make({.kind = NodeKind::call, .offset = at(token), .a = callee, .b = arguments}, {callee}), arguments_height(arguments));
}

std::string Parser::dotted_name() {
  std::string name(expect(TokenKind::name).text);
  while (skip_symbol(".")) name += "." + std::string(expect(TokenKind::name).text);
  return name;
}

NodeId Parser::filter(NodeId input, bool inline_start) {
  while (inline_start || current_.is_symbol("|")) {
    if (!inline_start) take();
    inline_start = false;
    const Token token = current_;
    const std::string name = dotted_name();
    const std::int32_t arguments = current_.is_symbol("(") ? call_arguments() : kNoNode;
    const std::int32_t found = row(find_filter(name), "filter", name, token.offset);
    input = make({.kind = NodeKind::filter, .offset = at(token), .a = input, .b = arguments, .c = found, .d = intern(name)}, {input});
    cover(input, arguments_height(arguments));
  }
  return input;
}

NodeId Parser::test(NodeId input) {
  take();
  const bool negated = skip_name("not");
  const Token token = current_;
  const std::string name = dotted_name();
  std::int32_t arguments = kNoNode;
  const bool word = current_.is(TokenKind::name) && !current_.is_name("else") && !current_.is_name("or") && !current_.is_name("and");
  if (current_.is_symbol("(")) {
    arguments = call_arguments();
  } else if (word || current_.is(TokenKind::string) || current_.is(TokenKind::integer) || current_.is(TokenKind::real) ||
             current_.is_symbol("[") || current_.is_symbol("{")) {
    if (current_.is_name("is")) fail("You cannot chain multiple tests with is", current_.offset);
    const Nested nested(*this);
    ArgumentNodes one;
    one.positional.push_back(postfix(primary()));
    one.height = height_of(one.positional[0]);
    program_.arguments.push_back(std::move(one));
    arguments = static_cast<std::int32_t>(program_.arguments.size() - 1);
  }
  const std::int32_t found = row(find_test(name), "test", name, token.offset);
  const NodeId node =
      make({.kind = NodeKind::test, .offset = at(token), .a = input, .b = arguments, .c = found, .d = intern(name)}, {input});
  cover(node, arguments_height(arguments));
  return negated ? make({.kind = NodeKind::logical_not, .offset = at(token), .a = node}, {node}) : node;
}

}  // namespace quern::templates
