// Pools over any number of spatial axes, channels first. Canonical meaning: ONNX MaxPool-12 (its first output), AveragePool-19,
// GlobalAveragePool-1, GlobalMaxPool-1.
#include <limits>

#include "ops/detail/cost.h"
#include "ops/detail/elementwise.h"
#include "ops/detail/window.h"
#include "ops/registry.h"

namespace quern::ops {
namespace {
using namespace detail;
using ir::Call;
using ir::Op;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

void infer_pool(InferContext& c) {
  check_rank(c, 0, 3, ir::kMaxRank);
  const Shape& x = c.shape(0);
  const Ints& kernel = c.node().integers("kernel_shape");
  if (kernel.size() + 2 != x.size()) c.fail("kernel_shape has " + std::to_string(kernel.size()) + " axes for an input " + ir::to_string(x));
  const Window window(c.node(), kernel.size());
  window.check(c, kernel.size());
  Shape shape{x[0], x[1]};
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    if (kernel[i] < 1 || kernel[i] > std::int64_t(1) << 20) c.fail("kernel_shape is out of range");
    shape.push_back(window.output_size(i, x[i + 2], kernel[i]));
  }
  c.set_output(0, Type{c.dtype(0), std::move(shape)});
}

/// For every output element, `f(i, padded, elements)`: its index, the size of its window with padding counted, and a function that calls
/// g(offset) for each element of x in the window.
template <class F>
void pool(const Call& call, F&& f) {
  const TensorView &x = call.in(0), &y = call.out(0);
  const std::int64_t spatial = x.rank - 2;
  const Ints& sizes = call.node->integers("kernel_shape");
  const Window window(*call.node, at(spatial));
  Box kernel;
  Axes begin{}, limit{};
  for (std::int64_t a = 0; a < spatial; ++a) {
    kernel.add(sizes[at(a)]);
    begin[at(a)] = window.begin_pad(at(a), x.dims[a + 2], sizes[at(a)], y.dims[a + 2]);
    limit[at(a)] = x.dims[a + 2] + window.end_pad(at(a), x.dims[a + 2], sizes[at(a)], y.dims[a + 2]);
  }
  const Axes xs = strides_of(x);
  walk_indices(Box(y), [&](std::int64_t i, const Axes& p) {
    const auto position = [&](const Axes& q, std::int64_t a) {
      return p[at(a + 2)] * window.strides[at(a)] + q[at(a)] * window.dilations[at(a)] - begin[at(a)];
    };
    std::int64_t padded = 0;
    walk_indices(kernel, [&](std::int64_t, const Axes& q) {
      for (std::int64_t a = 0; a < spatial; ++a)
        if (position(q, a) >= limit[at(a)]) return;
      ++padded;
    });
    f(i, padded, [&](auto&& g) {
      walk_indices(kernel, [&](std::int64_t, const Axes& q) {
        std::int64_t from = p[0] * xs[0] + p[1] * xs[1];
        for (std::int64_t a = 0; a < spatial; ++a) {
          const std::int64_t k = position(q, a);
          if (k < 0 || k >= x.dims[a + 2]) return;
          from += k * xs[at(a + 2)];
        }
        g(from);
      });
    });
  });
}

using MaxTypes = decltype(Floats{} + Types<std::int8_t, std::uint8_t>{});

template <class T>
Compute<T> lowest() {
  using C = Compute<T>;
  return std::numeric_limits<C>::has_infinity ? -std::numeric_limits<C>::infinity() : std::numeric_limits<C>::lowest();
}

void max_pool_reference(const Call& call) {
  const TensorView &x = call.in(0), &y = call.out(0);
  dispatch(MaxTypes{}, x.dtype, [&]<class T>() {
    pool(call, [&](std::int64_t i, std::int64_t, auto&& elements) {
      auto best = lowest<T>();
      elements([&](std::int64_t k) {
        const auto v = load<T>(x.data, k);
        if (v > best || v != v) best = v;
      });
      store<T>(y.data, i, best);
    });
  });
}

void average_pool_reference(const Call& call) {
  const TensorView &x = call.in(0), &y = call.out(0);
  const bool count_padding = call.node->integer("count_include_pad") != 0;
  dispatch(Floats{}, x.dtype, [&]<class T>() {
    pool(call, [&](std::int64_t i, std::int64_t padded, auto&& elements) {
      double sum = 0;
      std::int64_t count = 0;
      elements([&](std::int64_t k) {
        sum += double(load<T>(x.data, k));
        ++count;
      });
      store<T>(y.data, i, sum / double(count_padding ? padded : count));
    });
  });
}

void infer_global(InferContext& c) {
  check_dtype<Floats>(c, 0);
  check_rank(c, 0, 3, ir::kMaxRank);
  Shape shape(c.shape(0).size(), 1);
  shape[0] = c.shape(0)[0];
  shape[1] = c.shape(0)[1];
  c.set_output(0, Type{c.dtype(0), std::move(shape)});
}

template <bool kMax>
void global_reference(const Call& call) {
  const TensorView &x = call.in(0), &y = call.out(0);
  dispatch(Floats{}, x.dtype, [&]<class T>() {
    const std::int64_t rows = y.elements(), n = rows > 0 ? x.elements() / rows : 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      double sum = 0;
      auto best = lowest<T>();
      for (std::int64_t i = 0; i < n; ++i) {
        const auto v = load<T>(x.data, r * n + i);
        sum += double(v);
        if (v > best || v != v) best = v;
      }
      store<T>(y.data, r, kMax ? double(best) : sum / double(n));
    }
  });
}

double pool_operations(const Call& call) {
  double window = 1;
  for (const std::int64_t size : call.node->integers("kernel_shape")) window *= double(size);
  return window * double(call.out(0).elements());
}

}  // namespace

const Op max_pool{
    .name = "max_pool",
    .attributes =
        {{"auto_pad", "NOTSET"}, {"ceil_mode", 0}, {"dilations", Ints{}}, {"kernel_shape", {}}, {"pads", Ints{}}, {"strides", Ints{}}},
    .infer =
        [](InferContext& c) {
          check_dtype<MaxTypes>(c, 0);
          infer_pool(c);
        },
    .reference = max_pool_reference,
    .operations = pool_operations,
};
const Op average_pool{
    .name = "average_pool",
    .attributes = {{"auto_pad", "NOTSET"},
                   {"ceil_mode", 0},
                   {"count_include_pad", 0},
                   {"dilations", Ints{}},
                   {"kernel_shape", {}},
                   {"pads", Ints{}},
                   {"strides", Ints{}}},
    .infer =
        [](InferContext& c) {
          check_dtype<Floats>(c, 0);
          infer_pool(c);
        },
    .reference = average_pool_reference,
    .operations = pool_operations,
};
const Op global_average_pool{
    .name = "global_average_pool", .infer = infer_global, .reference = global_reference<false>, .operations = per_input<1>};
const Op global_max_pool{.name = "global_max_pool", .infer = infer_global, .reference = global_reference<true>, .operations = per_input<1>};

}  // namespace quern::ops
