#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "templates/builtins.h"
#include "templates/program.h"
#include "templates/template.h"
#include "templates/text.h"

// The interpreter: one object a render. evaluate() and execute() only count and branch: what they branch to stays out of them, so that they
// need no stack frame.
namespace quern::templates {

/// The names of one block, a cell each, absent until they are defined. It lives in the heap, so that macros may keep the scope they were
/// made in.
struct Scope {
  Scope* outer;
  Value* cells;
  std::int32_t size;
  bool kept;  // a macro refers to it: do not reuse
};

struct Macro {
  const MacroNode* node;
  Scope* scope;
  Value name;  // none of a call block's body
};

/// `loop` of a for statement. `items` grows as the condition lets items of `source` through.
struct Loop {
  const LoopNode* node = nullptr;
  List* source = nullptr;
  List* items = nullptr;
  std::size_t taken = 0;  // of source
  std::size_t index0 = 0;
  std::int64_t depth0 = 0;
  Scope* scope = nullptr;
  List* changed = nullptr;  // arguments of the last loop.changed()
};

struct Cycler {
  List* items;
  std::size_t at = 0;
  bool used = false;  // joiner
  Value separator;
};

class Render {
 public:
  Render(const Program& program, const Value& context, const Budget& budget);
  ~Render();
  void run();
  /// What was rendered.
  Writer& finish() {
    length_ = writer_.text().size();
    return writer_;
  }
  /// Source offset of what was being evaluated last.
  std::uint32_t offset() const { return offset_; }

  // For the built-ins
  Heap& heap() { return heap_; }
  const Budget& budget() const { return budget_; }
  Value call(const Value& callee, const Arguments& arguments);
  Value string(std::string_view text, bool untrusted = false) { return make_string(heap_, text, untrusted); }
  /// object.name: methods and fields before items, as Python's getattr.
  Value attribute(const Value& object, std::string_view name);
  /// object[key]: items before methods.
  Value item(const Value& object, const Value& key);
  /// "a.b.0" and the like, as the filters' attribute= reads it. Where a part is undefined, `otherwise` stands in.
  Value path(const Value& object, const Value& path, const Value& otherwise = {});
  /// Counts work that is done in bulk (bytes, items), and looks at the clock now and then.
  void work(std::size_t amount);
  void check_changeable(const Heap* owner) const;
  /// Whether {% autoescape true %} surrounds what is rendered.
  bool escaping() const { return escaping_; }
  /// The next of a sequence of numbers that is the same in every render.
  std::size_t random() { return (random_ = random_ * 6364136223846793005u + 1442695040888963407u) >> 33; }
  /// Keeps an error that a generator is to raise when it is read.
  const Error* remember(const Error& error) {
    heap_.charge(sizeof(Error) + 2 * std::string_view(error.what()).size());
    return failures_.emplace_back(std::make_unique<Error>(error)).get();
  }

 private:
  enum class Flow { next, loop_break, loop_continue };
  class Deeper;

  // Statements (render.cc)
  Flow execute(NodeId id);
  [[gnu::noinline]] Flow execute_checked(NodeId id);
  [[gnu::noinline]] Flow execute_text(const Node& node);
  [[gnu::noinline]] Flow execute_output(const Node& node);
  [[gnu::noinline]] Flow execute_assign(const Node& node);
  [[gnu::noinline]] Flow execute_rare(const Node& node);
  [[gnu::noinline]] Flow execute_items(const Node& node);
  [[gnu::noinline]] Flow execute_loop(const LoopNode& node);
  Flow iterate_loop(const LoopNode& node, Value iterable, std::int64_t depth0);
  [[gnu::noinline]] Flow execute_choice(const Node& node);
  void output(const Node& node);
  void print(const Value& value);
  void assign(NodeId target, const Value& value);
  void assign_many(const Node& target, const Value& value);
  Flow with(const Node& node);
  Flow capture(NodeId body, std::int32_t slots, NodeId chain, Value& text);
  void execute_block(const BlockNode& block, Scope* around);
  Value call_block(std::int64_t block, const Arguments& arguments);
  Value finish(Writer& writer);
  Value make_macro(const MacroNode& node);
  bool pull(Loop& loop);

  // Expressions (evaluate.cc; calls.cc, attributes.cc)
  Value evaluate(NodeId id);
  [[gnu::noinline]] Value evaluate_checked(NodeId id);
  [[gnu::noinline]] Value evaluate_not(const Node& node);
  [[gnu::noinline]] Value evaluate_comparison(const Node& node);
  [[gnu::noinline]] Value evaluate_attribute(const Node& node);
  [[gnu::noinline]] Value evaluate_item(const Node& node);
  [[gnu::noinline]] Value evaluate_slice(const Node& node);
  [[gnu::noinline]] Value evaluate_binary(const Node& node);
  [[gnu::noinline]] Value evaluate_positive(const Node& node);
  [[gnu::noinline]] Value evaluate_negative(const Node& node);
  [[gnu::noinline]] Value evaluate_logic(const Node& node);
  [[gnu::noinline]] Value evaluate_conditional(const Node& node);
  bool holds(NodeId id);  // truth(evaluate(id))
  bool holds_logic(const Node& node);
  [[gnu::noinline]] Value evaluate_sum(const Node& node);
  [[gnu::noinline]] Value evaluate_join(const Node& node);
  [[gnu::noinline]] bool evaluate_compare(const Node& node);
  bool compare_pair(Comparison comparison, const Value& left, const Value& right);
  [[gnu::noinline]] Value evaluate_dict(const Node& node);
  [[gnu::noinline]] Value evaluate_list(const Node& node, Sequence type);
  [[gnu::noinline]] Value evaluate_call(const Node& node, const Value* caller = nullptr);
  [[gnu::noinline]] Value evaluate_filter(const Node& node);
  Value apply_filter(const Node& node, const Value& input);
  [[gnu::noinline]] Value evaluate_test(const Node& node);
  Value apply_chain(NodeId chain, const Value& text);
  struct CallValues;
  void collect(std::int32_t id, CallValues& values, const Value* caller = nullptr);
  Value attribute(const Value& object, NameId name);
  Value field(const Value& object, const Value& name);
  Value macro_field(const Macro& macro, std::string_view name);
  Value loop_attribute(const Value& object, NameId name);
  Value call_macro(const Macro& macro, const Arguments& arguments);
  Value call_loop(Loop& loop, const Arguments& arguments);

  Value lookup(const Node& name) {
    if (name.b == kNoNode) return known(name.a);
    const Scope* scope = scope_;
    for (std::int32_t i = name.c; i > 0; --i) scope = scope->outer;
    const Value& value = scope->cells[name.b];
    return value.given() ? value : lookup_further(name);
  }
  [[gnu::noinline]] Value lookup_further(const Node& name);
  Value known(NameId name) {
    const Value& value = known_[static_cast<std::size_t>(name)];
    return value.given() ? value : find_known(name);
  }
  [[gnu::noinline]] Value find_known(NameId name);
  void define(std::int32_t slot, const Value& value) { scope_->cells[slot] = value; }
  Scope* open_scope(Scope* outer, std::int32_t size);
  void clear(Scope& scope);
  const Node& node(NodeId id) const { return program_.nodes[static_cast<std::size_t>(id)]; }
  NodeId child(const Node& n, std::int32_t i) const { return program_.lists[static_cast<std::size_t>(n.first + i)]; }
  void step(const Node& n) {
    if (counted(n)) [[unlikely]]
      check_steps();
  }
  // True when it is time to check.
  bool counted(const Node& n) {
    offset_ = n.offset;
    return ++steps_ >= next_check_;
  }
  void check_steps();
  void check_time();

  const Program& program_;
  const Budget& budget_;
  Heap heap_;
  Value context_;
  Writer writer_;
  Writer* out_;
  Scope* scope_;
  std::string spare_;       // memory of the last text that was captured
  std::size_t length_ = 0;  // of the rendered text
  std::vector<std::unique_ptr<Error>> failures_;
  Value* known_;  // names of the context and globals, looked up at their first use
  std::uint32_t offset_ = 0;
  std::size_t steps_ = 0, next_check_, work_ = 0, depth_ = 0, calls_ = 0;
  std::uint64_t random_ = 1;
  bool escaping_ = false;                             // inside {% autoescape true %}
  std::chrono::steady_clock::time_point deadline_{};  // set when the clock is first looked at
};

/// Guards a recursive part of the interpreter.
class Render::Deeper {
 public:
  explicit Deeper(Render& render) : render_(render) {
    if (++render_.depth_ > kMaxDepth) [[unlikely]]
      too_deep(render_);
  }
  ~Deeper() { --render_.depth_; }

 private:
  // Levels of evaluation inside each other. A level takes some 300 bytes of stack (a few KB under the address sanitizer), so this stays
  // below the 8 MB of a thread.
  static constexpr std::size_t kMaxDepth = 1500;

  [[noreturn]] static void too_deep(Render& render);

  Render& render_;
};

}  // namespace quern::templates
