#pragma once

#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "templates/lexer.h"
#include "templates/program.h"

namespace quern::templates {

/// Recursive descent over the tokens, with jinja2's grammar. Statements are in parser.cc, expressions in parser_expressions.cc.
class Parser {
 public:
  explicit Parser(Program& program);
  void parse_all();

 private:
  // Statements
  NodeId body(std::initializer_list<std::string_view> ends);
  NodeId statement();
  NodeId statement_of(const Token& tag);
  NodeId for_statement();
  NodeId if_statement();
  NodeId set_statement();
  NodeId macro_statement();
  NodeId call_statement();
  NodeId filter_statement();
  NodeId with_statement();
  NodeId print_statement();
  NodeId block_statement();
  NodeId load_statement();
  NodeId autoescape_statement();
  NodeId loop_control(NodeKind kind);
  NodeId scoped_body(std::string_view end);
  void signature(MacroNode& macro);
  NodeId target(bool with_tuple, bool with_space, std::string_view end_word = {});
  NodeId simple_target(bool with_space);

  // Expressions
  NodeId expression(bool with_conditional = true);
  NodeId conditional();
  NodeId logical_or();
  NodeId logical_and();
  NodeId logical_not();
  NodeId comparison();
  NodeId sum();
  NodeId join();
  NodeId product();
  NodeId power();
  NodeId unary(bool with_filter = true);
  NodeId primary();
  NodeId postfix(NodeId node);
  NodeId filters_and_tests(NodeId node);
  NodeId subscript(NodeId object);
  std::size_t line_of(std::size_t offset);
  NodeId call(NodeId callee);
  NodeId filter(NodeId input, bool inline_start);
  NodeId test(NodeId input);
  NodeId tuple(bool with_conditional, bool parentheses, std::string_view end_word = {});
  NodeId list_literal();
  NodeId dict_literal();
  NodeId string_literal();
  NodeId number_literal();
  std::int32_t call_arguments();
  std::string dotted_name();

  // Nodes
  NodeId make(Node node, std::initializer_list<NodeId> children = {});
  NodeId make_list_node(NodeKind kind, std::uint32_t offset, const std::vector<NodeId>& items);
  NodeId constant(Value value, std::size_t offset);
  NodeId use_name(const Token& token);
  NameId intern(std::string_view name);
  std::int32_t row(const Row* found, std::string_view what, std::string_view name, std::size_t offset);
  /// Makes the node at least one taller than something that is no child in the list.
  NodeId cover(NodeId node, std::uint32_t height);
  std::uint32_t arguments_height(std::int32_t id) const { return id < 0 ? 0 : program_.arguments[static_cast<std::size_t>(id)].height; }
  std::uint32_t height_of(NodeId id) const { return id < 0 ? 0 : heights_[static_cast<std::size_t>(id)]; }

  // Tokens
  Token take();
  const Token& peek();  // the token after the current one
  bool skip_symbol(std::string_view s);
  bool skip_name(std::string_view s);
  Token expect(TokenKind kind);
  void expect_symbol(std::string_view s);
  void expect_name(std::string_view s);
  bool ends_tuple(std::string_view end_word) const;
  [[noreturn]] void fail(const std::string& message, std::size_t offset) const;
  static std::string described(const Token& token);
  [[noreturn]] void fail_tag(std::string_view name, std::size_t offset) const;
  [[noreturn]] void fail_unexpected(const Token& token, std::string_view expected) const;

  class Nested;  // counts recursion

  Program& program_;
  Lexer lexer_;
  Token current_, next_;
  bool has_next_ = false;
  // Unknown filters and tests where jinja2 refuses to compile. Found before it is known whether an `if` follows that makes them harmless.
  struct Unknown {
    std::string message;
    std::size_t offset;
  };
  std::vector<Unknown> unknown_;
  std::vector<std::uint16_t> heights_;
  std::unordered_map<std::string, NameId> interned_;
  std::vector<std::int32_t> open_macros_, open_loops_;
  std::set<std::string> blocks_;
  std::vector<std::string_view> tags_;               // statements that are open
  std::vector<std::vector<std::string_view>> ends_;  // and the words that each body may end with
  int loop_nesting_ = 0;                             // loops around the current statement inside the innermost macro
  bool soft_ = false;                                // inside an `if`: an unknown filter or test fails only when reached, as in jinja2
  int depth_ = 0;
  std::size_t line_ = 1, line_offset_ = 0;  // see line_of()
};

/// Guards a recursive rule.
class Parser::Nested {
 public:
  explicit Nested(Parser& parser);
  ~Nested() { --parser_.depth_; }

 private:
  Parser& parser_;
};

}  // namespace quern::templates
