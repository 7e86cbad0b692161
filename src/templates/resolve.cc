#include <algorithm>
#include <deque>

#include "templates/program.h"

// Names to slots, once a template: the interpreter then finds a name by counting scopes, without comparing names. What a name means is
// decided while rendering (an `if` may or may not have set it), so a use lists every scope around it that may define the name, inside out.
namespace quern::templates {
namespace {

class Resolver {
 public:
  explicit Resolver(Program& program) : program_(program), bindings_(program.names.size()), folded_(program.nodes.size(), kUnknown) {
    escapes_ = std::any_of(program.nodes.begin(), program.nodes.end(), [](const Node& n) { return n.kind == NodeKind::autoescape; });
  }

  void run() {
    program_.scope_size = open([&] { declare(program_.root); });
    visit(program_.root);
    while (!blocks_.empty()) {  // a block sees the outermost names and its own, wherever it stands
      const NodeId id = blocks_.front();
      blocks_.pop_front();
      node(id).d = inside([&] { declare(node(id).a); }, [&] { visit(node(id).a); });
    }
  }

 private:
  struct Binding {
    std::size_t level;
    std::int32_t slot;
  };

  Node& node(NodeId id) { return program_.nodes[static_cast<std::size_t>(id)]; }
  NodeId child(const Node& n, std::int32_t i) const { return program_.lists[static_cast<std::size_t>(n.first + i)]; }

  // ---- Scopes

  // Makes a scope of what `declare` names; returns how many slots it has.
  template <typename Declare>
  std::int32_t open(Declare declare_names) {
    scopes_.emplace_back();
    declare_names();
    return static_cast<std::int32_t>(scopes_.back().size());
  }
  void close() {
    for (const NameId name : scopes_.back()) bindings_[static_cast<std::size_t>(name)].pop_back();
    scopes_.pop_back();
  }
  template <typename Declare, typename Visit>
  std::int32_t inside(Declare declare_names, Visit visit_body) {
    const std::int32_t size = open(declare_names);
    visit_body();
    close();
    return size;
  }
  std::int32_t define(NameId name) {
    std::vector<Binding>& known = bindings_[static_cast<std::size_t>(name)];
    if (!known.empty() && known.back().level == scopes_.size()) return known.back().slot;
    std::vector<NameId>& scope = scopes_.back();
    known.push_back({scopes_.size(), static_cast<std::int32_t>(scope.size())});
    scope.push_back(name);
    return known.back().slot;
  }

  // ---- What the statements of one scope define

  void declare_target(NodeId id) {
    Node& n = node(id);
    if (n.kind == NodeKind::name) n.b = define(n.a);
    if (n.kind == NodeKind::tuple)
      for (std::int32_t i = 0; i < n.count; ++i) declare_target(child(n, i));
  }
  void declare(NodeId id) {
    if (id == kNoNode) return;
    Node& n = node(id);
    switch (n.kind) {
      case NodeKind::sequence:
        for (std::int32_t i = 0; i < n.count; ++i) declare(child(n, i));
        break;
      case NodeKind::choice:
        for (std::int32_t i = 1; i < n.count; i += 2) declare(child(n, i));
        if (n.count % 2 != 0) declare(child(n, n.count - 1));
        break;
      case NodeKind::assign:
      case NodeKind::set_block: declare_target(n.a); break;
      case NodeKind::macro: {
        MacroNode& macro = program_.macros[static_cast<std::size_t>(n.a)];
        macro.slot = define(macro.name);
        break;
      }
      default: break;
    }
  }

  // ---- What uses names

  void use(Node& n) {
    const std::vector<Binding>& known = bindings_[static_cast<std::size_t>(n.a)];
    n.b = n.d = kNoNode;
    if (known.empty()) return;
    const auto hops = [&](const Binding& b) { return static_cast<std::int32_t>(scopes_.size() - b.level); };
    n.b = known.back().slot;
    n.c = hops(known.back());
    if (known.size() == 1) return;
    n.d = static_cast<std::int32_t>(program_.places.size());
    for (std::size_t i = known.size() - 1; i-- > 0;) program_.places.push_back({hops(known[i]), known[i].slot, i == 0});
  }

  void visit_target(NodeId id) {
    Node& n = node(id);
    if (n.kind == NodeKind::space_attribute) use(node(n.a));
    if (n.kind == NodeKind::tuple)
      for (std::int32_t i = 0; i < n.count; ++i) visit_target(child(n, i));
  }

  void visit_arguments(std::int32_t id) {
    if (id == kNoNode) return;
    const ArgumentNodes& arguments = program_.arguments[static_cast<std::size_t>(id)];
    for (const NodeId n : arguments.positional) visit(n);
    for (const auto& [name, n] : arguments.named) visit(n);
    visit(arguments.star);
    visit(arguments.double_star);
  }

  void visit_macro(MacroNode& macro) {
    macro.scope_size = inside(
        [&] {
          for (const NameId name : macro.parameters) macro.slots.push_back(define(name));
          if (macro.uses_caller) macro.caller_slot = define(kCaller);
          if (macro.uses_kwargs) macro.kwargs_slot = define(kKwargs);
          if (macro.uses_varargs) macro.varargs_slot = define(kVarargs);
          declare(macro.body);
        },
        [&] {
          for (const NodeId value : macro.defaults) visit(value);
          visit(macro.body);
        });
  }

  void visit_loop(LoopNode& loop) {
    visit(loop.iterable);
    loop.scope_size = inside(
        [&] {
          if (loop.uses_loop) loop.slot = define(kLoop);
          declare_target(loop.target);
          declare(loop.body);
        },
        [&] {
          visit_target(loop.target);
          visit(loop.condition);
          visit(loop.body);
        });
    loop.otherwise_size = inside([&] { declare(loop.otherwise); }, [&] { visit(loop.otherwise); });
  }

  void visit_items(const Node& n, std::int32_t first = 0, std::int32_t by = 1) {
    for (std::int32_t i = first; i < n.count; i += by) visit(child(n, i));
  }
  std::int32_t visit_scope(NodeId body) {
    return inside([&] { declare(body); }, [&] { visit(body); });
  }

  void visit(NodeId id) {
    if (id == kNoNode) return;
    Node& n = node(id);
    switch (n.kind) {
      case NodeKind::constant:
      case NodeKind::text:
      case NodeKind::loop_break:
      case NodeKind::loop_continue: break;
      case NodeKind::name: use(n); break;
      case NodeKind::call:
      case NodeKind::filter:
      case NodeKind::test:
        visit(n.a);
        visit_arguments(n.b);
        break;
      case NodeKind::compare:
        visit(n.a);
        visit_items(n, 1, 2);
        break;
      case NodeKind::sequence:
        visit_items(n);
        if (!escapes_) merge_texts(n);
        break;
      case NodeKind::loop: visit_loop(program_.loops[static_cast<std::size_t>(n.a)]); break;
      case NodeKind::assign:
        visit_target(n.a);
        visit(n.b);
        break;
      case NodeKind::set_block:
        visit_target(n.a);
        visit(n.b);
        n.d = visit_scope(n.c);
        break;
      case NodeKind::macro: visit_macro(program_.macros[static_cast<std::size_t>(n.a)]); break;
      case NodeKind::call_block:
        visit(n.b);
        visit_macro(program_.macros[static_cast<std::size_t>(n.a)]);
        break;
      case NodeKind::filter_block:
        visit(n.a);
        n.c = visit_scope(n.b);
        break;
      case NodeKind::generation: n.b = visit_scope(n.a); break;
      case NodeKind::with:
        visit_items(n, 1, 2);
        n.b = inside(
            [&] {
              for (std::int32_t i = 0; i < n.count; i += 2) declare_target(child(n, i));
              declare(n.a);
            },
            [&] {
              for (std::int32_t i = 0; i < n.count; i += 2) visit_target(child(n, i));
              visit(n.a);
            });
        break;
      case NodeKind::block:
        if (n.b == 0)
          blocks_.push_back(id);
        else
          n.d = visit_scope(n.a);
        break;
      case NodeKind::autoescape:
        visit(n.a);
        n.c = visit_scope(n.b);
        break;
      case NodeKind::attribute: visit(n.a); break;
      default:  // a, b, c and d, where they are there, are nodes; and so are the items
        if (n.kind == NodeKind::output || constant(id)) {
          for (const NodeId part : {n.a, n.b, n.c, n.d}) soften(part);
          for (std::int32_t i = 0; i < n.count; ++i) soften(child(n, i));
        }
        for (const NodeId part : {n.a, n.b, n.c, n.d}) visit(part);
        visit_items(n);
    }
  }

  // ---- Constants

  // Whether jinja2 evaluates the expression while it compiles (of filters and tests this is not asked).
  bool constant(NodeId id) {
    if (id == kNoNode) return true;
    Folded& known = folded_[static_cast<std::size_t>(id)];
    if (known == kUnknown) known = find_constant(node(id)) ? kConstant : kVariable;
    return known == kConstant;
  }
  bool find_constant(const Node& n) {
    switch (n.kind) {
      case NodeKind::constant: return true;
      case NodeKind::item:
      case NodeKind::slice:
      case NodeKind::constant_slice:
      case NodeKind::list:
      case NodeKind::tuple:
      case NodeKind::dict:
      case NodeKind::sum:
      case NodeKind::join:
      case NodeKind::binary:
      case NodeKind::negative:
      case NodeKind::positive:
      case NodeKind::logical_not:
      case NodeKind::logical_and:
      case NodeKind::logical_or:
      case NodeKind::conditional:
        for (const NodeId part : {n.a, n.b, n.c, n.d})
          if (!constant(part)) return false;
        for (std::int32_t i = 0; i < n.count; ++i)
          if (!constant(child(n, i))) return false;
        return true;
      default: return false;
    }
  }
  // There a slice of what has none is undefined; elsewhere it is an error.
  void soften(NodeId id) {
    if (id != kNoNode && node(id).kind == NodeKind::slice && constant(id)) node(id).kind = NodeKind::constant_slice;
  }

  // Constants that are printed are text, and texts in a row are one.
  void merge_texts(Node& n) {
    std::int32_t kept = 0;
    for (std::int32_t i = 0; i < n.count;) {
      std::vector<Value> texts;
      const std::int32_t first = i;
      for (; i < n.count; ++i) {
        const Node& item = node(child(n, i));
        const Node& from = item.kind == NodeKind::output ? node(item.a) : item;
        if (from.kind != NodeKind::text && from.kind != NodeKind::constant) break;
        const Value& value = program_.constants[static_cast<std::size_t>(from.a)];
        if (!value.is(Kind::string)) break;
        texts.push_back(value);
      }
      const NodeId id = child(n, first);
      if (texts.empty()) {
        ++i;
      } else {
        node(id).kind = NodeKind::text;
        node(id).a = static_cast<NodeId>(program_.constants.size());
        program_.constants.push_back(texts.size() == 1 ? texts[0] : concatenate(program_.heap, texts));
      }
      program_.lists[static_cast<std::size_t>(n.first + kept++)] = id;
    }
    n.count = kept;
  }

  Program& program_;
  std::vector<std::vector<Binding>> bindings_;  // of each name, outermost first
  std::vector<std::vector<NameId>> scopes_;
  std::deque<NodeId> blocks_;
  enum Folded : std::uint8_t { kUnknown, kConstant, kVariable };
  std::vector<Folded> folded_;  // of each node: see constant()
  bool escapes_ = false;
};

}  // namespace

void resolve(Program& program) { Resolver(program).run(); }

}  // namespace quern::templates
