#include <algorithm>
#include <deque>
#include <utility>

#include "templates/program.h"

// Names to slots, once a template: the interpreter then finds a name by counting scopes, without comparing names. What a name means is
// decided while rendering (an `if` may or may not have set it), so a use lists every scope around it that may define the name, inside out,
// and whether the caller's names come after them. Which scopes those are follows jinja2's rules: a scope that sets a name before it reads
// it does not see the name outside.
namespace quern::templates {
namespace {

class Resolver {
 public:
  explicit Resolver(Program& program)
      : program_(program), bindings_(program.names.size()), seen_(program.names.size()), folded_(program.nodes.size(), kUnknown) {
    escapes_ = std::any_of(program.nodes.begin(), program.nodes.end(), [](const Node& n) { return n.kind == NodeKind::autoescape; });
  }

  void run() {
    program_.scope_size = open([&] { analyze(program_.root); });
    visit(program_.root);
    while (!blocks_.empty()) {  // a block sees the outermost names and its own, wherever it stands
      const std::int32_t block = blocks_.front();
      blocks_.pop_front();
      visit_block(block);
    }
  }

 private:
  // What a name is when its scope begins.
  enum class Load : std::uint8_t {
    context,    // what the caller gave
    undefined,  // nothing: the scope sets it before it reads it
    parameter,  // given with the scope
    outer,      // what it is in the scope around
  };
  struct Binding {
    std::size_t level;
    Load load;
    bool stored;             // it has a cell
    std::int32_t slot = -1;  // of the cell, once the scope is known as a whole
  };
  struct Change {
    NameId name;
    bool existed;
    Binding before;
  };
  struct Outcome {  // of one branch, for one name
    NameId name;
    Load load;
    bool stored;
  };

  Node& node(NodeId id) { return program_.nodes[static_cast<std::size_t>(id)]; }
  NodeId child(const Node& n, std::int32_t i) const { return program_.lists[static_cast<std::size_t>(n.first + i)]; }
  std::vector<Binding>& bindings(NameId name) { return bindings_[static_cast<std::size_t>(name)]; }

  // ---- Scopes

  // Makes a scope of the names that `analyze_names` meets; returns how many cells it has.
  template <typename Analyze>
  std::int32_t open(Analyze analyze_names) {
    scopes_.emplace_back();
    changes_.clear();
    analyze_names();
    std::int32_t size = 0;
    for (const NameId name : scopes_.back())
      if (Binding& b = bindings(name).back(); b.stored) b.slot = size++;
    sizes_.push_back(size);
    return size;
  }
  void close() {
    for (const NameId name : scopes_.back()) bindings(name).pop_back();
    scopes_.pop_back();
    sizes_.pop_back();
  }
  template <typename Analyze, typename Visit>
  std::int32_t inside(Analyze analyze_names, Visit visit_body) {
    const std::int32_t size = open(analyze_names);
    visit_body();
    close();
    return size;
  }

  Binding* own(NameId name) {
    std::vector<Binding>& known = bindings(name);
    return !known.empty() && known.back().level == scopes_.size() ? &known.back() : nullptr;
  }
  // Whether a scope around knows the name; what surrounds a block does not count.
  bool known_around(NameId name) {
    const std::vector<Binding>& known = bindings(name);
    const std::size_t others = known.size() - (own(name) != nullptr);
    return others != 0 && known[others - 1].level > floor_;
  }
  void put(NameId name, Load load, bool stored) {
    if (Binding* known = own(name)) {
      changes_.push_back({name, true, *known});
      known->load = load;
      known->stored = stored;
      return;
    }
    changes_.push_back({name, false, {}});
    bindings(name).push_back({scopes_.size(), load, stored});
    scopes_.back().push_back(name);
  }

  // As jinja2's idtracking: a name is bound to the first thing that its scope does with it.
  void load(NameId name) {
    if (!own(name) && !known_around(name)) put(name, Load::context, false);
  }
  void store(NameId name) {
    if (const Binding* known = own(name)) {
      if (!known->stored) put(name, known->load, true);
    } else {
      put(name, known_around(name) ? Load::outer : Load::undefined, true);
    }
  }
  void parameter(NameId name) { put(name, Load::parameter, true); }
  std::int32_t slot_of(NameId name) { return own(name)->slot; }

  // What a branch does to the names, which are then as they were.
  template <typename Analyze>
  std::vector<Outcome> branch(Analyze analyze_body) {
    const std::size_t begin = changes_.size();
    analyze_body();
    std::vector<Outcome> outcomes;
    ++stamp_;
    while (changes_.size() > begin) {
      const Change change = changes_.back();
      changes_.pop_back();
      std::size_t& seen = seen_[static_cast<std::size_t>(change.name)];
      Binding& now = bindings(change.name).back();
      if (std::exchange(seen, stamp_) != stamp_) outcomes.push_back({change.name, now.load, now.stored});
      if (change.existed) {
        now = change.before;
      } else {
        bindings(change.name).pop_back();
        scopes_.back().pop_back();
      }
    }
    std::reverse(outcomes.begin(), outcomes.end());
    return outcomes;
  }

  // What not all three (if, elifs, else) set may still be what it was outside.
  void merge(const std::vector<Outcome> (&branches)[3]) {
    std::vector<NameId> set;  // a name as often as branches set it
    for (const std::vector<Outcome>& outcomes : branches)
      for (const Outcome& o : outcomes)
        if (const Binding* known = own(o.name); o.stored && !(known && known->stored)) set.push_back(o.name);
    for (const std::vector<Outcome>& outcomes : branches)
      for (const Outcome& o : outcomes) {
        const Binding* known = own(o.name);
        put(o.name, o.load, o.stored || (known && known->stored));
      }
    std::sort(set.begin(), set.end());
    for (std::size_t i = 0, next = 0; i < set.size(); i = next) {
      while (next < set.size() && set[next] == set[i]) ++next;
      if (next - i != 3) put(set[i], known_around(set[i]) ? Load::outer : Load::context, true);
    }
  }

  // ---- What the statements of one scope do with names; other scopes inside are left alone

  void analyze_target(NodeId id, bool as_parameter = false) {
    const Node& n = node(id);
    if (n.kind == NodeKind::name) as_parameter ? parameter(n.a) : store(n.a);
    if (n.kind == NodeKind::space_attribute) load(node(n.a).a);
    if (n.kind == NodeKind::tuple)
      for (std::int32_t i = 0; i < n.count; ++i) analyze_target(child(n, i), as_parameter);
  }
  void analyze_arguments(std::int32_t id) {
    if (id == kNoNode) return;
    const ArgumentNodes& arguments = program_.arguments[static_cast<std::size_t>(id)];
    for (const NodeId n : arguments.positional) analyze(n);
    for (const auto& [name, n] : arguments.named) analyze(n);
    analyze(arguments.star);
    analyze(arguments.double_star);
  }
  void analyze_items(const Node& n, std::int32_t first = 0, std::int32_t by = 1) {
    for (std::int32_t i = first; i < n.count; i += by) analyze(child(n, i));
  }
  void analyze_choice(const Node& n) {
    analyze(child(n, 0));
    std::vector<Outcome> branches[3];
    branches[0] = branch([&] { analyze(child(n, 1)); });
    branches[1] = branch([&] {
      for (std::int32_t i = 2; i + 1 < n.count; i += 2) {
        analyze(child(n, i));
        std::vector<Outcome> alone[3];
        alone[0] = branch([&] { analyze(child(n, i + 1)); });
        merge(alone);
      }
    });
    branches[2] = branch([&] {
      if (n.count % 2 != 0) analyze(child(n, n.count - 1));
    });
    merge(branches);
  }
  void analyze(NodeId id) {
    if (id == kNoNode) return;
    const Node& n = node(id);
    switch (n.kind) {
      case NodeKind::constant:
      case NodeKind::text:
      case NodeKind::loop_break:
      case NodeKind::loop_continue:
      case NodeKind::block:
      case NodeKind::generation:
      case NodeKind::autoescape: break;
      case NodeKind::name: load(n.a); break;
      case NodeKind::attribute: analyze(n.a); break;
      case NodeKind::call:
      case NodeKind::filter:
      case NodeKind::test:
        analyze(n.a);
        analyze_arguments(n.b);
        break;
      case NodeKind::compare:
        analyze(n.a);
        analyze_items(n, 1, 2);
        break;
      case NodeKind::choice: analyze_choice(n); break;
      case NodeKind::loop: analyze(program_.loops[static_cast<std::size_t>(n.a)].iterable); break;
      case NodeKind::assign:
        analyze(n.b);
        analyze_target(n.a);
        break;
      case NodeKind::set_block: analyze_target(n.a); break;
      case NodeKind::macro: store(program_.macros[static_cast<std::size_t>(n.a)].name); break;
      case NodeKind::call_block: analyze(n.b); break;
      case NodeKind::filter_block: analyze(n.a); break;
      case NodeKind::with: analyze_items(n, 1, 2); break;
      default:  // a, b, c and d, where they are there, are nodes; and so are the items
        for (const NodeId part : {n.a, n.b, n.c, n.d}) analyze(part);
        analyze_items(n);
    }
  }

  // ---- What uses names

  void use(Node& n) {
    const std::vector<Binding>& known = bindings(n.a);
    n.b = n.d = kNoNode;
    if (n.a == kSuper && block_ != kNoNode && (known.empty() || known.back().level <= floor_ || known.back().load == Load::context)) {
      const std::string name(program_.names[static_cast<std::size_t>(block_)].text.text());
      program_.constants.push_back(undefined_because(program_.heap, "there is no parent block called '" + name + "'."));
      n.kind = NodeKind::constant;
      n.a = static_cast<NodeId>(program_.constants.size() - 1);
      return;
    }
    std::vector<Place> places;
    bool closed = false, outside = false;
    for (std::size_t i = known.size(); i-- > 0 && !closed;) {
      const Binding& b = known[i];
      if (outside && b.level > floor_) continue;
      if (b.slot >= 0) places.push_back({static_cast<std::int32_t>(scopes_.size() - b.level), b.slot, false, false});
      if (b.level <= floor_) continue;
      closed = b.load == Load::undefined || b.load == Load::parameter;
      outside = b.load == Load::context;
      if (outside && floor_ == 0) break;
    }
    if (places.empty()) return;
    n.b = places[0].slot;
    n.c = places[0].hops;
    if (places.size() == 1) {
      if (closed) n.d = kNothing;
      return;
    }
    places.back().last = true;
    places.back().closed = closed;
    n.d = static_cast<std::int32_t>(program_.places.size());
    program_.places.insert(program_.places.end(), places.begin() + 1, places.end());
  }

  void visit_target(NodeId id) {
    Node& n = node(id);
    if (n.kind == NodeKind::name) n.b = slot_of(n.a);
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
          for (const NameId name : macro.parameters) parameter(name);
          if (macro.uses_caller) parameter(kCaller);
          if (macro.uses_kwargs) parameter(kKwargs);
          if (macro.uses_varargs) parameter(kVarargs);
          for (const NodeId value : macro.defaults) analyze(value);
          analyze(macro.body);
        },
        [&] {
          for (const NameId name : macro.parameters) macro.slots.push_back(slot_of(name));
          if (macro.uses_caller) macro.caller_slot = slot_of(kCaller);
          if (macro.uses_kwargs) macro.kwargs_slot = slot_of(kKwargs);
          if (macro.uses_varargs) macro.varargs_slot = slot_of(kVarargs);
          for (const NodeId value : macro.defaults) visit(value);
          visit(macro.body);
        });
  }

  void visit_loop(LoopNode& loop) {
    visit(loop.iterable);
    // The targets come first in both scopes, so that they have the same cells.
    loop.condition_size = inside(
        [&] {
          analyze_target(loop.target, true);
          analyze(loop.condition);
        },
        [&] { visit(loop.condition); });
    loop.scope_size = inside(
        [&] {
          analyze_target(loop.target, true);
          if (loop.uses_loop) parameter(kLoop);
          analyze(loop.body);
        },
        [&] {
          if (loop.uses_loop) loop.slot = slot_of(kLoop);
          visit_target(loop.target);
          visit(loop.body);
        });
    loop.otherwise_size = inside([&] { analyze(loop.otherwise); }, [&] { visit(loop.otherwise); });
  }

  // A block knows the names around it by value only: it is as a template of its own.
  void visit_block(std::int32_t id) {
    BlockNode& block = program_.blocks[static_cast<std::size_t>(id)];
    const std::size_t floor = std::exchange(floor_, scopes_.size());
    const NameId around = std::exchange(block_, block.name);
    block.depth = static_cast<std::int32_t>(floor_);
    block.around_size = *std::max_element(sizes_.begin(), sizes_.end());
    block.scope_size = visit_scope(block.body);
    floor_ = floor;
    block_ = around;
  }

  void visit_items(const Node& n, std::int32_t first = 0, std::int32_t by = 1) {
    for (std::int32_t i = first; i < n.count; i += by) visit(child(n, i));
  }
  std::int32_t visit_scope(NodeId body) {
    return inside([&] { analyze(body); }, [&] { visit(body); });
  }
  // The filters of a block of text stand inside its scope.
  std::int32_t visit_filtered(NodeId body, NodeId chain, bool chain_is_known) {
    return inside(
        [&] {
          analyze(body);
          if (chain_is_known) analyze(chain);
        },
        [&] {
          visit(chain);
          visit(body);
        });
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
        n.d = visit_filtered(n.c, n.b, false);
        break;
      case NodeKind::macro: {
        MacroNode& macro = program_.macros[static_cast<std::size_t>(n.a)];
        macro.slot = slot_of(macro.name);
        visit_macro(macro);
        break;
      }
      case NodeKind::call_block:
        visit(n.b);
        visit_macro(program_.macros[static_cast<std::size_t>(n.a)]);
        break;
      case NodeKind::filter_block: n.c = visit_filtered(n.b, n.a, true); break;
      case NodeKind::generation: n.b = visit_scope(n.a); break;
      case NodeKind::with:
        visit_items(n, 1, 2);
        n.b = inside(
            [&] {
              for (std::int32_t i = 0; i < n.count; i += 2) analyze_target(child(n, i), true);
              analyze(n.a);
            },
            [&] {
              for (std::int32_t i = 0; i < n.count; i += 2) visit_target(child(n, i));
              visit(n.a);
            });
        break;
      case NodeKind::block:
        if (program_.blocks[static_cast<std::size_t>(n.a)].scoped)
          visit_block(n.a);
        else
          blocks_.push_back(n.a);
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
      case NodeKind::constant: return !program_.constants[static_cast<std::size_t>(n.a)].is(Kind::undefined);  // as of an `if` without else
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
  std::vector<std::int32_t> sizes_;  // of each, in cells
  std::vector<Change> changes_;      // to the innermost scope
  std::vector<std::size_t> seen_;
  std::size_t stamp_ = 0;
  std::size_t floor_ = 0;  // scopes up to here are around the block that is looked at
  NameId block_ = kNoNode;
  std::deque<std::int32_t> blocks_;
  enum Folded : std::uint8_t { kUnknown, kConstant, kVariable };
  std::vector<Folded> folded_;  // of each node: see constant()
  bool escapes_ = false;
};

}  // namespace

void resolve(Program& program) { Resolver(program).run(); }

}  // namespace quern::templates
