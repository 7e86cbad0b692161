#include "templates/render.h"
#include "templates/lexer.h"

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

namespace quern::templates {
namespace {

constexpr std::size_t kBetweenLooks = 256;  // steps from one look at the clock to the next: one may take a ms, for texts of 100 MB

thread_local Render* running = nullptr;   // the innermost of this thread
thread_local std::size_t expected = 256;  // about how long the next text will be: as the last one

}  // namespace

void count_work(std::size_t amount) {
  if (running != nullptr) running->work(amount);
}

Render::Render(const Program& program, const Value& context, const Budget& budget)
    : program_(program),
      budget_(budget),
      heap_(budget.value_bytes),
      context_(context),
      writer_(heap_, budget.output_bytes),
      out_(&writer_),
      known_(heap_.array<Value>(program.names.size())),
      next_check_(std::min(kBetweenLooks, budget.steps + 1)) {
  std::fill_n(known_, program.names.size(), Value::of(Kind::absent));
  if (!context.is(Kind::dict)) throw Error(Code::invalid_argument, "the context of a template must be a dict");
  writer_.text().reserve(expected);
  scope_ = open_scope(nullptr, program.scope_size);
}

void Render::run() {
  struct Running {
    explicit Running(Render* render) : outer(std::exchange(running, render)) {}
    ~Running() { running = outer; }
    Render* outer;
  } const now(this);
  execute(program_.root);
}

Render::~Render() {
  constexpr std::size_t kMost = 64 << 10;
  expected = std::min(kMost, length_ + length_ / 8);
}

void Render::Deeper::too_deep(Render& render) {
  --render.depth_;
  throw Error(Code::resource_exhausted, "the template is nested or recurses too deeply");
}

void Render::check_steps() {
  if (steps_ > budget_.steps)
    throw Error(Code::resource_exhausted, "the template takes more than " + std::to_string(budget_.steps) + " steps");
  next_check_ = std::min(steps_ + kBetweenLooks, budget_.steps + 1);
  check_time();
}

void Render::check_time() {
  const auto now = std::chrono::steady_clock::now();
  if (deadline_ == std::chrono::steady_clock::time_point()) deadline_ = now + budget_.time;
  if (now > deadline_)
    throw Error(Code::resource_exhausted, "the template takes longer than " + std::to_string(budget_.time.count()) + " ms");
}

void Render::work(std::size_t amount) {
  constexpr std::size_t kWorkBetweenLooks = 1 << 16;
  work_ += amount;
  if (work_ < kWorkBetweenLooks) return;
  work_ = 0;
  check_time();
}

void Render::check_changeable(const Heap* owner) const {
  if (owner != &heap_) throw Error(Code::invalid_argument, "a value that the template did not make cannot be changed");
}

Scope* Render::open_scope(Scope* outer, std::int32_t size) {
  Scope* scope = heap_.make<Scope>();
  *scope = {outer, heap_.array<Value>(static_cast<std::size_t>(size)), size, false};
  clear(*scope);
  return scope;
}

void Render::clear(Scope& scope) {
  constexpr std::int32_t kMany = 64;
  if (scope.size > kMany) work(static_cast<std::size_t>(scope.size));
  std::fill_n(scope.cells, scope.size, Value::of(Kind::absent));
}

Value Render::lookup_further(const Node& name) {
  for (std::int32_t i = name.d; i >= 0;) {
    const Place& place = program_.places[static_cast<std::size_t>(i)];
    const Scope* scope = scope_;
    for (std::int32_t k = place.hops; k > 0; --k) scope = scope->outer;
    if (scope->cells[place.slot].given()) return scope->cells[place.slot];
    i = !place.last ? i + 1 : place.closed ? kNothing : kNoNode;
    if (i == kNothing) return undefined_attribute(Value::of(Kind::absent), program_.names[static_cast<std::size_t>(name.a)].text);
  }
  if (name.d == kNothing) return undefined_attribute(Value::of(Kind::absent), program_.names[static_cast<std::size_t>(name.a)].text);
  return known(name.a);
}

Value Render::find_known(NameId name) {
  Value& known = known_[static_cast<std::size_t>(name)];
  const NameInfo& info = program_.names[static_cast<std::size_t>(name)];
  if (name == kSelf) {
    known = Value::of(Kind::blocks);
  } else if (const Value* found = context_.dict->find(info.text.text())) {
    known = *found;
  } else if (info.global) {
    known = Value::of(Kind::function);
    known.function = info.global;
  } else {
    known = undefined_attribute(Value::of(Kind::absent), info.text);
  }
  return known;
}

Render::Flow Render::execute(NodeId id) {
  const Node& n = node(id);
  if (counted(n)) [[unlikely]]
    return execute_checked(id);
  switch (n.kind) {
    case NodeKind::text: return execute_text(n);
    case NodeKind::output: return execute_output(n);
    case NodeKind::sequence: return execute_items(n);
    case NodeKind::choice: return execute_choice(n);
    case NodeKind::loop: return execute_loop(program_.loops[static_cast<std::size_t>(n.a)]);
    case NodeKind::assign: return execute_assign(n);
    default: return execute_rare(n);
  }
}

Render::Flow Render::execute_checked(NodeId id) {
  check_steps();
  --steps_;
  return execute(id);
}

Render::Flow Render::execute_text(const Node& n) {
  out_->add(*program_.constants[static_cast<std::size_t>(n.a)].string);
  return Flow::next;
}

Render::Flow Render::execute_output(const Node& n) {
  const Deeper deeper(*this);
  output(n);
  return Flow::next;
}

Render::Flow Render::execute_assign(const Node& n) {
  const Deeper deeper(*this);
  assign(n.a, evaluate(n.b));
  return Flow::next;
}

Render::Flow Render::execute_items(const Node& n) {
  const Deeper deeper(*this);
  for (std::int32_t i = 0; i < n.count; ++i)
    if (const Flow flow = execute(child(n, i)); flow != Flow::next) return flow;
  return Flow::next;
}

Render::Flow Render::execute_rare(const Node& n) {
  const Deeper deeper(*this);
  switch (n.kind) {
    case NodeKind::set_block: {
      Value text;
      if (const Flow flow = capture(n.c, n.d, n.b, text); flow != Flow::next) return flow;  // `break` inside: the text is dropped
      assign(n.a, text);
      break;
    }
    case NodeKind::macro: {
      const MacroNode& macro = program_.macros[static_cast<std::size_t>(n.a)];
      define(macro.slot, make_macro(macro));
      break;
    }
    case NodeKind::call_block: {
      const Value caller = make_macro(program_.macros[static_cast<std::size_t>(n.a)]);
      print(evaluate_call(node(n.b), &caller));
      break;
    }
    case NodeKind::filter_block: {
      Value filtered;
      if (const Flow flow = capture(n.b, n.c, n.a, filtered); flow != Flow::next) return flow;
      if (!filtered.is(Kind::string))
        throw Error(Code::invalid_argument, "sequence item 0: expected str instance, " + std::string(type_name(filtered)) + " found");
      print(filtered);
      break;
    }
    case NodeKind::generation: {
      Value text;
      capture(n.a, n.b, kNoNode, text);
      print(text);
      break;
    }
    case NodeKind::with: return with(n);
    case NodeKind::block: {
      const BlockNode& block = program_.blocks[static_cast<std::size_t>(n.a)];
      Scope* around = scope_;
      while (!block.scoped && around->outer) around = around->outer;
      execute_block(block, around);
      break;
    }
    case NodeKind::load:
      evaluate(n.a);
      offset_ = n.offset;
      throw Error(Code::invalid_argument, "no loader for this environment specified");
    case NodeKind::autoescape: {
      const bool outer = std::exchange(escaping_, holds(n.a));
      Scope* outer_scope = scope_;
      scope_ = open_scope(outer_scope, n.c);
      const Flow flow = execute(n.b);
      scope_ = outer_scope;
      escaping_ = outer;
      return flow;
    }
    case NodeKind::loop_break: return Flow::loop_break;
    case NodeKind::loop_continue: return Flow::loop_continue;
    default: throw Error(Code::internal, "an expression where a statement should be");
  }
  return Flow::next;
}

void Render::print(const Value& value) {
  if (!escaping_ || (value.is(Kind::string) && value.markup)) return write_str(*out_, value);
  const Value text = to_string(heap_, value);
  out_->add(html_escape(text.text()), any_untrusted(*text.string));
}

void Render::output(const Node& n) {
  const Node& value = node(n.a);
  if (escaping_ || (value.kind != NodeKind::sum && value.kind != NodeKind::join)) return print(evaluate(n.a));
  // The parts of a sum or join of strings go straight to the output, without making the whole string first.
  constexpr std::int32_t kParts = 16;
  Value parts[kParts];
  if (value.count > kParts) return print(evaluate(n.a));
  step(value);
  bool plain = true;
  for (std::int32_t i = 0; i < value.count; ++i) {
    parts[i] = evaluate(child(value, i));
    plain = plain && parts[i].is(Kind::string) && !parts[i].markup;
  }
  offset_ = value.offset;
  if (plain || value.kind == NodeKind::join) {
    for (std::int32_t i = 0; i < value.count; ++i) print(parts[i]);
    return;
  }
  for (std::int32_t i = 1; i < value.count; ++i) parts[0] = arithmetic(heap_, Operator::add, parts[0], parts[i]);
  print(parts[0]);
}

Render::Flow Render::execute_choice(const Node& n) {
  const Deeper deeper(*this);
  std::int32_t i = 0;
  for (; i + 1 < n.count; i += 2)
    if (holds(child(n, i))) return execute(child(n, i + 1));
  return i < n.count ? execute(child(n, i)) : Flow::next;
}

void Render::assign(NodeId target, const Value& value) {
  const Node& n = node(target);
  if (n.kind == NodeKind::name) return define(n.b, value);
  if (n.kind == NodeKind::tuple) return assign_many(n, value);
  offset_ = n.offset;
  const Value space = lookup(node(n.a));
  if (!space.is(Kind::space)) throw Error(Code::invalid_argument, "cannot assign attribute on non-namespace object");
  check_changeable(space.dict->heap);
  set(heap_, *space.dict, program_.names[static_cast<std::size_t>(n.b)].text, value);
}

void Render::assign_many(const Node& target, const Value& value) {
  const List* items = iterate(heap_, value);
  const auto wanted = static_cast<std::size_t>(target.count);
  if (items->size > wanted) throw Error(Code::invalid_argument, "too many values to unpack (expected " + std::to_string(wanted) + ")");
  if (items->size < wanted)
    throw Error(Code::invalid_argument,
                "not enough values to unpack (expected " + std::to_string(wanted) + ", got " + std::to_string(items->size) + ")");
  for (std::size_t i = 0; i < wanted; ++i) assign(child(target, static_cast<std::int32_t>(i)), items->at(i));
}

Render::Flow Render::with(const Node& n) {
  Scope* outer = scope_;
  Value* values = heap_.array<Value>(static_cast<std::size_t>(n.count / 2));
  for (std::int32_t i = 0; i < n.count / 2; ++i) values[i] = evaluate(child(n, i * 2 + 1));  // all in the outer scope
  scope_ = open_scope(outer, n.b);
  for (std::int32_t i = 0; i < n.count / 2; ++i) assign(child(n, i * 2), values[i]);
  const Flow flow = execute(n.a);
  scope_ = outer;
  return flow;
}

void Render::execute_block(const BlockNode& block, Scope* around) {
  if (block.required)
    throw Error(Code::invalid_argument,
                "Required block '" + std::string(program_.names[static_cast<std::size_t>(block.name)].text.text()) + "' not found");
  Scope* outer = std::exchange(scope_, open_scope(around, block.scope_size));
  const bool escaping = std::exchange(escaping_, false);  // a block does not know what surrounds it
  execute(block.body);
  escaping_ = escaping;
  scope_ = outer;
}

// self.name(): the block as it is where no other scope surrounds it.
Value Render::call_block(std::int64_t id, const Arguments& arguments) {
  const BlockNode& block = program_.blocks[static_cast<std::size_t>(id)];
  if (!arguments.positional.empty() || !arguments.named.empty())
    throw Error(Code::invalid_argument, "BlockReference.__call__() takes 1 positional argument");
  if (++calls_ > budget_.recursion)
    throw Error(Code::resource_exhausted, "blocks call each other deeper than " + std::to_string(budget_.recursion));
  Scope* around = scope_;
  while (around->outer) around = around->outer;
  for (std::int32_t i = 1; i < block.depth; ++i) around = open_scope(around, block.around_size);
  Writer text(heap_, std::move(spare_));
  Writer* outer_out = std::exchange(out_, &text);
  execute_block(block, around);
  out_ = outer_out;
  --calls_;
  return finish(text);
}

Render::Flow Render::capture(NodeId body, std::int32_t slots, NodeId chain, Value& text) {
  Writer writer(heap_, std::move(spare_));
  Writer* outer_out = std::exchange(out_, &writer);
  Scope* outer = scope_;
  scope_ = open_scope(outer, slots);
  const Flow flow = execute(body);
  out_ = outer_out;
  text = finish(writer);
  if (flow == Flow::next) text = apply_chain(chain, text);
  scope_ = outer;
  return flow;
}

// What was captured, as a value; keeps the writer's memory for the next.
Value Render::finish(Writer& writer) {
  const Value text = writer.take(escaping_);
  spare_ = std::move(writer.text());
  spare_.clear();
  return text;
}

Value Render::make_macro(const MacroNode& macro) {
  for (Scope* s = scope_; s && !s->kept; s = s->outer) s->kept = true;
  Macro* made = heap_.make<Macro>();
  *made = {&macro, scope_, macro.anonymous ? Value::none() : program_.names[static_cast<std::size_t>(macro.name)].text};
  Value v = Value::of(Kind::macro);
  v.macro = made;
  return v;
}

Render::Flow Render::execute_loop(const LoopNode& n) { return iterate_loop(n, evaluate(n.iterable), 0); }

// Lets the next item that meets the condition into loop.items; false when there is none.
bool Render::pull(Loop& loop) {
  if (loop.items == loop.source) return false;
  Scope* outer = scope_;
  Scope* inner = nullptr;
  bool found = false;
  while (!found && loop.taken < loop.source->size) {
    const Value item = loop.source->at(loop.taken++);
    if (!inner || inner->kept)
      inner = open_scope(loop.scope, loop.node->condition_size);
    else
      clear(*inner);
    scope_ = inner;
    assign(loop.node->target, item);
    found = holds(loop.node->condition);
    if (found) append(heap_, *loop.items, item);
  }
  scope_ = outer;
  return found;
}

Render::Flow Render::iterate_loop(const LoopNode& n, Value iterable, std::int64_t depth0) {
  const Deeper deeper(*this);
  Scope* outer = scope_;
  Loop& loop = *heap_.make<Loop>();
  loop.node = &n;
  loop.depth0 = depth0;
  loop.scope = outer;
  const Error* failure = nullptr;  // of a generator, raised behind its items
  loop.source = iterate(heap_, iterable, failure);
  loop.items = n.condition == kNoNode ? loop.source : make_list(heap_);
  Value self = Value::of(Kind::loop);
  self.loop = &loop;
  const Node& target = node(n.target);
  Scope* scope = nullptr;
  Flow flow = Flow::next;
  std::size_t i = 0;
  for (;; ++i) {
    if (i >= loop.items->size && !pull(loop)) break;
    loop.index0 = i;
    if (!scope || scope->kept)
      scope = open_scope(outer, n.scope_size);
    else
      clear(*scope);
    scope_ = scope;
    step(target);
    if (n.uses_loop) define(n.slot, self);
    if (target.kind == NodeKind::name)
      define(target.b, loop.items->at(i));
    else
      assign(n.target, loop.items->at(i));
    flow = execute(n.body);
    scope_ = outer;
    if (flow == Flow::loop_break) break;
  }
  scope_ = outer;
  if (failure != nullptr && flow != Flow::loop_break) throw Error(*failure);
  if (i == 0 && flow == Flow::next && n.otherwise != kNoNode) {
    scope_ = open_scope(outer, n.otherwise_size);
    flow = execute(n.otherwise);
    scope_ = outer;
    return flow;
  }
  return Flow::next;
}

// ---- Template

namespace {

template <typename Use>
void render_with(const Program& program, const Value& context, const Budget& budget, Use use) {
  std::optional<Render> render;
  try {
    render.emplace(program, context, budget);
    render->run();
    use(render->finish());
  } catch (Error& error) {
    error.in(position(program.name, program.source, render ? render->offset() : 0));
    throw;
  } catch (const std::bad_alloc&) {
    throw Error(Code::resource_exhausted, "out of memory").in(program.name);
  }
}

}  // namespace

Template::Template(std::string source, std::string name) : program_(std::make_unique<Program>()) {
  program_->name = std::move(name);
  program_->source = normalized_source(source);
  if (program_->source.size() > (64u << 20)) throw Error(Code::resource_exhausted, "a template is longer than 64 MiB").in(program_->name);
  parse(*program_);
}

Template::~Template() = default;
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;

std::string Template::render(const Value& context, const Budget& budget) const {
  std::string text;
  render_with(*program_, context, budget, [&](Writer& out) { text = std::move(out.text()); });
  return text;
}

std::vector<Piece> Template::render_pieces(const Value& context, const Budget& budget) const {
  std::vector<Piece> pieces;
  render_with(*program_, context, budget, [&](const Writer& out) {
    std::size_t begin = 0;
    for (const Span& span : out.spans()) {
      pieces.push_back({out.text().substr(begin, span.end - begin), span.untrusted});
      begin = span.end;
    }
  });
  return pieces;
}

const std::string& Template::name() const { return program_->name; }
const std::string& Template::source() const { return program_->source; }

}  // namespace quern::templates
