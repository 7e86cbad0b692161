#include <algorithm>
#include <utility>

#include "templates/render.h"

// The interpreter's expressions.
namespace quern::templates {
namespace {

[[noreturn]] void fail(std::string message) { throw Error(Code::invalid_argument, std::move(message)); }

[[noreturn]] void not_an_expression() { throw Error(Code::internal, "a statement where an expression should be"); }

std::string_view comparison_symbol(Comparison c) {
  static constexpr std::string_view kSymbols[] = {"==", "!=", "<", "<=", ">", ">=", "in", "not in"};
  return kSymbols[static_cast<std::size_t>(c)];
}

}  // namespace

struct Render::CallValues {
  Value* positional = nullptr;
  std::size_t positional_count = 0;
  Named* named = nullptr;
  std::size_t named_count = 0;

  Arguments arguments() const { return {{positional, positional_count}, {named, named_count}}; }
};

Value Render::undefined(const Value& owner, const Value& name) const {
  Value v;
  v.owner = owner.kind;
  v.string = name.string;
  return v;
}

Value Render::evaluate(NodeId id) {
  const Node& n = node(id);
  if (counted(n)) [[unlikely]]
    return evaluate_checked(id);
  switch (n.kind) {
    case NodeKind::constant: return program_.constants[static_cast<std::size_t>(n.a)];
    case NodeKind::name: return lookup(n);
    case NodeKind::attribute: return evaluate_attribute(n);
    case NodeKind::item: return evaluate_item(n);
    case NodeKind::constant_slice:
    case NodeKind::slice: return evaluate_slice(n);
    case NodeKind::call: return evaluate_call(n);
    case NodeKind::filter: return evaluate_filter(n);
    case NodeKind::test: return evaluate_test(n);
    case NodeKind::list: return evaluate_list(n, Sequence::list);
    case NodeKind::tuple: return evaluate_list(n, Sequence::tuple);
    case NodeKind::dict: return evaluate_dict(n);
    case NodeKind::sum: return evaluate_sum(n);
    case NodeKind::join: return evaluate_join(n);
    case NodeKind::binary: return evaluate_binary(n);
    case NodeKind::negative: return evaluate_negative(n);
    case NodeKind::positive: return evaluate_positive(n);
    case NodeKind::logical_not: return evaluate_not(n);
    case NodeKind::logical_and:
    case NodeKind::logical_or: return evaluate_logic(n);
    case NodeKind::compare: return evaluate_comparison(n);
    case NodeKind::conditional: return evaluate_conditional(n);
    default: not_an_expression();
  }
}

Value Render::evaluate_checked(NodeId id) {
  check_steps();
  --steps_;
  return evaluate(id);
}

Value Render::evaluate_comparison(const Node& n) { return Value::of(evaluate_compare(n)); }

Value Render::evaluate_not(const Node& n) {
  const Deeper deeper(*this);
  return Value::of(!holds(n.a));
}

bool Render::holds(NodeId id) {
  const Node& n = node(id);
  switch (n.kind) {
    case NodeKind::name: step(n); return truth(lookup(n));
    case NodeKind::compare: step(n); return evaluate_compare(n);
    case NodeKind::logical_not: {
      step(n);
      const Deeper deeper(*this);
      return !holds(n.a);
    }
    case NodeKind::logical_and:
    case NodeKind::logical_or: step(n); return holds_logic(n);
    default: return truth(evaluate(id));
  }
}

Value Render::evaluate_attribute(const Node& n) {
  const Deeper deeper(*this);
  const Value object = evaluate(n.a);
  offset_ = n.offset;
  return attribute(object, n.b);
}

Value Render::evaluate_item(const Node& n) {
  const Deeper deeper(*this);
  const Value object = evaluate(n.a), key = evaluate(n.b);
  offset_ = n.offset;
  return item(object, key);
}

Value Render::evaluate_slice(const Node& n) {
  const Deeper deeper(*this);
  const auto part = [&](NodeId bound) { return bound == kNoNode ? Value::none() : evaluate(bound); };
  const Value object = evaluate(n.a), start = part(n.b), stop = part(n.c), step_by = part(n.d);
  offset_ = n.offset;
  if (object.is(Kind::undefined)) fail_undefined(object);
  work(object.is(Kind::string) ? object.string->size : 0);
  try {
    return slice(heap_, object, start, stop, step_by);
  } catch (const Error& error) {
    if (n.kind == NodeKind::slice || error.code() != Code::invalid_argument || error.message().ends_with("zero")) throw;
    return {};
  }
}

Value Render::evaluate_binary(const Node& n) {
  const Deeper deeper(*this);
  const Value a = evaluate(n.a), b = evaluate(n.b);
  offset_ = n.offset;
  return arithmetic(heap_, n.op, a, b);
}

Value Render::evaluate_negative(const Node& n) {
  const Deeper deeper(*this);
  return negate(heap_, evaluate(n.a));
}

Value Render::evaluate_positive(const Node& n) {
  const Deeper deeper(*this);
  const Value v = evaluate(n.a);
  if (v.is(Kind::undefined)) fail_undefined(v);
  if (!v.is_number() && !v.is(Kind::big)) fail("bad operand type for unary +: '" + std::string(type_name(v)) + "'");
  return v.is(Kind::boolean) ? Value::of(std::int64_t{v.boolean}) : v;
}

Value Render::evaluate_logic(const Node& n) {
  const Deeper deeper(*this);
  Value v;
  for (std::int32_t i = 0; i < n.count; ++i)
    if (v = evaluate(child(n, i)); truth(v) == (n.kind == NodeKind::logical_or)) break;
  return v;
}

bool Render::holds_logic(const Node& n) {
  const Deeper deeper(*this);
  const bool decides = n.kind == NodeKind::logical_or;
  for (std::int32_t i = 0; i < n.count; ++i)
    if (holds(child(n, i)) == decides) return decides;
  return !decides;
}

Value Render::evaluate_conditional(const Node& n) {
  const Deeper deeper(*this);
  return evaluate(holds(n.a) ? n.b : n.c);
}

Value Render::evaluate_sum(const Node& n) {
  const Deeper deeper(*this);
  Value* parts = heap_.array<Value>(static_cast<std::size_t>(n.count));
  bool plain = true;
  for (std::int32_t i = 0; i < n.count; ++i) {
    parts[i] = evaluate(child(n, i));
    plain = plain && parts[i].is(Kind::string) && !parts[i].markup;
  }
  offset_ = n.offset;
  if (plain) return concatenate(heap_, {parts, static_cast<std::size_t>(n.count)});
  Value sum = parts[0];
  for (std::int32_t i = 1; i < n.count; ++i) sum = arithmetic(heap_, Operator::add, sum, parts[i]);
  return sum;
}

Value Render::evaluate_join(const Node& n) {
  const Deeper deeper(*this);
  Value* parts = heap_.array<Value>(static_cast<std::size_t>(n.count));
  bool markup = false;
  for (std::int32_t i = 0; i < n.count; ++i) {
    parts[i] = to_string(heap_, evaluate(child(n, i)));
    markup = markup || (escaping_ && parts[i].markup);
  }
  if (markup)  // as Markup.join
    for (std::int32_t i = 0; i < n.count; ++i)
      if (!parts[i].markup) parts[i] = make_string(heap_, html_escape(parts[i].text()), any_untrusted(*parts[i].string));
  Value joined = concatenate(heap_, {parts, static_cast<std::size_t>(n.count)});
  joined.markup = markup;
  return joined;
}

bool Render::evaluate_compare(const Node& n) {
  const Deeper deeper(*this);
  Value left = evaluate(n.a);
  for (std::int32_t i = 0; i < n.count; i += 2) {
    const Value right = evaluate(child(n, i + 1));
    offset_ = n.offset;
    if (!compare_pair(static_cast<Comparison>(child(n, i)), left, right)) return false;
    left = right;
  }
  return true;
}

bool Render::compare_pair(Comparison comparison, const Value& left, const Value& right) {
  switch (comparison) {
    case Comparison::eq: return equal(left, right);
    case Comparison::ne: return !equal(left, right);
    case Comparison::in:
    case Comparison::not_in:
      work(right.is(Kind::string) ? right.string->size : right.is(Kind::list) ? right.list->size : 0);
      return contains(heap_, right, left) == (comparison == Comparison::in);
    default: {
      const bool nan = (left.is(Kind::real) && left.real != left.real) || (right.is(Kind::real) && right.real != right.real);
      const int order = compare(left, right, comparison_symbol(comparison));
      return !nan && (comparison == Comparison::lt   ? order < 0
                      : comparison == Comparison::le ? order <= 0
                      : comparison == Comparison::gt ? order > 0
                                                     : order >= 0);
    }
  }
}

Value Render::evaluate_dict(const Node& n) {
  const Deeper deeper(*this);
  Dict* dict = make_dict(heap_, static_cast<std::size_t>(n.count / 2));
  for (std::int32_t i = 0; i < n.count; i += 2) {
    const Value key = evaluate(child(n, i));
    set(heap_, *dict, key, evaluate(child(n, i + 1)));
  }
  return Value::of(dict);
}

Value Render::evaluate_list(const Node& n, Sequence type) {
  const Deeper deeper(*this);
  List* list = make_list(heap_, static_cast<std::size_t>(n.count), type);
  for (std::int32_t i = 0; i < n.count; ++i) append(heap_, *list, evaluate(child(n, i)));
  return Value::of(list);
}

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
  if (input.is(Kind::string)) work(input.string->size);
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

// ---- Attributes

// What Python numbers and ranges hold beside methods.
Value Render::plain_attribute(const Value& object, std::string_view name) const {
  const auto integer = [](std::int64_t i) { return Value::of(i); };
  if (object.is_number() || object.is(Kind::big)) {
    const Value self = object.is(Kind::boolean) ? integer(object.boolean) : object;
    if (name == "real") return self;
    if (name == "imag") return object.is(Kind::real) ? Value::of(0.0) : integer(0);
    if (object.is(Kind::real)) return {};
    if (name == "numerator") return self;
    if (name == "denominator") return integer(1);
  } else if (object.is(Kind::list) && object.list->type == Sequence::range) {
    if (name == "start") return integer(object.list->start);
    if (name == "stop") return integer(object.list->stop);
    if (name == "step") return integer(object.list->step);
  }
  return {};
}

Value Render::attribute(const Value& object, NameId name) {
  const NameInfo& info = program_.names[static_cast<std::size_t>(name)];
  switch (object.kind) {
    case Kind::undefined: fail_undefined(object);
    case Kind::space: {
      const Value* found = object.dict->find(info.text.text());
      return found && !info.text.text().starts_with('_') ? *found : undefined(object, info.text);
    }
    case Kind::loop: return loop_attribute(object, name);
    default: break;
  }
  if (const Row* row = select_method(info.methods, object)) {
    Method* method = heap_.make<Method>();
    *method = {object, row};
    Value v = Value::of(Kind::method);
    v.method = method;
    return v;
  }
  switch (object.kind) {
    case Kind::dict:
      if (const Value* found = object.dict->find(info.text.text())) return *found;
      break;
    case Kind::boolean:
    case Kind::integer:
    case Kind::big:
    case Kind::real:
      if (const Value found = plain_attribute(object, info.text.text()); !found.is(Kind::undefined)) return found;
      break;
    case Kind::list:
      if (object.list->type == Sequence::range)
        if (const Value found = plain_attribute(object, info.text.text()); !found.is(Kind::undefined)) return found;
      if (object.list->type == Sequence::group && name == kGrouper) return object.list->at(0);
      if (object.list->type == Sequence::group && name == kList) return object.list->at(1);
      break;
    case Kind::macro:
      if (name == kName) return object.macro->name;
      break;
    case Kind::cycler:
      if (name == kCurrent) return object.cycler->items->at(object.cycler->at);
      if (name != kNext && name != kReset) break;
      [[fallthrough]];
    default: {
      if (!object.is(Kind::cycler)) break;
      static constexpr Row kNextRow{"next", [](Render&, const Value& self, const Value*, const Arguments&) {
                                      const Value v = self.cycler->items->at(self.cycler->at);
                                      self.cycler->at = (self.cycler->at + 1) % self.cycler->items->size;
                                      return v;
                                    }};
      static constexpr Row kResetRow{"reset", [](Render&, const Value& self, const Value*, const Arguments&) {
                                       self.cycler->at = 0;
                                       return Value::none();
                                     }};
      Method* method = heap_.make<Method>();
      *method = {object, name == kNext ? &kNextRow : &kResetRow};
      Value v = Value::of(Kind::method);
      v.method = method;
      return v;
    }
  }
  return undefined(object, info.text);
}

Value Render::attribute(const Value& object, std::string_view name) {
  if (const Row* row = find_method(name, object)) {
    Method* method = heap_.make<Method>();
    *method = {object, row};
    Value v = Value::of(Kind::method);
    v.method = method;
    return v;
  }
  if (object.is(Kind::undefined)) fail_undefined(object);
  if (object.is(Kind::space) || object.is(Kind::dict))
    if (const Value* found = object.dict->find(name)) return *found;
  if (const Value found = plain_attribute(object, name); !found.is(Kind::undefined)) return found;
  if (object.is(Kind::list) && object.list->type == Sequence::group) {
    if (name == "grouper") return object.list->at(0);
    if (name == "list") return object.list->at(1);
  }
  return undefined(object, string(name));
}

Value Render::item(const Value& object, const Value& key) {
  if (object.is(Kind::dict) && key.is(Kind::string))
    if (const Value* found = object.dict->find(key.text())) return *found;
  if (object.is(Kind::string) && object.string->size > 64) work(object.string->size);
  const Value found = get_item(heap_, object, key);
  if (!found.is(Kind::undefined) || !key.is(Kind::string)) return found;
  for (std::size_t i = 0; i < kKnownNames; ++i)  // loop['index'] and the like
    if (object.is(Kind::loop) && program_.names[i].text.text() == key.text()) return loop_attribute(object, static_cast<NameId>(i));
  return attribute(object, key.text());
}

Value Render::path(const Value& object, const Value& path, const Value& otherwise) {
  const auto step_into = [&](const Value& from, const Value& key) {
    const Value found = item(from, key);
    return found.is(Kind::undefined) && !otherwise.is(Kind::undefined) ? otherwise : found;
  };
  if (!path.is(Kind::string)) return step_into(object, path);
  Value v = object;
  std::string_view rest = path.text();
  for (bool more = true; more;) {
    const std::size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    more = dot != rest.npos;
    if (more) rest.remove_prefix(dot + 1);
    const bool number = !part.empty() && part.size() < 18 && part.find_first_not_of("0123456789") == part.npos;
    v = step_into(v, number ? Value::of(static_cast<std::int64_t>(std::stoll(std::string(part)))) : string(part));
  }
  return v;
}

Value Render::loop_attribute(const Value& object, NameId name) {
  Loop& loop = *object.loop;
  const auto integer = [](std::size_t i) { return Value::of(static_cast<std::int64_t>(i)); };
  const auto size = [&] {
    while (pull(loop)) {
    }
    return loop.items->size;
  };
  const auto missing = [&](const char* what) { return undefined_because(heap_, what); };
  switch (name) {
    case kIndex: return integer(loop.index0 + 1);
    case kIndex0: return integer(loop.index0);
    case kFirst: return Value::of(loop.index0 == 0);
    case kLast: return Value::of(loop.index0 + 1 >= loop.items->size && !pull(loop));
    case kLength: return integer(size());
    case kRevindex: return integer(size() - loop.index0);
    case kRevindex0: return integer(size() - loop.index0 - 1);
    case kDepth: return Value::of(loop.depth0 + 1);
    case kDepth0: return Value::of(loop.depth0);
    case kPrevitem: return loop.index0 == 0 ? missing("there is no previous item") : loop.items->at(loop.index0 - 1);
    case kNextitem:
      if (loop.index0 + 1 < loop.items->size || pull(loop)) return loop.items->at(loop.index0 + 1);
      return missing("there is no next item");
    case kCycle:
    case kChanged: {
      static constexpr Row kCycleRow{"cycle",
                                     [](Render&, const Value& self, const Value*, const Arguments& all) {
                                       if (all.positional.empty()) fail("no items for cycling given");
                                       return all.positional[self.loop->index0 % all.positional.size()];
                                     },
                                     {"*"}};
      static constexpr Row kChangedRow{"changed",
                                       [](Render& r, const Value& self, const Value*, const Arguments& all) {
                                         List* now = make_list(r.heap(), all.positional.size(), Sequence::tuple);
                                         for (const Value& v : all.positional) append(r.heap(), *now, v);
                                         List*& last = self.loop->changed;
                                         if (last && equal(Value::of(last), Value::of(now))) return Value::of(false);
                                         last = now;
                                         return Value::of(true);
                                       },
                                       {"*"}};
      Method* method = heap_.make<Method>();
      *method = {object, name == kCycle ? &kCycleRow : &kChangedRow};
      Value v = Value::of(Kind::method);
      v.method = method;
      return v;
    }
    default: return undefined(object, program_.names[static_cast<std::size_t>(name)].text);
  }
}

// ---- Calls

Value Render::call(const Value& callee, const Arguments& arguments) {
  const Deeper deeper(*this);
  switch (callee.kind) {
    case Kind::undefined: fail_undefined(callee);
    case Kind::function: return invoke(*this, callee.function->row, Value::none(), arguments);
    case Kind::method: return invoke(*this, *callee.method->row, callee.method->self, arguments);
    case Kind::macro: return call_macro(*callee.macro, arguments);
    case Kind::loop: return call_loop(*callee.loop, arguments);
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
