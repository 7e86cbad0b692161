#include <algorithm>
#include <utility>

#include "templates/render.h"

// The interpreter's calls: arguments, filters and tests, methods, macros, recursive loops.
namespace quern::templates {
namespace {

[[noreturn]] void fail(std::string message) { throw Error(Code::invalid_argument, std::move(message)); }

}  // namespace

struct Render::CallValues {
  Value* positional = nullptr;
  std::size_t positional_count = 0;
  Named* named = nullptr;
  std::size_t named_count = 0;

  Arguments arguments() const { return {{positional, positional_count}, {named, named_count}}; }
};

// `caller` is what a call block passes on beside the arguments.
void Render::collect(std::int32_t id, CallValues& values, const Value* caller) {
  if (id == kNoNode) return;
  const ArgumentNodes& nodes = program_.arguments[static_cast<std::size_t>(id)];
  values.positional_count = nodes.positional.size();
  values.named_count = nodes.named.size();
  values.positional = heap_.array<Value>(values.positional_count);
  for (std::size_t i = 0; i < values.positional_count; ++i) values.positional[i] = evaluate(nodes.positional[i]);
  const Value more = nodes.star == kNoNode ? Value() : evaluate(nodes.star);
  if (nodes.star != kNoNode) {
    if (more.is(Kind::undefined)) fail_undefined(more);
    const List* items = iterate(heap_, more);
    Value* all = heap_.array<Value>(values.positional_count + items->size);
    std::copy(values.positional, values.positional + values.positional_count, all);
    for (std::size_t i = 0; i < items->size; ++i) all[values.positional_count + i] = items->at(i);
    values.positional = all;
    values.positional_count += items->size;
  }
  values.named = heap_.array<Named>(values.named_count + (caller != nullptr));
  for (std::size_t i = 0; i < values.named_count; ++i)
    values.named[i] = {program_.names[static_cast<std::size_t>(nodes.named[i].first)].text.text(), evaluate(nodes.named[i].second)};
  if (caller) values.named[values.named_count++] = {"caller", *caller};
  if (nodes.double_star == kNoNode) return;
  const Value extra = evaluate(nodes.double_star);
  if (!extra.is(Kind::dict)) fail("argument after ** must be a mapping, not " + std::string(type_name(extra)));
  Named* all = heap_.array<Named>(values.named_count + extra.dict->size);
  std::copy(values.named, values.named + values.named_count, all);
  for (std::size_t i = 0; i < extra.dict->size; ++i) {
    const Entry& entry = extra.dict->entries[i];
    if (!entry.key.is(Kind::string)) fail("keywords must be strings");
    work(values.named_count);
    for (std::size_t k = 0; k < values.named_count; ++k)
      if (all[k].name == entry.key.text()) fail("got multiple values for keyword argument '" + std::string(all[k].name) + "'");
    all[values.named_count + i] = {entry.key.text(), entry.value};
  }
  values.named = all;
  values.named_count += extra.dict->size;
}

Value Render::evaluate_call(const Node& n, const Value* caller) {
  const Deeper deeper(*this);
  // A method that is called at once needs no method object.
  const Node& callee = node(n.a);
  if (callee.kind == NodeKind::attribute) {
    const Value self = evaluate(callee.a);
    if (const Row* row = select_method(program_.names[static_cast<std::size_t>(callee.b)].methods, self)) {
      CallValues values;
      collect(n.b, values, caller);
      offset_ = n.offset;
      return invoke(*this, *row, self, values.arguments());
    }
    offset_ = callee.offset;
    const Value function = attribute(self, callee.b);
    CallValues values;
    collect(n.b, values, caller);
    offset_ = n.offset;
    return call(function, values.arguments());
  }
  const Value function = evaluate(n.a);
  CallValues values;
  collect(n.b, values, caller);
  offset_ = n.offset;
  return call(function, values.arguments());
}

Value Render::evaluate_filter(const Node& n) {
  const Deeper deeper(*this);
  return apply_filter(n, evaluate(n.a));
}

Value Render::apply_filter(const Node& n, const Value& input) {
  CallValues values;
  collect(n.b, values);
  offset_ = n.offset;
  const Row* row = program_.rows[static_cast<std::size_t>(n.c)];
  if (!row) fail("No filter named '" + std::string(program_.names[static_cast<std::size_t>(n.d)].text.text()) + "'.");
  return invoke(*this, *row, input, values.arguments());
}

Value Render::apply_chain(NodeId chain, const Value& text) {
  if (chain == kNoNode) return text;
  const Deeper deeper(*this);
  const Node& n = node(chain);
  const Value input = apply_chain(n.a, text);
  step(n);
  return apply_filter(n, input);
}

Value Render::evaluate_test(const Node& n) {
  const Deeper deeper(*this);
  const Value input = evaluate(n.a);
  CallValues values;
  collect(n.b, values);
  offset_ = n.offset;
  const Row* row = program_.rows[static_cast<std::size_t>(n.c)];
  if (!row) fail("No test named '" + std::string(program_.names[static_cast<std::size_t>(n.d)].text.text()) + "'.");
  return invoke(*this, *row, input, values.arguments());
}

Value Render::call(const Value& callee, const Arguments& arguments) {
  const Deeper deeper(*this);
  switch (callee.kind) {
    case Kind::undefined: fail_undefined(callee);
    case Kind::function: return invoke(*this, callee.function->row, Value::none(), arguments);
    case Kind::method: return invoke(*this, *callee.method->row, callee.method->self, arguments);
    case Kind::macro: return call_macro(*callee.macro, arguments);
    case Kind::loop: return call_loop(*callee.loop, arguments);
    case Kind::block: return call_block(callee.integer, arguments);
    case Kind::joiner:
      if (std::exchange(callee.cycler->used, true)) return callee.cycler->separator;
      return string("");
    default: fail("'" + std::string(type_name(callee)) + "' object is not callable");
  }
}

Value Render::call_macro(const Macro& macro, const Arguments& arguments) {
  if (++calls_ > budget_.recursion)
    throw Error(Code::resource_exhausted, "macros call each other deeper than " + std::to_string(budget_.recursion));
  const MacroNode& n = *macro.node;
  const auto name = [&] { return macro.name.is(Kind::string) ? string_repr(macro.name.text()) : std::string("None"); };
  Writer text(heap_, std::move(spare_));
  Writer* outer_out = std::exchange(out_, &text);
  Scope* outer = scope_;
  scope_ = open_scope(macro.scope, n.scope_size);
  const std::size_t given = std::min(arguments.positional.size(), n.parameters.size());
  for (std::size_t i = 0; i < given; ++i) define(n.slots[i], arguments.positional[i]);
  Dict* rest = n.uses_kwargs ? make_dict(heap_) : nullptr;
  Value caller = Value::of(Kind::absent);
  const bool caller_twice = !n.uses_caller && std::any_of(arguments.named.begin(), arguments.named.end(), [&](const Named& named) {
    return named.name == "caller" &&
           std::find(n.parameters.begin() + static_cast<std::ptrdiff_t>(given), n.parameters.end(), kCaller) == n.parameters.end();
  });
  for (const Named& named : arguments.named) {
    work(n.parameters.size() - given);
    std::size_t i = given;
    while (i < n.parameters.size() && program_.names[static_cast<std::size_t>(n.parameters[i])].text.text() != named.name) ++i;
    if (i < n.parameters.size())
      define(n.slots[i], named.value);
    else if (named.name == "caller" && n.uses_caller)
      caller = named.value;
    else if (n.uses_kwargs)
      set(heap_, *rest, named.name, named.value);
    else if (caller_twice)
      fail("macro " + name() + " was invoked with two values for the special caller argument. This is most likely a bug.");
    else
      fail("macro " + name() + " takes no keyword argument '" + std::string(named.name) + "'");
  }
  for (std::size_t i = given; i < n.parameters.size(); ++i) {
    if (scope_->cells[n.slots[i]].given()) continue;
    define(n.slots[i], n.defaults[i] == kNoNode ? n.missing[i] : evaluate(n.defaults[i]));
  }
  if (n.uses_caller) define(n.caller_slot, caller.given() ? caller : undefined_because(heap_, "No caller defined"));
  if (n.uses_kwargs) define(n.kwargs_slot, Value::of(rest));
  if (n.uses_varargs) {
    List* more = make_list(heap_, 0, Sequence::tuple);
    for (std::size_t i = given; i < arguments.positional.size(); ++i) append(heap_, *more, arguments.positional[i]);
    define(n.varargs_slot, Value::of(more));
  } else if (arguments.positional.size() > n.parameters.size()) {
    fail("macro " + name() + " takes not more than " + std::to_string(n.parameters.size()) + " argument(s)");
  }
  execute(n.body);
  scope_ = outer;
  out_ = outer_out;
  --calls_;
  return finish(text);
}

Value Render::call_loop(Loop& loop, const Arguments& arguments) {
  if (!loop.node->recursive) fail("The loop must have the 'recursive' marker to be called recursively.");
  if (arguments.positional.size() != 1 || !arguments.named.empty()) fail("loop() takes one argument");
  if (++calls_ > budget_.recursion)
    throw Error(Code::resource_exhausted, "a loop recurses deeper than " + std::to_string(budget_.recursion));
  Writer text(heap_, std::move(spare_));
  Writer* outer_out = std::exchange(out_, &text);
  Scope* outer = std::exchange(scope_, loop.scope);
  iterate_loop(*loop.node, arguments.positional[0], loop.depth0 + 1);
  scope_ = outer;
  out_ = outer_out;
  --calls_;
  return finish(text);
}

}  // namespace quern::templates
