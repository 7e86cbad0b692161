// Normalisations. Canonical meaning: ONNX Softmax-13, LogSoftmax-13, LayerNormalization-17 (its first output), BatchNormalization-15
// (inference), InstanceNormalization-6, GroupNormalization-21, RMSNormalization-23, LRN-13. Statistics are f64 in two passes.
#include <cmath>
#include <limits>

#include "ops/detail/cost.h"
#include "ops/detail/elementwise.h"
#include "ops/registry.h"

namespace quern::ops {
namespace {
using namespace detail;
using ir::Call;
using ir::Op;

void infer_softmax(InferContext& c) {
  c.axis(c.node().integer("axis"), c.rank(0));
  infer_same_of<Floats>(c);
}

/// A row of only -inf gives NaN, as in ONNX.
template <bool kLog>
void softmax_reference(const Call& call) {
  const TensorView &x = call.in(0), &y = call.out(0);
  const Split3 s = split_at(x, call.node->integer("axis"));
  dispatch(Floats{}, x.dtype, [&]<class T>() {
    for (std::int64_t o = 0; o < s.outer; ++o)
      for (std::int64_t i = 0; i < s.inner; ++i) {
        const auto index = [&](std::int64_t k) { return (o * s.size + k) * s.inner + i; };
        double high = -std::numeric_limits<double>::infinity(), sum = 0;
        for (std::int64_t k = 0; k < s.size; ++k) high = std::max(high, double(load<T>(x.data, index(k))));
        for (std::int64_t k = 0; k < s.size; ++k) sum += std::exp(double(load<T>(x.data, index(k))) - high);
        for (std::int64_t k = 0; k < s.size; ++k) {
          const double shifted = double(load<T>(x.data, index(k))) - high;
          store<T>(y.data, index(k), kLog ? shifted - std::log(sum) : std::exp(shifted) / sum);
        }
      }
  });
}

struct Moments {
  double mean = 0, variance = 0;
};
template <class T>
Moments moments(const TensorView& x, std::int64_t begin, std::int64_t n) {
  Moments m;
  for (std::int64_t i = 0; i < n; ++i) m.mean += double(load<T>(x.data, begin + i));
  m.mean /= double(n);
  for (std::int64_t i = 0; i < n; ++i) {
    const double d = double(load<T>(x.data, begin + i)) - m.mean;
    m.variance += d * d;
  }
  m.variance /= double(n);
  return m;
}

// layer_normalization and rms_normalization over the axes from `axis` on; scale and bias broadcast to x

void infer_layer(InferContext& c) {
  c.axis(c.node().integer("axis"), c.rank(0));
  for (std::size_t i = 1; i < c.inputs(); ++i)
    if (c.has(i)) {
      check_dtype<Floats>(c, i);
      check_broadcasts_to(c, c.shape(i), c.shape(0), i);
    }
  infer_same_of<Floats>(c);
}

template <bool kCentered>
void layer_reference(const Call& call) {
  const TensorView &x = call.in(0), &y = call.out(0);
  const Split3 s = split_at(x, call.node->integer("axis"));
  const std::int64_t n = s.size * s.inner;
  const double epsilon = call.node->number("epsilon");
  const Box box(x);
  const Axes scale = broadcast_strides(call.in(1), box), bias = call.has(2) ? broadcast_strides(call.in(2), box) : Axes{};
  dispatch(Floats{}, x.dtype, [&]<class T>() {
    Moments m;
    double inverse = 0;
    walk(box, std::array<Axes, 2>{scale, bias}, [&](std::int64_t i, std::int64_t is, std::int64_t ib) {
      if (i % n == 0) {
        m = moments<T>(x, i, n);
        inverse = 1 / std::sqrt(m.variance + (kCentered ? 0 : m.mean * m.mean) + epsilon);
      }
      const double v = (double(load<T>(x.data, i)) - (kCentered ? m.mean : 0)) * inverse;
      store<T>(y.data, i, v * number_at(call.in(1), is) + (call.has(2) ? number_at(call.in(2), ib) : 0.0));
    });
  });
}

// batch_normalization(x, scale, bias, mean, variance): one of each a channel

/// Inputs [first, inputs) are vectors of the size of axis 1.
void check_channels(InferContext& c, std::size_t first) {
  check_rank(c, 0, 2, ir::kMaxRank);
  for (std::size_t i = first; i < c.inputs(); ++i) {
    check_dtype<Floats>(c, i);
    check_rank(c, i, 1, 1);
    same_size(c, c.shape(i)[0], c.shape(0)[1]);
  }
}

void infer_batch(InferContext& c) {
  if (c.node().integer("training_mode") != 0) c.fail("training is not supported");
  check_channels(c, 1);
  infer_same_of<Floats>(c);
}

void batch_reference(const Call& call) {
  const TensorView &x = call.in(0), &y = call.out(0);
  const Split3 s = split_at(x, 1);
  const double epsilon = call.node->number("epsilon");
  dispatch(Floats{}, x.dtype, [&]<class T>() {
    for (std::int64_t o = 0; o < s.outer; ++o)
      for (std::int64_t c = 0; c < s.size; ++c) {
        const double scale = number_at(call.in(1), c), bias = number_at(call.in(2), c), mean = number_at(call.in(3), c);
        const double root = std::sqrt(number_at(call.in(4), c) + epsilon);
        for (std::int64_t i = 0; i < s.inner; ++i) {
          const std::int64_t k = (o * s.size + c) * s.inner + i;
          store<T>(y.data, k, (double(load<T>(x.data, k)) - mean) / root * scale + bias);
        }
      }
  });
}

// instance_normalization and group_normalization: statistics over runs of channels, scale and bias a channel

void infer_instance(InferContext& c) {
  check_channels(c, 1);
  infer_same_of<Floats>(c);
}

void infer_group(InferContext& c) {
  const std::int64_t groups = c.node().integer("num_groups");
  if (groups < 1) c.fail("num_groups is " + std::to_string(groups));
  if (c.rank(0) > 1)
    if (const auto n = c.shape(0)[1].constant(); n && *n % groups != 0)
      c.fail(std::to_string(*n) + " channels do not divide into " + std::to_string(groups) + " groups");
  infer_instance(c);
}

void normalize_groups(const Call& call, std::int64_t groups) {
  const TensorView &x = call.in(0), &y = call.out(0);
  const Split3 s = split_at(x, 1);
  const std::int64_t run = s.size / groups * s.inner;
  const double epsilon = call.node->number("epsilon");
  dispatch(Floats{}, x.dtype, [&]<class T>() {
    for (std::int64_t r = 0; r < s.outer * groups && run > 0; ++r) {
      const Moments m = moments<T>(x, r * run, run);
      const double inverse = 1 / std::sqrt(m.variance + epsilon);
      for (std::int64_t i = r * run; i < (r + 1) * run; ++i) {
        const std::int64_t channel = i / s.inner % s.size;
        store<T>(y.data, i,
                 (double(load<T>(x.data, i)) - m.mean) * inverse * number_at(call.in(1), channel) + number_at(call.in(2), channel));
      }
    }
  });
}

// lrn: x / (bias + alpha / size * sum of squares of neighbouring channels) ^ beta

void infer_lrn(InferContext& c) {
  check_rank(c, 0, 2, ir::kMaxRank);
  if (c.node().integer("size") < 1) c.fail("size is " + std::to_string(c.node().integer("size")));
  infer_same_of<Floats>(c);
}

void lrn_reference(const Call& call) {
  const TensorView &x = call.in(0), &y = call.out(0);
  const Split3 s = split_at(x, 1);
  const std::int64_t size = call.node->integer("size");
  const double alpha = call.node->number("alpha"), beta = call.node->number("beta"), bias = call.node->number("bias");
  dispatch(Floats{}, x.dtype, [&]<class T>() {
    for (std::int64_t o = 0; o < s.outer; ++o)
      for (std::int64_t c = 0; c < s.size; ++c)
        for (std::int64_t i = 0; i < s.inner; ++i) {
          const auto value = [&](std::int64_t k) { return double(load<T>(x.data, (o * s.size + k) * s.inner + i)); };
          double sum = 0;
          for (std::int64_t k = std::max<std::int64_t>(0, c - (size - 1) / 2); k <= c + size / 2 && k < s.size; ++k)
            sum += value(k) * value(k);
          store<T>(y.data, (o * s.size + c) * s.inner + i, value(c) / std::pow(bias + alpha / double(size) * sum, beta));
        }
  });
}

}  // namespace

const Op softmax{.name = "softmax",
                 .attributes = {{"axis", -1}},
                 .infer = infer_softmax,
                 .reference = softmax_reference<false>,
                 .operations = per_output<5>};
const Op log_softmax{.name = "log_softmax",
                     .attributes = {{"axis", -1}},
                     .infer = infer_softmax,
                     .reference = softmax_reference<true>,
                     .operations = per_output<5>};
const Op layer_normalization{.name = "layer_normalization",
                             .min_inputs = 2,
                             .max_inputs = 3,
                             .attributes = {{"axis", -1}, {"epsilon", 1e-5}, {"stash_type", 1}},
                             .infer = infer_layer,
                             .reference = layer_reference<true>,
                             .operations = per_output<8>};
const Op rms_normalization{.name = "rms_normalization",
                           .min_inputs = 2,
                           .max_inputs = 2,
                           .attributes = {{"axis", -1}, {"epsilon", 1e-5}, {"stash_type", 1}},
                           .infer = infer_layer,
                           .reference = layer_reference<false>,
                           .operations = per_output<4>};
const Op batch_normalization{.name = "batch_normalization",
                             .min_inputs = 5,
                             .max_inputs = 5,
                             .attributes = {{"epsilon", 1e-5}, {"momentum", 0.9}, {"training_mode", 0}},
                             .infer = infer_batch,
                             .reference = batch_reference,
                             .operations = per_output<2>};
const Op instance_normalization{
    .name = "instance_normalization",
    .min_inputs = 3,
    .max_inputs = 3,
    .attributes = {{"epsilon", 1e-5}},
    .infer = infer_instance,
    .reference = [](const Call& call) { normalize_groups(call, std::max<std::int64_t>(1, call.in(0).dims[1])); },
    .operations = per_output<8>};
const Op group_normalization{.name = "group_normalization",
                             .min_inputs = 3,
                             .max_inputs = 3,
                             .attributes = {{"epsilon", 1e-5}, {"num_groups", {}}, {"stash_type", 1}},
                             .infer = infer_group,
                             .reference = [](const Call& call) { normalize_groups(call, call.node->integer("num_groups")); },
                             .operations = per_output<8>};
const Op lrn{.name = "lrn",
             .attributes = {{"alpha", 0.0001}, {"beta", 0.75}, {"bias", 1.0}, {"size", {}}},
             .infer = infer_lrn,
             .reference = lrn_reference};

}  // namespace quern::ops
