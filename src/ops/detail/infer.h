#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "ir/op.h"
#include "ops/detail/element.h"

/// What shape inference of many ops shares. Sizes are expressions of symbols, so a mismatch is an error only when it can be proved. Two
/// different symbols that must be equal are taken to be equal (files often give one size two names); whoever binds sizes finds out
/// otherwise by inferring again with numbers.
namespace quern::ops::detail {

using ir::Attribute;
using ir::Dim;
using ir::InferContext;
using ir::Shape;
using ir::Type;
using Ints = std::vector<std::int64_t>;
using Doubles = std::vector<double>;

// Dim's min, max and mod under names that no op of this namespace has.
Dim smaller(const Dim& a, const Dim& b);
Dim larger(const Dim& a, const Dim& b);
Dim remainder(const Dim& a, const Dim& b);

/// The one size that two axes share: a number wins over an expression, the left expression over the right. Errors: two different numbers.
Dim same_size(const InferContext& c, const Dim& a, const Dim& b);
/// The size that two axes broadcast to: 1 gives way, else as same_size.
Dim broadcast(const InferContext& c, const Dim& a, const Dim& b);
Shape broadcast(const InferContext& c, const Shape& a, const Shape& b);
/// Errors unless `from` may be read as `to` by broadcasting alone.
void check_broadcasts_to(const InferContext& c, const Shape& from, const Shape& to, std::size_t input);
/// NumPy's shape of the products of two stacks of matrices; vectors are promoted.
Shape product_shape(const InferContext& c, const Shape& a, const Shape& b);

void check_rank(const InferContext& c, std::size_t input, std::int64_t low, std::int64_t high);
void check_same_dtype(const InferContext& c, std::initializer_list<std::size_t> inputs);
[[noreturn]] void fail_dtype(const InferContext& c, std::size_t input);
template <class List>
void check_dtype(const InferContext& c, std::size_t input) {
  if (!contains(List{}, c.dtype(input))) fail_dtype(c, input);
}

/// An input that must be numbers known at compile time. Errors name the input.
Ints required_numbers(const InferContext& c, std::size_t input);
/// The axes that an optional input or, when it is absent, a list names, each in [0, rank). Errors: an axis named twice.
std::vector<std::int64_t> unique_axes(const InferContext& c, const Ints& axes, std::int64_t rank);
/// How many elements an input has, when that is a number.
std::optional<std::int64_t> known_count(const InferContext& c, std::size_t input);
/// The elements of a small tensor of floats that is a constant of the graph; nothing when it is not.
std::optional<Doubles> constant_numbers(const InferContext& c, std::size_t input);

/// Whether contents of output `i` would be kept: integers or booleans of rank ≤ 1.
bool may_have_contents(const Type& type);
using Element = std::optional<Dim>;
/// Contents of output 0 from those of all inputs, element by element with broadcasting; unknown when any input or any result is.
/// `f` takes one element of each input.
void propagate(InferContext& c, const Type& output, Element (*f)(const InferContext& c, const std::vector<const Dim*>& elements));
/// The contents of input 0 are those of output 0.
void keep_contents(InferContext& c);

/// Inference of ops whose output is of the shape and type of input 0.
void infer_same(InferContext& c);
template <class List>
void infer_same_of(InferContext& c) {
  check_dtype<List>(c, 0);
  infer_same(c);
}

}  // namespace quern::ops::detail
