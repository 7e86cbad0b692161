#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "templates/builtins.h"
#include "templates/operators.h"
#include "templates/value.h"

// A parsed template: nodes in one array that refer to each other by number, names interned, built-ins resolved.
namespace quern::templates {

using NodeId = std::int32_t;
using NameId = std::int32_t;
constexpr NodeId kNoNode = -1;

enum class NodeKind : std::uint8_t {
  // Expressions. a, b, c, d as said; "items" = program.lists[first, first + count).
  constant,        // a: constant
  name,            // a: name, b: slot (none: of the context), c: scopes out, d: program.places to look at after that
  attribute,       // a: object, b: name
  item,            // a: object, b: key
  slice,           // a: object, b: start, c: stop, d: step
  constant_slice,  // the same inside of a constant expression: what cannot be sliced is undefined
  call,            // a: callee, b: arguments
  filter,          // a: input (none: the text of a filter block), b: arguments, c: filter, d: name
  test,            // a: input, b: arguments, c: test, d: name
  list,            // items
  tuple,           // items
  dict,            // items: key, value, key, value …
  sum,             // items: a + b + c …
  join,            // items: a ~ b ~ c …
  binary,          // op, a, b
  negative,        // a
  positive,        // a
  logical_not,     // a
  logical_and,     // items
  logical_or,      // items
  compare,         // a, items: comparison, operand, comparison, operand …
  conditional,     // a: test, b: then, c: else
  // Statements
  text,          // a: constant
  output,        // a: expression
  sequence,      // items
  choice,        // items: test, body, test, body … [body]
  loop,          // a: program.loops
  assign,        // a: target, b: value
  set_block,     // a: target, b: filter chain on the text, c: body, d: slots
  macro,         // a: program.macros
  call_block,    // a: program.macros of the body, b: the call
  filter_block,  // a: filter chain, b: body, c: slots
  generation,    // a: body, b: slots
  with,          // items: target, value …; a: body, b: slots
  loop_break,
  loop_continue,
  block,       // a: program.blocks
  load,        // a: the name of a template: an error when reached
  autoescape,  // a: expression, b: body, c: slots
  // Targets of an assignment: name (b: slot of the scope), tuple, and
  space_attribute,  // a: node of the name, b: attribute
};

enum class Comparison : std::int32_t { eq, ne, lt, le, gt, ge, in, not_in };

struct Node {
  NodeKind kind;
  Operator op = Operator::add;
  std::uint32_t offset = 0;  // in the source
  NodeId a = kNoNode, b = kNoNode, c = kNoNode, d = kNoNode;
  std::int32_t first = 0, count = 0;
};

struct ArgumentNodes {
  std::vector<NodeId> positional;
  std::vector<std::pair<NameId, NodeId>> named;
  NodeId star = kNoNode, double_star = kNoNode;
  std::uint32_t height = 0;  // of the tallest argument
};

struct LoopNode {
  NodeId target, iterable, condition = kNoNode, body, otherwise = kNoNode;
  bool recursive = false, uses_loop = false;
  std::int32_t slot = 0;  // of `loop`
  std::int32_t scope_size = 0, condition_size = 0, otherwise_size = 0;
};

struct BlockNode {
  NameId name;
  NodeId body;
  bool scoped = false, required = false;  // scoped: it sees the names around it
  std::int32_t depth = 0;                 // scopes around it that its names count
  std::int32_t around_size = 0;           // cells of the largest of these
  std::int32_t scope_size = 0;
};

struct MacroNode {
  NameId name;
  std::vector<NameId> parameters;
  std::vector<Value> missing;    // what each parameter is when neither given nor defaulted
  std::vector<NodeId> defaults;  // as many as parameters; kNoNode where there is none
  NodeId body;
  std::uint32_t height = 0;  // of the tallest default
  bool uses_caller = false, uses_varargs = false, uses_kwargs = false;
  bool anonymous = false;           // the body of a call block
  std::int32_t slot = 0;            // of the name, where the macro stands
  std::vector<std::int32_t> slots;  // of the parameters
  std::int32_t caller_slot = 0, varargs_slot = 0, kwargs_slot = 0, scope_size = 0;
};

/// Where a name may be defined too.
struct Place {
  std::int32_t hops, slot;
  bool last, closed;  // closed: what is defined nowhere here is undefined, whatever the caller gave
};
constexpr std::int32_t kNothing = -2;  // in place of program.places: as closed

struct NameInfo {
  Value text;
  const Function* global = nullptr;
  MethodRows methods;
};

/// Names that the interpreter itself looks for are interned first, in this order.
enum Known : NameId {
  kLoop,
  kCaller,
  kVarargs,
  kKwargs,
  kIndex,
  kIndex0,
  kFirst,
  kLast,
  kLength,
  kRevindex,
  kRevindex0,
  kPrevitem,
  kNextitem,
  kDepth,
  kDepth0,
  kCycle,
  kChanged,
  kSelf,
  kSuper,
  kKnownNames
};

struct Program {
  std::string name, source;
  Heap heap;
  std::vector<Node> nodes;
  std::vector<NodeId> lists;
  std::vector<Value> constants;
  std::vector<NameInfo> names;
  std::vector<ArgumentNodes> arguments;
  std::vector<const Row*> rows;  // filters and tests in use; nullptr where there is none of that name
  std::vector<LoopNode> loops;
  std::vector<MacroNode> macros;
  std::vector<BlockNode> blocks;
  std::vector<Place> places;
  NodeId root = kNoNode;
  std::int32_t scope_size = 0;  // slots of the outermost scope
};

/// Errors: invalid_argument with name, line and column; resource_exhausted where nesting is too deep.
void parse(Program& program);
/// The last part of parsing: gives names their slots, and makes one text of texts in a row.
void resolve(Program& program);

}  // namespace quern::templates
