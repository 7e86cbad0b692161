#include "ops/detail/infer.h"

#include <algorithm>

#include "base/error.h"
#include "ops/detail/element.h"

namespace quern::ops::detail {
namespace {

std::string input_name(std::size_t i) { return "input " + std::to_string(i); }

/// True when two sizes are both numbers, and not the same.
bool differ(const Dim& a, const Dim& b) {
  const auto difference = a - b;
  return difference.is_constant() && *difference.constant() != 0;
}

}  // namespace

Dim smaller(const Dim& a, const Dim& b) { return min(a, b); }
Dim larger(const Dim& a, const Dim& b) { return max(a, b); }
Dim remainder(const Dim& a, const Dim& b) { return mod(a, b); }

Dim same_size(const InferContext& c, const Dim& a, const Dim& b) {
  if (differ(a, b)) c.fail("the sizes " + a.to_string() + " and " + b.to_string() + " must be equal");
  return a.is_constant() || !b.is_constant() ? a : b;
}

Dim broadcast(const InferContext& c, const Dim& a, const Dim& b) {
  if (a == b || b == Dim(1)) return a;
  if (a == Dim(1)) return b;
  if (a.is_constant() && b.is_constant()) c.fail("the sizes " + a.to_string() + " and " + b.to_string() + " do not broadcast");
  return a.is_constant() || !b.is_constant() ? a : b;
}

Shape broadcast(const InferContext& c, const Shape& a, const Shape& b) {
  Shape out(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Dim x = i < a.size() ? a[a.size() - 1 - i] : Dim(1), y = i < b.size() ? b[b.size() - 1 - i] : Dim(1);
    out[out.size() - 1 - i] = broadcast(c, x, y);
  }
  return out;
}

void check_broadcasts_to(const InferContext& c, const Shape& from, const Shape& to, std::size_t input) {
  bool good = from.size() <= to.size();
  for (std::size_t i = 0; good && i < from.size(); ++i) {
    const Dim& x = from[from.size() - 1 - i];
    good = x == Dim(1) || !differ(x, to[to.size() - 1 - i]);
  }
  if (!good) c.fail(input_name(input) + " is " + ir::to_string(from) + ", which does not broadcast to " + ir::to_string(to));
}

Shape product_shape(const InferContext& c, const Shape& a, const Shape& b) {
  if (a.empty() || b.empty()) c.fail("a factor is a scalar");
  same_size(c, a.back(), b.size() == 1 ? b[0] : b[b.size() - 2]);
  const auto stack = [](const Shape& s) { return s.size() > 2 ? Shape(s.begin(), s.end() - 2) : Shape{}; };
  Shape out = broadcast(c, stack(a), stack(b));
  if (a.size() > 1) out.push_back(a[a.size() - 2]);
  if (b.size() > 1) out.push_back(b.back());
  return out;
}

void check_rank(const InferContext& c, std::size_t input, std::int64_t low, std::int64_t high) {
  const std::int64_t rank = c.rank(input);
  if (rank < low || rank > high)
    c.fail(input_name(input) + " has rank " + std::to_string(rank) + " where " + std::to_string(low) +
           (high == low                                       ? ""
            : high >= static_cast<std::int64_t>(ir::kMaxRank) ? " or more"
                                                              : " to " + std::to_string(high)) +
           " is wanted");
}

void check_same_dtype(const InferContext& c, std::initializer_list<std::size_t> inputs) {
  for (const std::size_t i : inputs)
    if (c.has(i) && c.dtype(i) != c.dtype(*inputs.begin()))
      c.fail(input_name(i) + " is " + std::string(ir::name(c.dtype(i))) + " where input " + std::to_string(*inputs.begin()) + " is " +
             std::string(ir::name(c.dtype(*inputs.begin()))));
}

void fail_dtype(const InferContext& c, std::size_t input) {
  c.fail(input_name(input) + " may not be " + std::string(ir::name(c.dtype(input))));
}

Ints required_numbers(const InferContext& c, std::size_t input) {
  Ints out;
  for (const Dim& d : c.required_contents(input)) {
    const auto value = d.constant();
    if (!value) c.fail("the values of " + input_name(input) + " must be numbers; one is " + d.to_string());
    out.push_back(*value);
  }
  return out;
}

std::vector<std::int64_t> unique_axes(const InferContext& c, const Ints& axes, std::int64_t rank) {
  std::vector<std::int64_t> out;
  for (const std::int64_t value : axes) {
    const std::int64_t axis = c.axis(value, rank);
    if (std::find(out.begin(), out.end(), axis) != out.end()) c.fail("axis " + std::to_string(value) + " is named twice");
    out.push_back(axis);
  }
  return out;
}

std::optional<std::int64_t> known_count(const InferContext& c, std::size_t input) { return ir::element_count(c.shape(input)).constant(); }

std::optional<Doubles> constant_numbers(const InferContext& c, std::size_t input) {
  if (!c.has(input)) return std::nullopt;
  const ir::Value& value = *c.node().inputs[input];
  const auto count = known_count(c, input);
  if (!value.constant || !count || *count > 64 || !contains(Plain{}, value.type.dtype)) return std::nullopt;
  TensorView view;
  view.data = const_cast<std::byte*>(value.constant->data);
  view.dtype = value.type.dtype;
  Doubles out;
  for (std::int64_t i = 0; i < *count; ++i) out.push_back(number_at(view, i));
  return out;
}

bool may_have_contents(const Type& type) {
  return type.shape.size() <= 1 && (type.dtype == DType::i64 || type.dtype == DType::i32 || type.dtype == DType::boolean);
}

void propagate(InferContext& c, const Type& output, Element (*f)(const InferContext& c, const std::vector<const Dim*>& elements)) {
  if (!may_have_contents(output)) return;
  std::size_t count = 1;
  for (std::size_t i = 0; i < c.inputs(); ++i) {
    const auto* contents = c.contents(i);
    if (contents == nullptr) return;
    if (contents->size() != 1) count = contents->size();
  }
  std::vector<Dim> out;
  std::vector<const Dim*> elements(c.inputs());
  try {
    for (std::size_t k = 0; k < count; ++k) {
      for (std::size_t i = 0; i < elements.size(); ++i) {
        const auto& contents = *c.contents(i);
        if (contents.size() != 1 && contents.size() != count) return;
        elements[i] = &contents[contents.size() == 1 ? 0 : k];
      }
      auto element = f(c, elements);
      if (!element) return;
      out.push_back(std::move(*element));
    }
  } catch (const Error&) {
    return;  // an expression that overflows or grows too large is not known
  }
  c.set_contents(0, std::move(out));
}

void keep_contents(InferContext& c) {
  if (const auto* contents = c.contents(0); contents != nullptr && may_have_contents(c.node().outputs[0]->type))
    c.set_contents(0, *contents);
}

void infer_same(InferContext& c) { c.set_output(0, Type{c.dtype(0), c.shape(0)}); }

}  // namespace quern::ops::detail
