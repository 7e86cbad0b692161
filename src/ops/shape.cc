// Ops that speak of shapes, or change a shape and no byte. Canonical meaning: ONNX Shape-21, Reshape-21, Squeeze-21, Unsqueeze-21,
// Flatten-21, Identity-21, Expand-13, Range-11, ConstantOfShape-21 (its `value` tensor is input 1 here), Size-21.
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "ops/detail/elementwise.h"
#include "ops/registry.h"

namespace quern::ops {
namespace {
using namespace detail;
using ir::Call;
using ir::Op;
using ir::Trait;

constexpr Trait kView = Trait::pure | Trait::view;

void copy_bytes(const Call& call) {
  const std::int64_t bytes = std::min(call.in(0).bytes(), call.out(0).bytes());
  if (bytes > 0 && call.out(0).data != call.in(0).data) std::memmove(call.out(0).data, call.in(0).data, static_cast<std::size_t>(bytes));
}

void set_view(InferContext& c, Shape shape) {
  check_dtype<Plain>(c, 0);
  c.set_output(0, Type{c.dtype(0), std::move(shape)});
  keep_contents(c);
}

std::pair<std::int64_t, std::int64_t> shape_range(const ir::Node& n, std::int64_t rank) {
  const auto clamp = [&](std::int64_t v) { return std::clamp<std::int64_t>(v < 0 ? v + rank : v, 0, rank); };
  const std::int64_t begin = clamp(n.integer("start"));
  return {begin, std::max(begin, clamp(n.integer("end")))};
}

void infer_shape(InferContext& c) {
  const auto [begin, end] = shape_range(c.node(), c.rank(0));
  c.set_output(0, Type{DType::i64, {end - begin}});
  c.set_contents(0, {c.shape(0).begin() + begin, c.shape(0).begin() + end});
}

void shape_reference(const Call& call) {
  const auto [begin, end] = shape_range(*call.node, call.in(0).rank);
  for (std::int64_t i = begin; i < end; ++i) store<std::int64_t>(call.out(0).data, i - begin, call.in(0).dims[i]);
}

void infer_size(InferContext& c) {
  c.set_output(0, Type{DType::i64, {}});
  c.set_contents(0, {ir::element_count(c.shape(0))});
}

void infer_reshape(InferContext& c) {
  const auto& wanted = c.required_contents(1);
  const bool zero_is_zero = c.node().integer("allowzero") != 0;
  Shape shape;
  std::optional<std::size_t> open;
  Dim known = 1;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    Dim d = wanted[i];
    if (d == Dim(-1)) {
      if (open) c.fail("more than one size of input 1 is -1");
      open = i;
      shape.emplace_back(1);
      continue;
    }
    if (d == Dim(0) && !zero_is_zero) {
      if (static_cast<std::int64_t>(i) >= c.rank(0)) c.fail("input 1 has a 0 where input 0 has no axis");
      d = c.shape(0)[i];
    }
    if (d.upper_bound().value_or(0) < 0) c.fail("input 1 has the size " + d.to_string());
    known = known * d;
    shape.push_back(std::move(d));
  }
  const Dim total = ir::element_count(c.shape(0));
  if (open) {
    if (known == Dim(0)) c.fail("the size -1 of input 1 cannot be told beside a size of 0");
    shape[*open] = floor_div(total, known);
  }
  const auto before = total.constant(), after = ir::element_count(shape).constant();
  if (before && after && *before != *after) c.fail("cannot make " + ir::to_string(shape) + " of " + ir::to_string(c.shape(0)));
  set_view(c, std::move(shape));
}

void infer_squeeze(InferContext& c) {
  std::vector<bool> drop(c.shape(0).size());
  if (c.has(1)) {
    for (const std::int64_t axis : unique_axes(c, required_numbers(c, 1), c.rank(0))) {
      same_size(c, c.shape(0)[static_cast<std::size_t>(axis)], 1);
      drop[static_cast<std::size_t>(axis)] = true;
    }
  } else {
    for (std::size_t i = 0; i < drop.size(); ++i) drop[i] = c.shape(0)[i] == Dim(1);  // sizes not known to be 1 stay
  }
  Shape shape;
  for (std::size_t i = 0; i < drop.size(); ++i)
    if (!drop[i]) shape.push_back(c.shape(0)[i]);
  set_view(c, std::move(shape));
}

void infer_unsqueeze(InferContext& c) {
  const Ints axes = required_numbers(c, 1);
  const std::size_t rank = c.shape(0).size() + axes.size();
  std::vector<bool> added(rank);
  for (const std::int64_t axis : unique_axes(c, axes, static_cast<std::int64_t>(rank))) added[static_cast<std::size_t>(axis)] = true;
  Shape shape;
  for (std::size_t i = 0, from = 0; i < rank; ++i) shape.push_back(added[i] ? Dim(1) : c.shape(0)[from++]);
  set_view(c, std::move(shape));
}

void infer_flatten(InferContext& c) {
  std::int64_t axis = c.node().integer("axis");
  const std::int64_t rank = c.rank(0);
  if (axis < -rank || axis > rank) c.fail("axis " + std::to_string(axis) + " is outside a tensor of rank " + std::to_string(rank));
  if (axis < 0) axis += rank;
  Dim rows = 1, columns = 1;
  for (std::int64_t i = 0; i < rank; ++i) {
    Dim& side = i < axis ? rows : columns;
    side = side * c.shape(0)[static_cast<std::size_t>(i)];
  }
  set_view(c, {rows, columns});
}

void infer_expand(InferContext& c) {
  check_dtype<Plain>(c, 0);
  Shape target;
  for (const Dim& d : c.required_contents(1)) {
    if (d.upper_bound().value_or(0) < 0) c.fail("input 1 has the size " + d.to_string());
    target.push_back(d);
  }
  const Type type{c.dtype(0), broadcast(c, c.shape(0), target)};
  c.set_output(0, type);
  const auto* contents = c.contents(0);
  const auto count = ir::element_count(type.shape).constant();
  if (contents == nullptr || !may_have_contents(type) || !count) return;
  if (static_cast<std::int64_t>(contents->size()) == *count)
    c.set_contents(0, *contents);
  else if (contents->size() == 1 && *count <= 64)
    c.set_contents(0, std::vector<Dim>(static_cast<std::size_t>(*count), contents->front()));
}

void broadcast_copy(const TensorView& x, const TensorView& y) {
  const Box box(y);
  const std::int64_t size = element_bytes(y);
  walk(box, std::array<Axes, 1>{broadcast_strides(x, box)},
       [&](std::int64_t i, std::int64_t ix) { copy_element(y.data, i, x.data, ix, size); });
}

void infer_constant_of_shape(InferContext& c) {
  Shape shape;
  for (const Dim& d : c.required_contents(0)) {
    if (d.upper_bound().value_or(0) < 0) c.fail("input 0 has the size " + d.to_string());
    shape.push_back(d);
  }
  if (c.has(1)) check_dtype<Plain>(c, 1);
  if (c.has(1) && known_count(c, 1) != 1) c.fail("input 1 must have one element");
  const Type type{c.has(1) ? c.dtype(1) : DType::f32, std::move(shape)};
  c.set_output(0, type);
  const auto count = ir::element_count(type.shape).constant();
  if (const auto* value = c.contents(1); value != nullptr && count && *count <= 64 && may_have_contents(type))
    c.set_contents(0, std::vector<Dim>(static_cast<std::size_t>(*count), value->front()));
}

void constant_of_shape_reference(const Call& call) {
  const TensorView& y = call.out(0);
  const std::int64_t size = element_bytes(y);
  static constexpr std::byte kZero[8] = {};
  for (std::int64_t i = 0, n = y.elements(); i < n; ++i) copy_element(y.data, i, call.has(1) ? call.in(1).data : kZero, 0, size);
}

using RangeTypes = Types<float, double, std::int16_t, std::int32_t, std::int64_t>;

void infer_range(InferContext& c) {
  check_dtype<RangeTypes>(c, 0);
  check_same_dtype(c, {0, 1, 2});
  for (const std::size_t i : {0u, 1u, 2u})
    if (known_count(c, i) != 1) c.fail("input " + std::to_string(i) + " must be a scalar");
  if (ir::is_float(c.dtype(0)) || c.dtype(0) == DType::i16) {
    const auto start = constant_numbers(c, 0), limit = constant_numbers(c, 1), step = constant_numbers(c, 2);
    if (!start || !limit || !step) c.fail("the three numbers must be known when the graph is compiled");
    const double count = std::ceil((limit->front() - start->front()) / step->front());
    if (!(count <= 1e15)) c.fail("makes an impossible number of elements");
    c.set_output(0, Type{c.dtype(0), {count > 0 ? static_cast<std::int64_t>(count) : 0}});
    return;
  }
  const Dim start = c.required_contents(0).at(0), limit = c.required_contents(1).at(0);
  const auto step = c.required_contents(2).at(0).constant();
  if (!step || *step == 0) c.fail("the step must be a number other than 0");
  const Dim count = larger(0, *step > 0 ? ceil_div(limit - start, *step) : ceil_div(start - limit, Dim(0) - Dim(*step)));
  c.set_output(0, Type{c.dtype(0), {count}});
  const auto n = count.constant();
  if (!n || *n > 64) return;
  std::vector<Dim> contents;
  for (std::int64_t i = 0; i < *n; ++i) contents.push_back(start + Dim(*step) * Dim(i));
  c.set_contents(0, std::move(contents));
}

void range_reference(const Call& call) {
  const TensorView& y = call.out(0);
  dispatch(RangeTypes{}, y.dtype, [&]<class T>() {
    using Wide = std::conditional_t<std::is_integral_v<T>, std::uint64_t, T>;
    const auto start = static_cast<Wide>(load<T>(call.in(0).data, 0)), step = static_cast<Wide>(load<T>(call.in(2).data, 0));
    for (std::int64_t i = 0, n = y.elements(); i < n; ++i) store<T>(y.data, i, start + static_cast<Wide>(i) * step);
  });
}

}  // namespace

const Op identity{.name = "identity",
                  .infer =
                      [](InferContext& c) {
                        infer_same(c);
                        keep_contents(c);
                      },
                  .reference = copy_bytes,
                  .traits = kView};
const Op shape{.name = "shape",
               .attributes = {{"start", 0}, {"end", std::numeric_limits<std::int64_t>::max()}},
               .infer = infer_shape,
               .reference = shape_reference};
const Op size{.name = "size", .infer = infer_size, .reference = [](const Call& call) {
                store<std::int64_t>(call.out(0).data, 0, call.in(0).elements());
              }};
const Op reshape{.name = "reshape",
                 .min_inputs = 2,
                 .max_inputs = 2,
                 .attributes = {{"allowzero", 0}},
                 .infer = infer_reshape,
                 .reference = copy_bytes,
                 .traits = kView};
const Op squeeze{.name = "squeeze", .max_inputs = 2, .infer = infer_squeeze, .reference = copy_bytes, .traits = kView};
const Op unsqueeze{
    .name = "unsqueeze", .min_inputs = 2, .max_inputs = 2, .infer = infer_unsqueeze, .reference = copy_bytes, .traits = kView};
const Op flatten{.name = "flatten", .attributes = {{"axis", 1}}, .infer = infer_flatten, .reference = copy_bytes, .traits = kView};
const Op expand{.name = "expand", .min_inputs = 2, .max_inputs = 2, .infer = infer_expand, .reference = [](const Call& call) {
                  broadcast_copy(call.in(0), call.out(0));
                }};
const Op range{.name = "range", .min_inputs = 3, .max_inputs = 3, .infer = infer_range, .reference = range_reference};
const Op constant_of_shape{
    .name = "constant_of_shape", .max_inputs = 2, .infer = infer_constant_of_shape, .reference = constant_of_shape_reference};

}  // namespace quern::ops
