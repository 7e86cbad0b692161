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

}  // namespace quern::templates
