// Ops whose indices are data. Canonical meaning: ONNX Gather-13, GatherElements-13, GatherND-13, ScatterElements-18, ScatterND-18,
// OneHot-11. A negative index counts from the end. An index outside its axis is data that no check can see before the run: the run fails,
// having read zeros and written nothing for it.
#include <cstring>

#include "ops/detail/cost.h"
#include "ops/detail/elementwise.h"
#include "ops/registry.h"

namespace quern::ops {
namespace {
using namespace detail;
using ir::Call;
using ir::Op;

using IndexTypes = Types<std::int32_t, std::int64_t>;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// An index in [0, size), or -1 when it lies outside.
std::int64_t resolve(std::int64_t i, std::int64_t size) {
  if (i < 0) i += size;
  return i >= 0 && i < size ? i : -1;
}

constexpr const char* kOutside = "an index is outside its axis";

/// Copies `bytes` from element offset `from` of x; the call fails when the offset is -1.
void copy_or_fail(const Call& call, std::byte* to, const TensorView& x, std::int64_t from, std::int64_t bytes) {
  if (bytes <= 0) return;
  if (from >= 0) {
    std::memcpy(to, x.data + from * element_bytes(x), static_cast<std::size_t>(bytes));
  } else {
    std::memset(to, 0, static_cast<std::size_t>(bytes));
    call.fail(kOutside);
  }
}

// gather

void infer_gather(InferContext& c) {
  check_dtype<Plain>(c, 0);
  check_dtype<IndexTypes>(c, 1);
  const std::int64_t axis = c.axis(c.node().integer("axis"), c.rank(0));
  const auto* indices = c.contents(1);
  if (const auto size = c.shape(0)[at(axis)].constant(); indices != nullptr && size)
    for (const Dim& d : *indices)
      if (const auto i = d.constant(); i && (*i < -*size || *i >= *size))
        c.fail("index " + std::to_string(*i) + " is outside an axis of " + std::to_string(*size));
  Shape shape(c.shape(0).begin(), c.shape(0).begin() + axis);
  shape.insert(shape.end(), c.shape(1).begin(), c.shape(1).end());
  shape.insert(shape.end(), c.shape(0).begin() + axis + 1, c.shape(0).end());
  const Type type{c.dtype(0), std::move(shape)};
  c.set_output(0, type);
  const auto* data = c.contents(0);
  if (data == nullptr || indices == nullptr || !may_have_contents(type)) return;
  std::vector<Dim> out;
  for (const Dim& d : *indices) {
    const auto i = d.constant();
    if (!i) return;
    out.push_back(data->at(at(resolve(*i, static_cast<std::int64_t>(data->size())))));
  }
  c.set_contents(0, std::move(out));
}

void gather_reference(const Call& call) {
  const TensorView &x = call.in(0), &indices = call.in(1), &y = call.out(0);
  const Split3 s = split_at(x, call.node->integer("axis"));
  const std::int64_t n = indices.elements(), bytes = s.inner * element_bytes(x);
  for (std::int64_t o = 0; o < s.outer; ++o)
    for (std::int64_t k = 0; k < n; ++k) {
      const std::int64_t i = resolve(integer_at(indices, k), s.size);
      copy_or_fail(call, y.data + (o * n + k) * bytes, x, i < 0 ? -1 : (o * s.size + i) * s.inner, bytes);
    }
}

// gather_elements and scatter_elements: the index replaces one coordinate

void infer_gather_elements(InferContext& c) {
  check_dtype<Plain>(c, 0);
  check_dtype<IndexTypes>(c, 1);
  c.axis(c.node().integer("axis"), c.rank(0));
  check_rank(c, 1, c.rank(0), c.rank(0));
  c.set_output(0, Type{c.dtype(0), c.shape(1)});
}

/// The offset in `x` of the coordinates `index` with the one at `axis` replaced by i; -1 when any is outside.
std::int64_t replaced_offset(const TensorView& x, const Axes& dense, const Axes& index, std::int64_t axis, std::int64_t i) {
  std::int64_t offset = 0;
  for (std::int64_t a = 0; a < x.rank; ++a) {
    const std::int64_t k = a == axis ? resolve(i, x.dims[a]) : index[at(a)];
    if (k < 0 || k >= x.dims[a]) return -1;
    offset += k * dense[at(a)];
  }
  return offset;
}

void gather_elements_reference(const Call& call) {
  const TensorView &x = call.in(0), &indices = call.in(1), &y = call.out(0);
  std::int64_t axis = call.node->integer("axis");
  if (axis < 0) axis += x.rank;
  const Axes dense = strides_of(x);
  const std::int64_t size = element_bytes(x);
  walk_indices(Box(y), [&](std::int64_t i, const Axes& index) {
    copy_or_fail(call, y.data + i * size, x, replaced_offset(x, dense, index, axis, integer_at(indices, i)), size);
  });
}

// What a scatter does with an element that is already there.
enum class Reduction { none, add, mul, max, min };

Reduction reduction_of(const ir::Node& n) {
  const std::string& name = n.text("reduction");
  return name == "add"   ? Reduction::add
         : name == "mul" ? Reduction::mul
         : name == "max" ? Reduction::max
         : name == "min" ? Reduction::min
                         : Reduction::none;
}

void check_reduction(InferContext& c) {
  const std::string& name = c.node().text("reduction");
  if (name != "none" && reduction_of(c.node()) == Reduction::none) c.fail("the reduction '" + name + "' does not exist");
  check_dtype<Plain>(c, 0);
  check_same_dtype(c, {0, 2});
}

void scatter_one(const TensorView& y, std::int64_t to, const TensorView& updates, std::int64_t from, Reduction reduction) {
  if (reduction == Reduction::none) return copy_element(y.data, to, updates.data, from, element_bytes(y));
  dispatch(Plain{}, y.dtype, [&]<class T>() {
    const auto a = load<T>(y.data, to), b = load<T>(updates.data, from);
    using C = Compute<T>;
    using W = std::conditional_t<std::is_integral_v<C>, std::uint64_t, C>;
    switch (reduction) {
      case Reduction::add: return store<T>(y.data, to, static_cast<C>(W(a) + W(b)));
      case Reduction::mul: return store<T>(y.data, to, static_cast<C>(W(a) * W(b)));
      case Reduction::max: return store<T>(y.data, to, a > b || a != a ? a : b);
      default: return store<T>(y.data, to, a < b || a != a ? a : b);
    }
  });
}

void copy_input(const Call& call) {
  if (call.in(0).data != call.out(0).data && call.in(0).bytes() > 0)
    std::memcpy(call.out(0).data, call.in(0).data, static_cast<std::size_t>(call.in(0).bytes()));
}

void infer_scatter_elements(InferContext& c) {
  check_dtype<IndexTypes>(c, 1);
  check_reduction(c);
  c.axis(c.node().integer("axis"), c.rank(0));
  for (const std::size_t i : {1u, 2u}) check_rank(c, i, c.rank(0), c.rank(0));
  for (std::size_t i = 0; i < c.shape(1).size(); ++i) same_size(c, c.shape(1)[i], c.shape(2)[i]);
  infer_same(c);
}

void scatter_elements_reference(const Call& call) {
  const TensorView &indices = call.in(1), &updates = call.in(2), &y = call.out(0);
  copy_input(call);
  std::int64_t axis = call.node->integer("axis");
  if (axis < 0) axis += y.rank;
  const Axes dense = strides_of(y);
  const Reduction reduction = reduction_of(*call.node);
  walk_indices(Box(indices), [&](std::int64_t i, const Axes& index) {
    const std::int64_t to = replaced_offset(y, dense, index, axis, integer_at(indices, i));
    if (to < 0) return call.fail(kOutside);
    if (i < updates.elements()) scatter_one(y, to, updates, i, reduction);
  });
}

// gather_nd and scatter_nd: the last axis of the indices holds coordinates

/// How many coordinates an index has; it must be a number.
std::int64_t coordinates(const InferContext& c) {
  check_dtype<IndexTypes>(c, 1);
  check_rank(c, 1, 1, ir::kMaxRank);
  const auto n = c.shape(1).back().constant();
  if (!n) c.fail("the last axis of input 1 must have a size known when the graph is compiled, not " + c.shape(1).back().to_string());
  return *n;
}

void infer_gather_nd(InferContext& c) {
  check_dtype<Plain>(c, 0);
  const std::int64_t n = coordinates(c), batch = c.node().integer("batch_dims"), rank = c.rank(0);
  if (batch < 0 || batch >= c.rank(1) || n < 0 || batch + n > rank)
    c.fail("an index of " + std::to_string(n) + " coordinates does not fit input 0");
  for (std::int64_t i = 0; i < batch; ++i) same_size(c, c.shape(0)[at(i)], c.shape(1)[at(i)]);
  Shape shape(c.shape(1).begin(), c.shape(1).end() - 1);
  shape.insert(shape.end(), c.shape(0).begin() + batch + n, c.shape(0).end());
  c.set_output(0, Type{c.dtype(0), std::move(shape)});
}

/// The offset of the slice of `x` that row `row` of the indices names, counting axes from `first`; -1 when outside.
std::int64_t slice_offset(const TensorView& x, const Axes& dense, std::int64_t first, const TensorView& indices, std::int64_t row) {
  const std::int64_t n = indices.columns();
  std::int64_t offset = 0;
  for (std::int64_t k = 0; k < n; ++k) {
    const std::int64_t i = resolve(integer_at(indices, row * n + k), x.dims[first + k]);
    if (i < 0) return -1;
    offset += i * dense[at(first + k)];
  }
  return offset;
}

std::int64_t product(const TensorView& x, std::int64_t begin, std::int64_t end) {
  std::int64_t n = 1;
  for (std::int64_t i = begin; i < end; ++i) n *= x.dims[i];
  return n;
}

void gather_nd_reference(const Call& call) {
  const TensorView &x = call.in(0), &indices = call.in(1), &y = call.out(0);
  const std::int64_t batch = call.node->integer("batch_dims"), n = indices.columns();
  const std::int64_t inner = product(x, batch + n, x.rank), per_batch = product(indices, batch, indices.rank - 1),
                     whole = product(x, batch, x.rank);
  const std::int64_t bytes = inner * element_bytes(x), batches = product(x, 0, batch);
  const Axes dense = strides_of(x);
  for (std::int64_t row = 0, rows = indices.rows(); row < rows; ++row) {
    const std::int64_t offset = slice_offset(x, dense, batch, indices, row), b = row / per_batch;
    copy_or_fail(call, y.data + row * bytes, x, offset < 0 || b >= batches ? -1 : b * whole + offset, bytes);
  }
}

void infer_scatter_nd(InferContext& c) {
  check_reduction(c);
  const std::int64_t n = coordinates(c), rank = c.rank(0);
  if (n < 0 || n > rank) c.fail("an index of " + std::to_string(n) + " coordinates does not fit input 0");
  Shape wanted(c.shape(1).begin(), c.shape(1).end() - 1);
  wanted.insert(wanted.end(), c.shape(0).begin() + n, c.shape(0).end());
  check_rank(c, 2, static_cast<std::int64_t>(wanted.size()), static_cast<std::int64_t>(wanted.size()));
  for (std::size_t i = 0; i < wanted.size(); ++i) same_size(c, wanted[i], c.shape(2)[i]);
  infer_same(c);
}

void scatter_nd_reference(const Call& call) {
  const TensorView &indices = call.in(1), &updates = call.in(2), &y = call.out(0);
  copy_input(call);
  const std::int64_t inner = product(y, indices.columns(), y.rank);
  const Axes dense = strides_of(y);
  const Reduction reduction = reduction_of(*call.node);
  for (std::int64_t row = 0, rows = indices.rows(); row < rows; ++row) {
    const std::int64_t offset = slice_offset(y, dense, 0, indices, row);
    if (offset < 0) call.fail(kOutside);
    if (offset < 0 || (row + 1) * inner > updates.elements()) continue;
    for (std::int64_t i = 0; i < inner; ++i) scatter_one(y, offset + i, updates, row * inner + i, reduction);
  }
}

// one_hot(indices, depth, values = [off, on])

void infer_one_hot(InferContext& c) {
  check_dtype<Numbers>(c, 0);
  Dim depth;
  if (const auto* known = c.contents(1); known != nullptr && known->size() == 1) {
    depth = known->front();
  } else {
    const auto number = constant_numbers(c, 1);
    if (!number || number->size() != 1 || !(number->front() >= 0 && number->front() < 1e15))
      c.required_contents(1), c.fail("input 1 must be one number ≥ 0");
    depth = static_cast<std::int64_t>(number->front());
  }
  check_dtype<Plain>(c, 2);
  if (known_count(c, 2) != 2) c.fail("input 2 must have two elements");
  Shape shape = c.shape(0);
  const std::int64_t axis = c.axis(c.node().integer("axis"), c.rank(0) + 1);
  shape.insert(shape.begin() + axis, depth);
  c.set_output(0, Type{c.dtype(2), std::move(shape)});
}

void one_hot_reference(const Call& call) {
  const TensorView &indices = call.in(0), &values = call.in(2), &y = call.out(0);
  const Split3 s = split_at(y, call.node->integer("axis"));
  const std::int64_t size = element_bytes(y);
  for (std::int64_t o = 0; o < s.outer; ++o)
    for (std::int64_t k = 0; k < s.size; ++k)
      for (std::int64_t i = 0; i < s.inner; ++i) {
        double index = number_at(indices, o * s.inner + i);
        if (index < 0) index += double(s.size);
        copy_element(y.data, (o * s.size + k) * s.inner + i, values.data, index == double(k) ? 1 : 0, size);
      }
}

}  // namespace

const Op gather{.name = "gather",
                .min_inputs = 2,
                .max_inputs = 2,
                .attributes = {{"axis", 0}},
                .infer = infer_gather,
                .reference = gather_reference,
                .touched_bytes = picked_bytes};
const Op gather_elements{.name = "gather_elements",
                         .min_inputs = 2,
                         .max_inputs = 2,
                         .attributes = {{"axis", 0}},
                         .infer = infer_gather_elements,
                         .reference = gather_elements_reference,
                         .touched_bytes = picked_bytes};
const Op gather_nd{.name = "gather_nd",
                   .min_inputs = 2,
                   .max_inputs = 2,
                   .attributes = {{"batch_dims", 0}},
                   .infer = infer_gather_nd,
                   .reference = gather_nd_reference,
                   .touched_bytes = picked_bytes};
const Op scatter_elements{.name = "scatter_elements",
                          .min_inputs = 3,
                          .max_inputs = 3,
                          .attributes = {{"axis", 0}, {"reduction", "none"}},
                          .infer = infer_scatter_elements,
                          .reference = scatter_elements_reference};
const Op scatter_nd{.name = "scatter_nd",
                    .min_inputs = 3,
                    .max_inputs = 3,
                    .attributes = {{"reduction", "none"}},
                    .infer = infer_scatter_nd,
                    .reference = scatter_nd_reference};
const Op one_hot{.name = "one_hot",
                 .min_inputs = 3,
                 .max_inputs = 3,
                 .attributes = {{"axis", -1}},
                 .infer = infer_one_hot,
                 .reference = one_hot_reference};

}  // namespace quern::ops
