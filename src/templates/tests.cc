#include <algorithm>

#include "templates/arguments.h"

// The words after `is`.
namespace quern::templates {
namespace {

using Args = const Arguments&;

template <typename... Kinds>
bool any_of(const Value& v, Kinds... kinds) {
  return (v.is(kinds) || ...);
}

template <Kind... kKinds>
Value is_kind(Render&, const Value& v, const Value*, Args) {
  return Value::of(any_of(v, kKinds...));
}

template <int kRemainder>
Value has_remainder(Render& r, const Value& v, const Value*, Args) {
  return Value::of(equal(arithmetic(r.heap(), Operator::modulo, v, Value::of(std::int64_t{2})), Value::of(std::int64_t{kRemainder})));
}

Value divisible(Render& r, const Value& v, const Value* a, Args) {
  return Value::of(equal(arithmetic(r.heap(), Operator::modulo, v, a[0]), Value::of(std::int64_t{0})));
}

enum class Order { lt, le, gt, ge };

template <Order kOrder>
Value ordered(Render&, const Value& v, const Value* a, Args) {
  static constexpr std::string_view kSymbols[] = {"<", "<=", ">", ">="};
  const int c = compare(v, a[0], kSymbols[static_cast<int>(kOrder)]);
  return Value::of(kOrder == Order::lt ? c < 0 : kOrder == Order::le ? c <= 0 : kOrder == Order::gt ? c > 0 : c >= 0);
}

template <bool kUpper>
Value has_case(Render& r, const Value& v, const Value*, Args) {
  const Value text = to_string(r.heap(), v);
  bool cased = false;
  for (std::size_t i = 0; i < text.string->size;) {
    const char32_t c = next_code_point(text.text(), i);
    if (kUpper ? is_lower(c) : is_upper(c)) return Value::of(false);
    if (is_title(c)) return Value::of(false);
    cased = cased || (kUpper ? is_upper(c) : is_lower(c));
  }
  return Value::of(cased);
}

Value sequence(Render&, const Value& v, const Value*, Args) {
  return Value::of(any_of(v, Kind::string, Kind::dict, Kind::undefined) || (v.is(Kind::list) && v.list->type <= Sequence::range));
}

Value same(Render&, const Value& v, const Value* a, Args) { return Value::of(v.kind == a[0].kind && equal(v, a[0])); }

template <const Row* (*kFind)(std::string_view)>
Value known(Render&, const Value& v, const Value*, Args) {
  if (v.is(Kind::dict) || v.is(Kind::list)) hash(v);  // fails where Python does
  return Value::of(v.is(Kind::string) && kFind(v.text()) != nullptr);
}

Value equals(Render&, const Value& v, const Value* a, Args) { return Value::of(equal(v, a[0])); }
Value differs(Render&, const Value& v, const Value* a, Args) { return Value::of(!equal(v, a[0])); }

constexpr Row kRows[] = {
    {"!=", differs, {"other"}},
    {"<", ordered<Order::lt>, {"other"}},
    {"<=", ordered<Order::le>, {"other"}},
    {"==", equals, {"other"}},
    {">", ordered<Order::gt>, {"other"}},
    {">=", ordered<Order::ge>, {"other"}},
    {"boolean", is_kind<Kind::boolean>},
    {"callable", is_kind<Kind::function, Kind::method, Kind::macro, Kind::loop, Kind::joiner, Kind::block, Kind::undefined>},
    {"defined", [](Render&, const Value& v, const Value*, Args) { return Value::of(!v.is(Kind::undefined)); }},
    {"divisibleby", divisible, {"num"}},
    {"eq", equals, {"other"}},
    {"equalto", equals, {"other"}},
    {"escaped", [](Render&, const Value& v, const Value*, Args) { return Value::of(v.is(Kind::string) && v.markup); }},
    {"even", has_remainder<0>},
    {"false", [](Render&, const Value& v, const Value*, Args) { return Value::of(v.is(Kind::boolean) && !v.boolean); }},
    {"filter", known<find_filter>},
    {"float", is_kind<Kind::real>},
    {"ge", ordered<Order::ge>, {"other"}},
    {"greaterthan", ordered<Order::gt>, {"other"}},
    {"gt", ordered<Order::gt>, {"other"}},
    {"in", [](Render& r, const Value& v, const Value* a, Args) { return Value::of(contains(r.heap(), a[0], v)); }, {"seq"}},
    {"integer", is_kind<Kind::integer, Kind::big>},
    {"iterable", [](Render&, const Value& v, const Value*, Args) { return Value::of(is_iterable(v)); }},
    {"le", ordered<Order::le>, {"other"}},
    {"lessthan", ordered<Order::lt>, {"other"}},
    {"lower", has_case<false>},
    {"lt", ordered<Order::lt>, {"other"}},
    {"mapping", is_kind<Kind::dict>},
    {"ne", differs, {"other"}},
    {"none", is_kind<Kind::none>},
    {"number", is_kind<Kind::boolean, Kind::integer, Kind::big, Kind::real>},
    {"odd", has_remainder<1>},
    {"sameas", same, {"other"}},
    {"sequence", sequence},
    {"string", is_kind<Kind::string>},
    {"test", known<find_test>},
    {"true", [](Render&, const Value& v, const Value*, Args) { return Value::of(v.is(Kind::boolean) && v.boolean); }},
    {"undefined", is_kind<Kind::undefined>},
    {"upper", has_case<true>},
};

}  // namespace

std::span<const Row> tests() { return kRows; }

Value call_test(Render& r, const Value& name, const Value& value, const Arguments& arguments) {
  const Row* row = find_test(required_text(name));
  if (!row) bad_argument("No test named '" + std::string(name.text()) + "'.");
  return invoke(r, *row, value, arguments);
}

}  // namespace quern::templates
