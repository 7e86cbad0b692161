#include "templates/parser.h"

#include <algorithm>
#include <utility>

namespace quern::templates {
namespace {

constexpr int kMaxNesting = 100;           // of brackets and statements; jinja2 itself gives up at about 75
constexpr std::uint32_t kMaxHeight = 400;  // of the tree, which the interpreter walks recursively
constexpr std::size_t kMaxNodes = 1 << 20;

std::string described_token(const Token& t) {
  switch (t.kind) {
    case TokenKind::end: return "end of template";
    case TokenKind::variable_end: return "end of print statement";
    case TokenKind::block_end: return "end of statement block";
    case TokenKind::string: return "string";
    case TokenKind::integer: return "integer";
    case TokenKind::real: return "float";
    default: return std::string(t.text.substr(0, 40));
  }
}

}  // namespace

std::string Parser::described(const Token& token) { return described_token(token); }

void parse(Program& program) { Parser(program).parse_all(); }

Parser::Parser(Program& program) : program_(program), lexer_(program.name, program.source) {
  static constexpr std::string_view kNames[] = {"loop",   "caller", "varargs",  "kwargs",    "index",    "index0",   "first",
                                                "last",   "length", "revindex", "revindex0", "previtem", "nextitem", "depth",
                                                "depth0", "cycle",  "changed",  "self",      "super"};
  static_assert(std::size(kNames) == kKnownNames);
  for (const std::string_view name : kNames) intern(name);
  current_ = lexer_.next();
}

void Parser::parse_all() {
  program_.root = body({});
  if (!current_.is(TokenKind::end)) fail_unexpected(current_, "");
  if (!unknown_.empty()) fail(unknown_[0].message, unknown_[0].offset);
  resolve(program_);
}

Parser::Nested::Nested(Parser& parser) : parser_(parser) {
  if (++parser_.depth_ > kMaxNesting) {
    --parser_.depth_;
    throw Error(Code::resource_exhausted, "nested deeper than " + std::to_string(kMaxNesting) + " levels")
        .in(position(parser_.program_.name, parser_.program_.source, parser_.current_.offset));
  }
}

void Parser::fail(const std::string& message, std::size_t offset) const {
  throw Error(Code::invalid_argument, message).in(position(program_.name, program_.source, offset));
}

void Parser::fail_unexpected(const Token& token, std::string_view expected) const {
  if (expected.empty()) fail("unexpected '" + described_token(token) + "'", token.offset);
  fail("expected token '" + std::string(expected) + "', got '" + described_token(token) + "'", token.offset);
}

Token Parser::take() {
  const Token token = current_;
  current_ = has_next_ ? next_ : lexer_.next();
  has_next_ = false;
  return token;
}

const Token& Parser::peek() {
  if (!has_next_) next_ = lexer_.next();
  has_next_ = true;
  return next_;
}

bool Parser::skip_symbol(std::string_view s) {
  if (!current_.is_symbol(s)) return false;
  take();
  return true;
}

bool Parser::skip_name(std::string_view s) {
  if (!current_.is_name(s)) return false;
  take();
  return true;
}

Token Parser::expect(TokenKind kind) {
  if (!current_.is(kind))
    fail_unexpected(current_, kind == TokenKind::name           ? "name"
                              : kind == TokenKind::block_end    ? "end of statement block"
                              : kind == TokenKind::variable_end ? "end of print statement"
                                                                : "something else");
  return take();
}

void Parser::expect_symbol(std::string_view s) {
  if (!skip_symbol(s)) fail_unexpected(current_, s);
}

void Parser::expect_name(std::string_view s) {
  if (!skip_name(s)) fail_unexpected(current_, s);
}

NameId Parser::intern(std::string_view name) {
  const auto [at, added] = interned_.try_emplace(std::string(name), static_cast<NameId>(program_.names.size()));
  if (added) program_.names.push_back({make_string(program_.heap, name), find_global(name), find_methods(name)});
  return at->second;
}

NodeId Parser::make(Node node, std::initializer_list<NodeId> children) {
  std::uint32_t height = 0;
  for (const NodeId child : children) height = std::max(height, height_of(child));
  for (std::int32_t i = 0; i < node.count; ++i)
    height = std::max(height, height_of(program_.lists[static_cast<std::size_t>(node.first + i)]));
  if (height >= kMaxHeight || program_.nodes.size() >= kMaxNodes)
    throw Error(Code::resource_exhausted, "too long or too deeply nested").in(position(program_.name, program_.source, node.offset));
  program_.nodes.push_back(node);
  heights_.push_back(static_cast<std::uint16_t>(height + 1));
  return static_cast<NodeId>(program_.nodes.size() - 1);
}

NodeId Parser::cover(NodeId node, std::uint32_t height) {
  if (height >= kMaxHeight)
    throw Error(Code::resource_exhausted, "too long or too deeply nested")
        .in(position(program_.name, program_.source, program_.nodes[static_cast<std::size_t>(node)].offset));
  std::uint16_t& own = heights_[static_cast<std::size_t>(node)];
  own = std::max(own, static_cast<std::uint16_t>(height + 1));
  return node;
}

NodeId Parser::make_list_node(NodeKind kind, std::uint32_t offset, const std::vector<NodeId>& items) {
  Node node{.kind = kind, .offset = offset};
  node.first = static_cast<std::int32_t>(program_.lists.size());
  node.count = static_cast<std::int32_t>(items.size());
  program_.lists.insert(program_.lists.end(), items.begin(), items.end());
  return make(node);
}

NodeId Parser::constant(Value value, std::size_t offset) {
  program_.constants.push_back(value);
  return make(
      {.kind = NodeKind::constant, .offset = static_cast<std::uint32_t>(offset), .a = static_cast<NodeId>(program_.constants.size() - 1)});
}

NodeId Parser::use_name(const Token& token) {
  const NameId id = intern(token.text);
  if (id == kLoop)
    for (const std::int32_t loop : open_loops_) program_.loops[static_cast<std::size_t>(loop)].uses_loop = true;
  for (const std::int32_t m : open_macros_) {
    MacroNode& macro = program_.macros[static_cast<std::size_t>(m)];
    macro.uses_caller |= id == kCaller;
    macro.uses_varargs |= id == kVarargs;
    macro.uses_kwargs |= id == kKwargs;
  }
  return make({.kind = NodeKind::name, .offset = static_cast<std::uint32_t>(token.offset), .a = id});
}

std::int32_t Parser::row(const Row* found, std::string_view what, std::string_view name, std::size_t offset) {
  if (!found && !soft_) unknown_.push_back({"No " + std::string(what) + " named '" + std::string(name) + "'.", offset});
  program_.rows.push_back(found);
  return static_cast<std::int32_t>(program_.rows.size() - 1);
}

// Text, output and statements up to a tag whose first word is one of `ends` (which stays current), or to the end of the template.
NodeId Parser::body(std::initializer_list<std::string_view> ends) {
  const Nested nested(*this);
  if (ends.size() != 0) ends_.emplace_back(ends);
  std::vector<NodeId> items;
  const auto offset = static_cast<std::uint32_t>(current_.offset);
  for (;;) {
    const Token token = current_;
    if (token.is(TokenKind::end)) break;
    if (token.is(TokenKind::data)) {
      take();
      if (token.text.empty()) continue;
      const NodeId text = constant(view_string(program_.heap, token.text), token.offset);
      program_.nodes[static_cast<std::size_t>(text)].kind = NodeKind::text;
      items.push_back(text);
    } else if (token.is(TokenKind::variable_begin)) {
      take();
      const NodeId value = tuple(true, false);
      items.push_back(make({.kind = NodeKind::output, .offset = static_cast<std::uint32_t>(token.offset), .a = value}, {value}));
      expect(TokenKind::variable_end);
    } else if (token.is(TokenKind::block_begin)) {
      take();
      if (std::any_of(ends.begin(), ends.end(), [&](std::string_view end) { return current_.is_name(end); })) {
        ends_.pop_back();
        return make_list_node(NodeKind::sequence, offset, items);
      }
      items.push_back(statement());
      expect(TokenKind::block_end);
    } else {
      fail_unexpected(token, "");
    }
  }
  if (ends.size() != 0) fail_tag({}, program_.source.size());
  return make_list_node(NodeKind::sequence, offset, items);
}

NodeId Parser::statement() {
  const Nested nested(*this);
  if (!current_.is(TokenKind::name)) fail("tag name expected", current_.offset);
  const Token tag = current_;
  tags_.push_back(tag.text);
  const NodeId node = statement_of(tag);
  tags_.pop_back();
  return node;
}

NodeId Parser::statement_of(const Token& tag) {
  struct Rule {
    std::string_view word;
    NodeId (Parser::*parse)();
  };
  static constexpr Rule kRules[] = {
      {"for", &Parser::for_statement},      {"if", &Parser::if_statement},
      {"set", &Parser::set_statement},      {"macro", &Parser::macro_statement},
      {"call", &Parser::call_statement},    {"filter", &Parser::filter_statement},
      {"with", &Parser::with_statement},    {"print", &Parser::print_statement},
      {"block", &Parser::block_statement},  {"extends", &Parser::load_statement},
      {"include", &Parser::load_statement}, {"import", &Parser::load_statement},
      {"from", &Parser::load_statement},    {"autoescape", &Parser::autoescape_statement},
  };
  for (const Rule& rule : kRules)
    if (tag.text == rule.word) return (this->*rule.parse)();
  if (tag.text == "break") return loop_control(NodeKind::loop_break);
  if (tag.text == "continue") return loop_control(NodeKind::loop_continue);
  if (tag.text == "generation") {
    take();
    expect(TokenKind::block_end);
    const int loops = std::exchange(loop_nesting_, 0);
    const NodeId inner = scoped_body("endgeneration");
    loop_nesting_ = loops;
    return make({.kind = NodeKind::generation, .offset = static_cast<std::uint32_t>(tag.offset), .a = inner}, {inner});
  }
  fail_tag(tag.text, tag.offset);
}

// A tag that nothing begins with, or (without a name) the end of the template inside a statement; with what was looked for.
void Parser::fail_tag(std::string_view name, std::size_t offset) const {
  const auto quoted = [](std::string_view word) { return "'" + std::string(word) + "'"; };
  std::string message = name.empty() ? "Unexpected end of template." : "Encountered unknown tag " + quoted(name) + ".";
  if (!ends_.empty()) {
    std::string looking;
    for (const std::string_view end : ends_.back()) looking += (looking.empty() ? "" : " or ") + quoted(end);
    bool expected = false;
    for (const auto& ends : ends_) expected = expected || std::find(ends.begin(), ends.end(), name) != ends.end();
    message += expected ? " You probably made a nesting mistake. Jinja is expecting this tag, but currently looking for " + looking + "."
                        : " Jinja was looking for the following tags: " + looking + ".";
  }
  const std::size_t own = name.empty() ? 0 : 1;  // the unknown tag itself
  if (tags_.size() > own) message += " The innermost block that needs to be closed is " + quoted(tags_[tags_.size() - 1 - own]) + ".";
  fail(message, offset);
}

// A body in which names of its own live and which `if`s around do not soften.
NodeId Parser::scoped_body(std::string_view end) {
  const bool soft = std::exchange(soft_, false);
  const NodeId node = body({end});
  soft_ = soft;
  take();
  return node;
}

NodeId Parser::loop_control(NodeKind kind) {
  const Token tag = take();
  if (loop_nesting_ == 0) fail("'" + std::string(tag.text) + "' outside loop", tag.offset);
  return make({.kind = kind, .offset = static_cast<std::uint32_t>(tag.offset)});
}

NodeId Parser::for_statement() {
  const Token tag = take();
  LoopNode loop{};
  loop.condition = loop.otherwise = kNoNode;
  loop.target = target(true, false, "in");
  expect_name("in");
  const bool soft = std::exchange(soft_, false);
  loop.iterable = tuple(false, false, "recursive");
  if (skip_name("if")) loop.condition = expression();
  loop.recursive = skip_name("recursive");
  expect(TokenKind::block_end);
  const auto id = static_cast<std::int32_t>(program_.loops.size());
  program_.loops.push_back(loop);
  open_loops_.push_back(id);
  ++loop_nesting_;
  const NodeId inner = body({"endfor", "else"});
  --loop_nesting_;
  open_loops_.pop_back();
  NodeId otherwise = kNoNode;
  if (take().text == "else") {
    expect(TokenKind::block_end);
    otherwise = body({"endfor"});
    take();
  }
  soft_ = soft;
  LoopNode& done = program_.loops[static_cast<std::size_t>(id)];
  done.body = inner;
  done.otherwise = otherwise;
  return make({.kind = NodeKind::loop, .offset = static_cast<std::uint32_t>(tag.offset), .a = id},
              {done.target, done.iterable, done.condition, inner, otherwise});
}

NodeId Parser::if_statement() {
  const Token tag = take();
  const bool soft = std::exchange(soft_, true);
  std::vector<NodeId> items;
  for (;;) {
    items.push_back(tuple(false, false));
    expect(TokenKind::block_end);
    items.push_back(body({"elif", "else", "endif"}));
    const Token word = take();
    if (word.text == "elif") continue;
    if (word.text == "else") {
      expect(TokenKind::block_end);
      items.push_back(body({"endif"}));
      take();
    }
    break;
  }
  soft_ = soft;
  return make_list_node(NodeKind::choice, static_cast<std::uint32_t>(tag.offset), items);
}

NodeId Parser::simple_target(bool with_space) {
  const Token token = expect(TokenKind::name);
  const auto offset = static_cast<std::uint32_t>(token.offset);
  for (const std::string_view constant : {"true", "false", "none", "True", "False", "None"})
    if (token.text == constant) fail("can't assign to '" + std::string(constant) + "'", token.offset);
  if (with_space && skip_symbol(".")) {
    const Token attribute = expect(TokenKind::name);
    const NodeId space = make({.kind = NodeKind::name, .offset = offset, .a = intern(token.text)});
    return make({.kind = NodeKind::space_attribute, .offset = offset, .a = space, .b = intern(attribute.text)}, {space});
  }
  return make({.kind = NodeKind::name, .offset = offset, .a = intern(token.text)});
}

NodeId Parser::target(bool with_tuple, bool with_space, std::string_view end_word) {
  const Nested nested(*this);
  const auto offset = static_cast<std::uint32_t>(current_.offset);
  std::vector<NodeId> items;
  bool is_tuple = false;
  do {
    if (is_tuple && (ends_tuple(end_word) || current_.is_symbol("="))) break;
    if (skip_symbol("(")) {
      items.push_back(target(true, with_space));
      expect_symbol(")");
    } else {
      items.push_back(simple_target(with_space));
    }
    if (!with_tuple || !current_.is_symbol(",")) break;
    is_tuple = true;
  } while (skip_symbol(","));
  return is_tuple ? make_list_node(NodeKind::tuple, offset, items) : items[0];
}

NodeId Parser::set_statement() {
  const Token tag = take();
  const auto offset = static_cast<std::uint32_t>(tag.offset);
  const NodeId to = target(true, true);
  if (skip_symbol("=")) {
    const NodeId value = tuple(true, false);
    return make({.kind = NodeKind::assign, .offset = offset, .a = to, .b = value}, {to, value});
  }
  const NodeId chain = current_.is_symbol("|") ? filter(kNoNode, false) : kNoNode;
  expect(TokenKind::block_end);
  const NodeId inner = scoped_body("endset");
  return make({.kind = NodeKind::set_block, .offset = offset, .a = to, .b = chain, .c = inner}, {to, chain, inner});
}

void Parser::signature(MacroNode& macro) {
  expect_symbol("(");
  while (!current_.is_symbol(")")) {
    if (!macro.parameters.empty()) expect_symbol(",");
    const Token name = expect(TokenKind::name);
    macro.parameters.push_back(intern(name.text));
    macro.missing.push_back(undefined_because(program_.heap, "parameter '" + std::string(name.text) + "' was not provided"));
    if (skip_symbol("=")) {
      macro.defaults.push_back(expression());
      macro.height = std::max(macro.height, height_of(macro.defaults.back()));
    } else if (!macro.defaults.empty() && macro.defaults.back() != kNoNode) {
      fail("non-default argument follows default argument", name.offset);
    } else {
      macro.defaults.push_back(kNoNode);
    }
  }
  expect_symbol(")");
}

NodeId Parser::macro_statement() {
  const Token tag = take();
  MacroNode macro{};
  macro.name = intern(expect(TokenKind::name).text);
  const auto id = static_cast<std::int32_t>(program_.macros.size());
  program_.macros.push_back(macro);
  open_macros_.push_back(id);
  signature(macro);
  expect(TokenKind::block_end);
  const int loops = std::exchange(loop_nesting_, 0);
  const NodeId inner = scoped_body("endmacro");
  loop_nesting_ = loops;
  open_macros_.pop_back();
  MacroNode& done = program_.macros[static_cast<std::size_t>(id)];
  done.parameters = macro.parameters;
  done.defaults = macro.defaults;
  done.missing = macro.missing;
  done.body = inner;
  return cover(make({.kind = NodeKind::macro, .offset = static_cast<std::uint32_t>(tag.offset), .a = id}, {inner}), macro.height);
}

NodeId Parser::call_statement() {
  const Token tag = take();
  MacroNode macro{};
  macro.name = intern("caller");
  macro.anonymous = true;
  const auto id = static_cast<std::int32_t>(program_.macros.size());
  program_.macros.push_back(macro);
  if (current_.is_symbol("(")) signature(macro);
  const NodeId callee = expression();
  if (program_.nodes[static_cast<std::size_t>(callee)].kind != NodeKind::call) fail("expected call", tag.offset);
  expect(TokenKind::block_end);
  open_macros_.push_back(id);
  const int loops = std::exchange(loop_nesting_, 0);
  const NodeId inner = scoped_body("endcall");
  loop_nesting_ = loops;
  open_macros_.pop_back();
  MacroNode& done = program_.macros[static_cast<std::size_t>(id)];
  done.parameters = macro.parameters;
  done.defaults = macro.defaults;
  done.missing = macro.missing;
  done.body = inner;
  const NodeId node =
      make({.kind = NodeKind::call_block, .offset = static_cast<std::uint32_t>(tag.offset), .a = id, .b = callee}, {callee, inner});
  return cover(node, macro.height);
}

NodeId Parser::filter_statement() {
  const Token tag = take();
  const NodeId chain = filter(kNoNode, true);
  expect(TokenKind::block_end);
  const NodeId inner = scoped_body("endfilter");
  return make({.kind = NodeKind::filter_block, .offset = static_cast<std::uint32_t>(tag.offset), .a = chain, .b = inner}, {chain, inner});
}

// A block stands where it is written, since there is no other template that could fill it.
NodeId Parser::block_statement() {
  const Token tag = take();
  const Token name = expect(TokenKind::name);
  if (!blocks_.insert(std::string(name.text)).second) fail("block '" + std::string(name.text) + "' defined twice", tag.offset);
  if (current_.is_symbol("-"))
    fail("Block names in Jinja have to be valid Python identifiers and may not contain hyphens, use an underscore instead.",
         current_.offset);
  const bool scoped = skip_name("scoped"), required = skip_name("required");
  expect(TokenKind::block_end);
  if (scoped)
    for (const std::int32_t loop : open_loops_) program_.loops[static_cast<std::size_t>(loop)].uses_loop = true;
  const auto id = static_cast<std::int32_t>(program_.blocks.size());
  program_.blocks.push_back({.name = intern(name.text), .body = kNoNode, .scoped = scoped, .required = required});
  const int loops = std::exchange(loop_nesting_, 0);
  const std::vector<std::int32_t> open_loops = std::exchange(open_loops_, {});
  const NodeId inner = scoped_body("endblock");
  open_loops_ = open_loops;
  loop_nesting_ = loops;
  skip_name(name.text);
  if (required && program_.nodes[static_cast<std::size_t>(inner)].count != 0)
    fail("Required blocks can only contain comments or whitespace", tag.offset);
  program_.blocks[static_cast<std::size_t>(id)].body = inner;
  return make({.kind = NodeKind::block, .offset = static_cast<std::uint32_t>(tag.offset), .a = id}, {inner});
}

// include, import, from, extends: read in full, and an error when reached, as in an environment that loads nothing.
NodeId Parser::load_statement() {
  const Token tag = take();
  const NodeId name = expression();
  const auto context = [&] {
    if ((current_.is_name("with") || current_.is_name("without")) && peek().is_name("context")) take(), take();
  };
  if (tag.text == "include") {
    if (current_.is_name("ignore") && peek().is_name("missing")) take(), take();
    context();
  } else if (tag.text == "import") {
    expect_name("as");
    simple_target(false);
    context();
  } else if (tag.text == "from") {
    expect_name("import");
    for (bool more = false; !current_.is(TokenKind::block_end); more = true) {
      if (more) expect_symbol(",");
      context();
      if (current_.is(TokenKind::block_end)) break;
      const Token imported = expect(TokenKind::name);
      if (imported.text.starts_with("_")) fail("names starting with an underline can not be imported", imported.offset);
      if (skip_name("as")) simple_target(false);
      context();
    }
  }
  return make({.kind = NodeKind::load, .offset = static_cast<std::uint32_t>(tag.offset), .a = name}, {name});
}

NodeId Parser::autoescape_statement() {
  const Token tag = take();
  const NodeId on = expression();
  expect(TokenKind::block_end);
  const NodeId inner = scoped_body("endautoescape");
  return make({.kind = NodeKind::autoescape, .offset = static_cast<std::uint32_t>(tag.offset), .a = on, .b = inner}, {on, inner});
}

NodeId Parser::with_statement() {
  const Token tag = take();
  std::vector<NodeId> items;
  while (!current_.is(TokenKind::block_end)) {
    if (!items.empty()) expect_symbol(",");
    items.push_back(target(false, false));
    expect_symbol("=");
    items.push_back(expression());
  }
  expect(TokenKind::block_end);
  const NodeId inner = scoped_body("endwith");
  const NodeId with = make_list_node(NodeKind::with, static_cast<std::uint32_t>(tag.offset), items);
  program_.nodes[static_cast<std::size_t>(with)].a = inner;
  return cover(with, height_of(inner));
}

NodeId Parser::print_statement() {
  const Token tag = take();
  std::vector<NodeId> items;
  while (!current_.is(TokenKind::block_end)) {
    if (!items.empty()) expect_symbol(",");
    const NodeId value = expression();
    items.push_back(make({.kind = NodeKind::output, .offset = static_cast<std::uint32_t>(tag.offset), .a = value}, {value}));
  }
  return make_list_node(NodeKind::sequence, static_cast<std::uint32_t>(tag.offset), items);
}

}  // namespace quern::templates
