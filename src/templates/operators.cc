#include "templates/operators.h"

#include "templates/big_integer.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace quern::templates {
namespace {

constexpr int kMaxDepth = 256;

[[noreturn]] void fail(std::string message) { throw Error(Code::invalid_argument, std::move(message)); }
[[noreturn]] void too_deep() { throw Error(Code::resource_exhausted, "a value is nested too deeply (or holds itself)"); }

std::string quoted_type(const Value& v) { return "'" + std::string(type_name(v)) + "'"; }

constexpr std::size_t kBytesAtOnce = 16;  // comparing so many bytes takes about as long as one step of anything else

bool same_text(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  count_work(a.size() / kBytesAtOnce);
  return a == b;
}

bool is_tuple(const Value& v) { return v.is(Kind::list) && (v.list->type == Sequence::tuple || v.list->type == Sequence::group); }

bool is_set(const Value& v) { return v.is(Kind::list) && (v.list->type == Sequence::keys || v.list->type == Sequence::items); }

// Of the views of dicts that are sets to Python: keys by hash, pairs one by one.
bool is_subset(const Value& a, const Value& b, int depth) {
  Heap heap;
  Dict* keys = make_dict(heap);
  const auto key_of = [](const Value& v, const Value& item) { return v.list->type == Sequence::items ? item.list->at(0) : item; };
  for (std::size_t i = 0; i < b.list->size; ++i) set(heap, *keys, key_of(b, b.list->at(i)), b.list->at(i));
  for (std::size_t i = 0; i < a.list->size; ++i) {
    const Value item = a.list->at(i);
    const Value* other = a.list->type == b.list->type ? keys->find(key_of(a, item)) : nullptr;
    if (!other || !equal(item, *other, depth + 1)) return false;
  }
  return true;
}

int sign(double d) { return d < 0 ? -1 : d > 0 ? 1 : 0; }

// Exact where both are integers.
int compare_numbers(const Value& a, const Value& b) {
  if (!a.is(Kind::real) && !b.is(Kind::real) && !a.is(Kind::big) && !b.is(Kind::big)) {
    const std::int64_t x = as_index(a), y = as_index(b);
    return x < y ? -1 : x > y;
  }
  if (!a.is(Kind::real) && !b.is(Kind::real)) return BigInteger::compare(BigInteger::of(a), BigInteger::of(b));
  const double x = a.is(Kind::real) ? a.real : 0, y = b.is(Kind::real) ? b.real : 0;
  if (!std::isfinite(x) || !std::isfinite(y) || (a.is(Kind::real) && b.is(Kind::real))) return sign(x - y);
  // An integer and a real are compared by value, not after rounding.
  const double fraction = a.is(Kind::real) ? x - std::trunc(x) : std::trunc(y) - y;
  const int whole = BigInteger::compare(a.is(Kind::real) ? BigInteger::truncated(x) : BigInteger::of(a),
                                        b.is(Kind::real) ? BigInteger::truncated(y) : BigInteger::of(b));
  return whole != 0 ? whole : sign(fraction);
}

bool numeric(const Value& v) { return v.is_number() || v.is(Kind::big); }

Value repeat(Heap& heap, const Value& what, std::int64_t count) {
  const std::size_t times = count < 0 ? 0 : static_cast<std::size_t>(count);
  if (what.is(Kind::string)) {
    Writer out(heap);
    out.add_repeated(*what.string, times);
    return out.take(what.markup);
  }
  const std::size_t size = what.list->size;
  if (size != 0 && times > (std::size_t{1} << 28) / size) throw Error(Code::resource_exhausted, "a repeated list would be too long");
  List* result = make_list(heap, size * times, what.list->type);
  for (std::size_t i = 0; i < times; ++i)
    for (std::size_t k = 0; k < size; ++k) append(heap, *result, what.list->at(k));
  return Value::of(result);
}

std::int64_t floor_divide(std::int64_t a, std::int64_t b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0))); }  // b not -1

// As Python's float_divmod.
double floor_quotient(double a, double b) {
  double rest = std::fmod(a, b), quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double low = std::floor(quotient);
  return quotient - low > 0.5 ? low + 1 : low;
}

double floor_modulo(double a, double b) {
  const double r = std::fmod(a, b);
  if (r != 0 && (r < 0) != (b < 0)) return r + b;
  return r == 0 ? std::copysign(0.0, b) : r;
}

// Python's int / int rounds once, whatever the sizes.
Value true_divide(const BigInteger& a, const BigInteger& b) {
  const double x = a.real(), y = b.real();
  if (a.bits() <= 53 && b.bits() <= 53) return Value::of(x / y);
  // Enough bits of the quotient, the last of them saying whether anything follows.
  const auto shift = static_cast<std::int64_t>(b.bits()) - static_cast<std::int64_t>(a.bits()) + 66;
  const BigInteger unit = BigInteger::power(BigInteger(2), static_cast<std::uint64_t>(std::abs(shift)));
  BigInteger quotient, rest;
  BigInteger magnitude = a.negative() ? a.negated() : a, divisor = b.negative() ? b.negated() : b;
  shift >= 0 ? magnitude = magnitude* unit : divisor = divisor * unit;
  BigInteger::divide(magnitude, divisor, quotient, rest);
  if (!rest.zero()) {
    BigInteger half, odd;
    BigInteger::divide(quotient, BigInteger(2), half, odd);
    if (odd.zero()) quotient = quotient + BigInteger(1);
  }
  const double result = std::ldexp(quotient.real(), static_cast<int>(-shift));
  if (std::isinf(result)) fail("integer division result too large for a float");
  return Value::of(a.negative() != b.negative() ? -result : result);
}

Value big_integers(Heap& heap, Operator op, const Value& a, const Value& b) {
  const BigInteger x = BigInteger::of(a), y = BigInteger::of(b);
  switch (op) {
    case Operator::add: return (x + y).value(heap);
    case Operator::subtract: return (x - y).value(heap);
    case Operator::multiply: return (x * y).value(heap);
    case Operator::divide:
      if (y.zero()) fail("division by zero");
      return true_divide(x, y);
    case Operator::floor_divide:
    case Operator::modulo: {
      if (y.zero()) fail(op == Operator::modulo ? "integer modulo by zero" : "integer division or modulo by zero");
      BigInteger quotient, rest;
      BigInteger::divide(x, y, quotient, rest);
      return (op == Operator::modulo ? rest : quotient).value(heap);
    }
    case Operator::power: {
      if (y.negative()) {
        if (x.zero()) fail("0.0 cannot be raised to a negative power");
        return Value::of(std::pow(as_real(a), as_real(b)));
      }
      if (x.bits() <= 1 && b.is(Kind::big)) {  // 0, 1 and -1
        BigInteger half, odd;
        BigInteger::divide(y, BigInteger(2), half, odd);
        return x.negative() && odd.zero() ? Value::of(std::int64_t{1}) : a;
      }
      if (b.is(Kind::big)) throw Error(Code::resource_exhausted, "an integer of a template is too long");
      return BigInteger::power(x, static_cast<std::uint64_t>(as_index(b))).value(heap);
    }
  }
  return {};
}

Value integers(Heap& heap, Operator op, const Value& x, const Value& y) {
  if (!x.is(Kind::big) && !y.is(Kind::big)) {
    const std::int64_t a = as_index(x), b = as_index(y);
    std::int64_t r = 0;
    switch (op) {
      case Operator::add:
        if (!__builtin_add_overflow(a, b, &r)) return Value::of(r);
        break;
      case Operator::subtract:
        if (!__builtin_sub_overflow(a, b, &r)) return Value::of(r);
        break;
      case Operator::multiply:
        if (!__builtin_mul_overflow(a, b, &r)) return Value::of(r);
        break;
      case Operator::floor_divide:
        if (b > 0) return Value::of(floor_divide(a, b));
        break;
      case Operator::modulo:
        if (b > 0) return Value::of(a % b < 0 ? a % b + b : a % b);
        break;
      default: break;
    }
  }
  return big_integers(heap, op, x, y);
}

Value reals(Operator op, double a, double b) {
  switch (op) {
    case Operator::add: return Value::of(a + b);
    case Operator::subtract: return Value::of(a - b);
    case Operator::multiply: return Value::of(a * b);
    case Operator::divide:
      if (b == 0) fail("float division by zero");
      return Value::of(a / b);
    case Operator::floor_divide:
      if (b == 0) fail("float floor division by zero");
      return Value::of(floor_quotient(a, b));
    case Operator::modulo:
      if (b == 0) fail("float modulo");
      return Value::of(floor_modulo(a, b));
    case Operator::power: {
      if (a == 0 && b < 0) fail("0.0 cannot be raised to a negative power");
      const double r = std::pow(a, b);
      if (std::isnan(r) && !std::isnan(a) && !std::isnan(b)) throw Error(Code::unsupported, "a complex number");
      if (std::isinf(r) && !std::isinf(a) && !std::isinf(b)) fail("(34, 'Numerical result out of range')");
      return Value::of(r);
    }
  }
  return {};
}

constexpr std::string_view kSymbols[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};

std::string_view symbol(Operator op) { return kSymbols[static_cast<std::size_t>(op)]; }

// One of the two strings is markup: Python's Markup escapes the other.
Value add_strings(Heap& heap, const Value& a, const Value& b) {
  Writer out(heap);
  const bool markup = a.markup || b.markup;
  for (const Value& part : {a, b}) {
    if (markup && !part.markup)
      out.add(html_escape(part.text()), any_untrusted(*part.string));
    else
      out.add(*part.string);
  }
  return out.take(markup);
}

}  // namespace

std::string_view type_name(const Value& v) {
  switch (v.kind) {
    case Kind::absent:
    case Kind::undefined: return "Undefined";
    case Kind::none: return "NoneType";
    case Kind::boolean: return "bool";
    case Kind::integer:
    case Kind::big: return "int";
    case Kind::real: return "float";
    case Kind::string: return v.markup ? "Markup" : "str";
    case Kind::list: {
      static constexpr std::string_view kNames[] = {"list",      "tuple",       "_GroupTuple", "range",
                                                    "dict_keys", "dict_values", "dict_items",  "generator"};
      return kNames[static_cast<std::size_t>(v.list->type)];
    }
    case Kind::dict: return "dict";
    case Kind::space: return "Namespace";
    case Kind::function: return "function";
    case Kind::method: return "builtin_function_or_method";
    case Kind::macro: return "Macro";
    case Kind::loop: return "LoopContext";
    case Kind::cycler: return "Cycler";
    case Kind::joiner: return "Joiner";
    case Kind::blocks: return "TemplateReference";
    case Kind::block: return "BlockReference";
  }
  return "object";
}

std::string object_name(const Value& v) {
  std::string_view module;
  switch (v.kind) {
    case Kind::none: return "None";
    case Kind::string: module = v.markup ? "markupsafe." : ""; break;
    case Kind::list: module = v.list->type == Sequence::group ? "jinja2.filters." : ""; break;
    case Kind::space:
    case Kind::cycler:
    case Kind::joiner: module = "jinja2.utils."; break;
    case Kind::macro:
    case Kind::loop:
    case Kind::blocks:
    case Kind::block: module = "jinja2.runtime."; break;
    default: break;
  }
  return std::string(module) + std::string(type_name(v)) + " object";
}

void fail_undefined(const Value& v) {
  const std::string name = v.string ? std::string(v.text()) : "value";
  if (v.owner == Kind::absent) fail(v.element ? name : "'" + name + "' is undefined");
  Value owner = Value::of(v.owner);
  List list;  // only its type is read
  list.type = static_cast<Sequence>(v.owner_type);
  if (v.owner == Kind::list) owner.list = &list;
  if (v.owner == Kind::string) owner.markup = v.owner_type != 0;
  if (v.element) fail(object_name(owner) + " has no element " + name);
  fail("'" + object_name(owner) + "' has no attribute '" + name + "'");
}

bool equal(const Value& a, const Value& b, int depth) {
  if (a.is(Kind::string) && b.is(Kind::string)) {  // the comparison that templates make most
    if (a.string->size != b.string->size) return false;
    return a.string->size <= 64 ? same_bytes(a.string->data, b.string->data, a.string->size) : same_text(a.text(), b.text());
  }
  if (depth > kMaxDepth) too_deep();
  count_work(1);
  if (numeric(a) && numeric(b))
    return compare_numbers(a, b) == 0 && !(a.is(Kind::real) && std::isnan(a.real)) && !(b.is(Kind::real) && std::isnan(b.real));
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Kind::none:
    case Kind::undefined: return true;
    case Kind::list: {
      if (a.list == b.list) return true;
      if (is_set(a) && is_set(b)) return a.list->size == b.list->size && is_subset(a, b, depth);
      const bool same = a.list->type == b.list->type || (is_tuple(a) && is_tuple(b));
      if (!same || a.list->type == Sequence::generator || a.list->type == Sequence::values || a.list->size != b.list->size) return false;
      count_work(a.list->size);
      for (std::size_t i = 0; i < a.list->size; ++i)
        if (!equal(a.list->at(i), b.list->at(i), depth + 1)) return false;
      return true;
    }
    case Kind::dict:
      if (a.dict == b.dict) return true;
      if (a.dict->size != b.dict->size) return false;
      for (std::size_t i = 0; i < a.dict->size; ++i) {
        const Value* other = b.dict->find(a.dict->entries[i].key);
        if (!other || !equal(a.dict->entries[i].value, *other, depth + 1)) return false;
      }
      return true;
    default: return a.dict == b.dict;  // the same object; every pointer of the union is read alike
  }
}

int compare(const Value& a, const Value& b, std::string_view op, int depth) {
  if (depth > kMaxDepth) too_deep();
  count_work(1);
  if (a.is(Kind::undefined)) fail_undefined(a);
  if (b.is(Kind::undefined)) fail_undefined(b);
  if (numeric(a) && numeric(b)) return compare_numbers(a, b);
  if (a.is(Kind::string) && b.is(Kind::string)) {
    count_work(std::min(a.text().size(), b.text().size()) / kBytesAtOnce);
    return a.text().compare(b.text());  // UTF-8 sorts as its code points do
  }
  if (a.is(Kind::list) && b.is(Kind::list)) {
    const Sequence type = a.list->type;
    if ((type == Sequence::list && b.list->type == type) || (is_tuple(a) && is_tuple(b))) {
      for (std::size_t i = 0; i < std::min(a.list->size, b.list->size); ++i)
        if (!equal(a.list->at(i), b.list->at(i))) return compare(a.list->at(i), b.list->at(i), op, depth + 1);
      return a.list->size < b.list->size ? -1 : a.list->size > b.list->size;
    }
  }
  fail("'" + std::string(op) + "' not supported between instances of " + quoted_type(a) + " and " + quoted_type(b));
}

bool contains(Heap& heap, const Value& container, const Value& item) {
  switch (container.kind) {
    case Kind::string:
      if (!item.is(Kind::string)) fail("'in <string>' requires string as left operand, not " + std::string(type_name(item)));
      return find_text(container.text(), item.text()) != std::string_view::npos;
    case Kind::dict: return container.dict->find(item) != nullptr;
    case Kind::undefined: return false;
    default: {
      if (!is_iterable(container)) fail("argument of type " + quoted_type(container) + " is not iterable");
      if (is_set(container)) {  // these hash what is looked for, and fail where it has no hash
        const bool pair = is_tuple(item) && item.list->size == 2;
        if (container.list->type == Sequence::keys) hash(item);
        if (container.list->type == Sequence::items && !pair) return false;
        if (container.list->type == Sequence::items) hash(item.list->at(0));
      }
      const List* items = iterate(heap, container);
      for (std::size_t i = 0; i < items->size; ++i)
        if (equal(items->at(i), item)) return true;
      return false;
    }
  }
}

std::int64_t as_index(const Value& v) {
  if (v.is(Kind::integer)) return v.integer;
  if (v.is(Kind::boolean)) return v.boolean;
  if (v.is(Kind::undefined)) fail_undefined(v);
  if (v.is(Kind::big)) fail("Python int too large to convert to C ssize_t");
  fail(quoted_type(v) + " object cannot be interpreted as an integer");
}

double as_real(const Value& v) {
  if (v.is(Kind::real)) return v.real;
  if (v.is(Kind::big)) {
    const double d = BigInteger::of(v).real();
    if (std::isinf(d)) fail("int too large to convert to float");
    return d;
  }
  return static_cast<double>(as_index(v));
}

Value arithmetic(Heap& heap, Operator op, const Value& a, const Value& b) {
  if (a.is(Kind::undefined)) fail_undefined(a);
  if (op == Operator::modulo && a.is(Kind::string)) return format_percent(heap, a, b);
  if (b.is(Kind::undefined)) fail_undefined(b);
  if (numeric(a) && numeric(b)) {
    if (a.is(Kind::real) || b.is(Kind::real)) return reals(op, as_real(a), as_real(b));
    return integers(heap, op, a, b);
  }
  if (op == Operator::add) {
    if (a.is(Kind::string) && b.is(Kind::string)) return add_strings(heap, a, b);
    if (a.is(Kind::list) && b.is(Kind::list) && a.list->type <= Sequence::group &&
        (a.list->type == b.list->type || (is_tuple(a) && is_tuple(b)))) {
      List* sum = make_list(heap, a.list->size + b.list->size, is_tuple(a) ? Sequence::tuple : Sequence::list);
      for (const List* part : {a.list, b.list})
        for (std::size_t i = 0; i < part->size; ++i) append(heap, *sum, part->at(i));
      return Value::of(sum);
    }
    if (a.is(Kind::string) || (a.is(Kind::list) && a.list->type <= Sequence::group))
      fail("can only concatenate " + std::string(type_name(a)) + " (not \"" + std::string(type_name(b)) + "\") to " +
           std::string(type_name(a)));
  }
  if (op == Operator::multiply) {
    const auto repeatable = [](const Value& v) { return v.is(Kind::string) || (v.is(Kind::list) && v.list->type <= Sequence::group); };
    if (repeatable(a) && (b.is(Kind::integer) || b.is(Kind::boolean))) return repeat(heap, a, as_index(b));
    if (repeatable(b) && (a.is(Kind::integer) || a.is(Kind::boolean))) return repeat(heap, b, as_index(a));
    if (repeatable(a) || repeatable(b)) fail("can't multiply sequence by non-int of type " + quoted_type(repeatable(a) ? b : a));
  }
  fail("unsupported operand type(s) for " + std::string(symbol(op)) + ": " + quoted_type(a) + " and " + quoted_type(b));
}

Value negate(Heap& heap, const Value& v) {
  if (v.is(Kind::undefined)) fail_undefined(v);
  if (v.is(Kind::real)) return Value::of(-v.real);
  if (!v.is_number() && !v.is(Kind::big)) fail("bad operand type for unary -: " + quoted_type(v));
  return integers(heap, Operator::subtract, Value::of(std::int64_t{0}), v);
}

Value concatenate(Heap& heap, std::span<const Value> parts) {
  std::size_t size = 0, spans = 0;
  for (const Value& p : parts) {
    size += p.string->size;
    spans += std::max<std::size_t>(1, p.string->span_count);
  }
  char* bytes = heap.array<char>(size);
  const Value result = view_string(heap, {bytes, size});
  String& s = *const_cast<String*>(result.string);  // made one line above
  Span* marks = nullptr;
  std::uint32_t count = 0, at = 0;
  for (const Value& p : parts) {
    const String& part = *p.string;
    if (part.size == 0) continue;
    std::copy(part.data, part.data + part.size, bytes + at);
    const Span whole{part.size, part.untrusted};
    const Span* from = part.span_count ? part.spans : &whole;
    for (std::uint32_t i = 0; i < std::max<std::uint32_t>(1, part.span_count); ++i) {
      if (!marks) marks = heap.array<Span>(spans);
      if (count != 0 && marks[count - 1].untrusted == from[i].untrusted)
        marks[count - 1].end = at + from[i].end;
      else
        marks[count++] = {at + from[i].end, from[i].untrusted};
    }
    at += part.size;
  }
  s.untrusted = count != 0 && marks[0].untrusted;
  if (count > 1) {
    s.spans = marks;
    s.span_count = count;
  }
  return result;
}

}  // namespace quern::templates
