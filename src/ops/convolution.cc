// Convolutions over any number of spatial axes, channels first. Canonical meaning: ONNX Conv-11, ConvInteger-10, ConvTranspose-11.
#include <algorithm>

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

const std::vector<ir::AttributeSpec> kAttributes = {{"auto_pad", "NOTSET"},   {"dilations", Ints{}}, {"group", 1},
                                                    {"kernel_shape", Ints{}}, {"pads", Ints{}},      {"strides", Ints{}}};

/// x [N, C, …], w [M, C / group, …] → [N, M, …]
Shape convolved_shape(InferContext& c) {
  check_rank(c, 0, 3, ir::kMaxRank);
  check_rank(c, 1, c.rank(0), c.rank(0));
  check_kernel_shape(c, 1);
  const Shape &x = c.shape(0), &w = c.shape(1);
  const Window window(c.node(), x.size() - 2);
  window.check(c, x.size() - 2);
  const std::int64_t group = c.node().integer("group");
  if (group < 1) c.fail("group is " + std::to_string(group));
  same_size(c, x[1], w[1] * Dim(group));
  if (!w[0].divisible_by(group)) c.fail(w[0].to_string() + " output channels do not divide into " + std::to_string(group) + " groups");
  Shape shape{x[0], w[0]};
  for (std::size_t i = 2; i < x.size(); ++i) {
    if (w[i].upper_bound().value_or(1) < 1) c.fail("the kernel is empty");
    shape.push_back(window.output_size(i - 2, x[i], w[i]));
  }
  return shape;
}

void infer_conv(InferContext& c) {
  check_dtype<Floats>(c, 0);
  check_same_dtype(c, {0, 1, 2});
  Shape shape = convolved_shape(c);
  if (c.has(2)) {
    check_rank(c, 2, 1, 1);
    same_size(c, c.shape(2)[0], shape[1]);
  }
  c.set_output(0, Type{c.dtype(0), std::move(shape)});
}

/// For every output element in order, `f(i, m, terms)`: its index, its channel, and a function that calls g(x offset, w offset) for each of
/// its terms in the order channel, then kernel position. Padding has no terms.
template <class F>
void convolve(const Call& call, F&& f) {
  const TensorView &x = call.in(0), &w = call.in(1), &y = call.out(0);
  const std::int64_t spatial = x.rank - 2, group = call.node->integer("group"), per_group = w.dims[0] / group, channels = w.dims[1];
  const Window window(*call.node, at(spatial));
  Box kernel;
  Axes begin{};
  for (std::int64_t a = 0; a < spatial; ++a) {
    kernel.add(w.dims[a + 2]);
    begin[at(a)] = window.begin_pad(at(a), x.dims[a + 2], w.dims[a + 2], y.dims[a + 2]);
  }
  const Axes xs = strides_of(x), ws = strides_of(w);
  walk_indices(Box(y), [&](std::int64_t i, const Axes& p) {
    const std::int64_t m = p[1], first_channel = m / per_group * channels;
    f(i, m, [&](auto&& g) {
      for (std::int64_t c = 0; c < channels; ++c)
        walk_indices(kernel, [&](std::int64_t k, const Axes& q) {
          std::int64_t from = p[0] * xs[0] + (first_channel + c) * xs[1];
          for (std::int64_t a = 0; a < spatial; ++a) {
            const std::int64_t position = p[at(a + 2)] * window.strides[at(a)] + q[at(a)] * window.dilations[at(a)] - begin[at(a)];
            if (position < 0 || position >= x.dims[a + 2]) return;
            from += position * xs[at(a + 2)];
          }
          g(from, m * ws[0] + c * ws[1] + k);
        });
    });
  });
}

void conv_reference(const Call& call) {
  const TensorView &x = call.in(0), &w = call.in(1), &y = call.out(0);
  dispatch(Floats{}, x.dtype, [&]<class T>() {
    convolve(call, [&](std::int64_t i, std::int64_t m, auto&& terms) {
      double sum = call.has(2) ? double(load<T>(call.in(2).data, m)) : 0.0;
      terms([&](std::int64_t ix, std::int64_t iw) { sum += double(load<T>(x.data, ix)) * double(load<T>(w.data, iw)); });
      store<T>(y.data, i, sum);
    });
  });
}

// conv_integer: padding is the zero point, so it adds nothing

using Bytes = Types<std::int8_t, std::uint8_t>;

void infer_conv_integer(InferContext& c) {
  check_dtype<Bytes>(c, 0);
  check_dtype<Bytes>(c, 1);
  if (c.has(2)) check_same_dtype(c, {0, 2});
  if (c.has(3)) check_same_dtype(c, {1, 3});
  Shape shape = convolved_shape(c);
  if (c.has(2) && known_count(c, 2) != 1) c.fail("input 2 must be one number");
  if (c.has(3) && known_count(c, 3) != 1) {
    check_rank(c, 3, 1, 1);
    same_size(c, c.shape(3)[0], shape[1]);
  }
  c.set_output(0, Type{DType::i32, std::move(shape)});
}

void conv_integer_reference(const Call& call) {
  const TensorView &x = call.in(0), &w = call.in(1), &y = call.out(0);
  const std::int64_t x_zero = call.has(2) ? integer_at(call.in(2), 0) : 0;
  dispatch(Bytes{}, x.dtype, [&]<class X>() {
    dispatch(Bytes{}, w.dtype, [&]<class W>() {
      convolve(call, [&](std::int64_t i, std::int64_t m, auto&& terms) {
        const std::int64_t w_zero = call.has(3) ? integer_at(call.in(3), call.in(3).elements() == 1 ? 0 : m) : 0;
        std::int64_t sum = 0;
        terms([&](std::int64_t ix, std::int64_t iw) { sum += (load<X>(x.data, ix) - x_zero) * (load<W>(w.data, iw) - w_zero); });
        store<std::int32_t>(y.data, i, sum);
      });
    });
  });
}

// conv_transpose: x [N, C, …], w [C, M / group, …] → [N, M, …]

struct Transposed {
  Window window;
  Ints output_padding, output_shape;

  Transposed(const ir::Node& n, std::size_t spatial)
      : window(n, spatial), output_padding(list_or(n, "output_padding", spatial, 0)), output_shape(n.integers("output_shape")) {}
  Dim full(std::size_t a, const Dim& input, const Dim& kernel) const {  // the size before pads are cut off
    return (input - 1) * Dim(window.strides[a]) + output_padding[a] + (kernel - 1) * Dim(window.dilations[a]) + 1;
  }
  Dim output_size(std::size_t a, const Dim& input, const Dim& kernel) const {
    if (!output_shape.empty()) return output_shape[a];
    if (window.auto_pad == "SAME_UPPER" || window.auto_pad == "SAME_LOWER") return input * Dim(window.strides[a]);
    if (window.auto_pad == "VALID") return full(a, input, kernel);
    return full(a, input, kernel) - window.pads[a] - window.pads[a + window.pads.size() / 2];
  }
  std::int64_t begin_pad(std::size_t a, std::int64_t input, std::int64_t kernel, std::int64_t output) const {
    if (window.auto_pad == "VALID") return 0;
    if (output_shape.empty() && window.auto_pad == "NOTSET") return window.pads[a];
    const std::int64_t total =
        std::max<std::int64_t>(0, (input - 1) * window.strides[a] + output_padding[a] + (kernel - 1) * window.dilations[a] + 1 - output);
    return window.auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
  }
};

void infer_conv_transpose(InferContext& c) {
  check_dtype<Floats>(c, 0);
  check_same_dtype(c, {0, 1, 2});
  check_rank(c, 0, 3, ir::kMaxRank);
  check_rank(c, 1, c.rank(0), c.rank(0));
  check_kernel_shape(c, 1);
  const Shape &x = c.shape(0), &w = c.shape(1);
  const std::size_t spatial = x.size() - 2;
  const Transposed t(c.node(), spatial);
  t.window.check(c, spatial);
  if (t.output_padding.size() != spatial || (!t.output_shape.empty() && t.output_shape.size() != spatial))
    c.fail("output_padding or output_shape do not have " + std::to_string(spatial) + " axes");
  for (const std::int64_t p : t.output_padding)
    if (p < 0 || p > std::int64_t(1) << 40) c.fail("output_padding is out of range");
  const std::int64_t group = c.node().integer("group");
  if (group < 1) c.fail("group is " + std::to_string(group));
  same_size(c, x[1], w[0]);
  if (!w[0].divisible_by(group)) c.fail(w[0].to_string() + " input channels do not divide into " + std::to_string(group) + " groups");
  Shape shape{x[0], w[1] * Dim(group)};
  for (std::size_t a = 0; a < spatial; ++a) shape.push_back(t.output_size(a, x[a + 2], w[a + 2]));
  if (c.has(2)) {
    check_rank(c, 2, 1, 1);
    same_size(c, c.shape(2)[0], shape[1]);
  }
  c.set_output(0, Type{c.dtype(0), std::move(shape)});
}

void conv_transpose_reference(const Call& call) {
  const TensorView &x = call.in(0), &w = call.in(1), &y = call.out(0);
  const std::int64_t spatial = x.rank - 2, group = call.node->integer("group"), channels = w.dims[0] / group, per_group = w.dims[1];
  const Transposed t(*call.node, at(spatial));
  Box kernel;
  Axes begin{};
  for (std::int64_t a = 0; a < spatial; ++a) {
    kernel.add(w.dims[a + 2]);
    begin[at(a)] = t.begin_pad(at(a), x.dims[a + 2], w.dims[a + 2], y.dims[a + 2]);
  }
  const Axes xs = strides_of(x), ws = strides_of(w);
  dispatch(Floats{}, x.dtype, [&]<class T>() {
    walk_indices(Box(y), [&](std::int64_t i, const Axes& p) {
      const std::int64_t m = p[1], g = m / per_group;
      double sum = call.has(2) ? double(load<T>(call.in(2).data, m)) : 0.0;
      for (std::int64_t c = g * channels; c < (g + 1) * channels; ++c)
        walk_indices(kernel, [&](std::int64_t k, const Axes& q) {
          // y[p] gathers x[s] for every s with s * stride + q * dilation - pad = p.
          std::int64_t from = p[0] * xs[0] + c * xs[1];
          for (std::int64_t a = 0; a < spatial; ++a) {
            const std::int64_t scaled = p[at(a + 2)] + begin[at(a)] - q[at(a)] * t.window.dilations[at(a)],
                               stride = t.window.strides[at(a)];
            if (scaled < 0 || scaled % stride != 0 || scaled / stride >= x.dims[a + 2]) return;
            from += scaled / stride * xs[at(a + 2)];
          }
          sum += double(load<T>(x.data, from)) * double(load<T>(w.data, c * ws[0] + m % per_group * ws[1] + k));
        });
      store<T>(y.data, i, sum);
    });
  });
}

/// A filter of the weights for each element of the output, or (transposed) of the input.
double conv_operations(const Call& call) {
  const TensorView& w = call.in(1);
  return 2.0 * double(call.out(0).elements()) * double(w.elements()) / double(std::max<std::int64_t>(1, w.dims[0]));
}
double conv_transpose_operations(const Call& call) {
  const TensorView& w = call.in(1);
  return 2.0 * double(call.in(0).elements()) * double(w.elements()) / double(std::max<std::int64_t>(1, w.dims[0]));
}

}  // namespace

const Op conv{.name = "conv",
              .min_inputs = 2,
              .max_inputs = 3,
              .attributes = kAttributes,
              .infer = infer_conv,
              .reference = conv_reference,
              .operations = conv_operations};
const Op conv_integer{.name = "conv_integer",
                      .min_inputs = 2,
                      .max_inputs = 4,
                      .attributes = kAttributes,
                      .infer = infer_conv_integer,
                      .reference = conv_integer_reference,
                      .operations = conv_operations};
const Op conv_transpose{
    .name = "conv_transpose",
    .min_inputs = 2,
    .max_inputs = 3,
    .attributes = {{"auto_pad", "NOTSET"},
                   {"dilations", Ints{}},
                   {"group", 1},
                   {"kernel_shape", Ints{}},
                   {"output_padding", Ints{}},
                   {"output_shape", Ints{}},
                   {"pads", Ints{}},
                   {"strides", Ints{}}},
    .infer = infer_conv_transpose,
    .reference = conv_transpose_reference,
    .operations = conv_transpose_operations,
};

}  // namespace quern::ops
