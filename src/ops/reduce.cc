// Reductions over axes. Canonical meaning: ONNX ReduceSum-13, ReduceMean-18, ReduceMax-20 …, ArgMax-13, ArgMin-13, CumSum-14.
// Floats are summed in f64 in row-major order of the reduced axes; integers wrap around.
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

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// Which axes are reduced: those that input 1 names, all when it is absent or empty, none when noop_with_empty_axes then says so.
std::array<bool, ir::kMaxRank> reduced_axes(const ir::Node& n, std::int64_t rank, const Ints& axes) {
  std::array<bool, ir::kMaxRank> reduced{};
  if (axes.empty() && n.integer("noop_with_empty_axes") == 0) reduced.fill(true);
  for (const std::int64_t axis : axes) reduced[at(axis < 0 ? axis + rank : axis)] = true;
  return reduced;
}

template <class List>
void infer_reduce(InferContext& c) {
  check_dtype<List>(c, 0);
  const Ints axes = c.has(1) ? unique_axes(c, required_numbers(c, 1), c.rank(0)) : Ints{};
  const auto reduced = reduced_axes(c.node(), c.rank(0), axes);
  const bool keep = c.node().integer("keepdims") != 0;
  Shape shape;
  for (std::size_t i = 0; i < c.shape(0).size(); ++i) {
    if (!reduced[i])
      shape.push_back(c.shape(0)[i]);
    else if (keep)
      shape.emplace_back(1);
  }
  c.set_output(0, Type{c.dtype(0), std::move(shape)});
}

/// The product of a known shape's sizes is how exporters count elements.
void infer_reduce_prod(InferContext& c) {
  infer_reduce<Numbers>(c);
  const auto* contents = c.contents(0);
  const auto& type = c.node().outputs[0]->type;
  if (contents == nullptr || c.rank(0) != 1 || !may_have_contents(type) || (c.has(1) && c.contents(1)->empty())) return;
  Dim product = 1;
  for (const Dim& d : *contents) product = product * d;
  c.set_contents(0, {product});
}

/// For each output element, `f(begin, step)` is given a walk over the elements reduced into it.
template <class F>
void for_each_reduced(const Call& call, F&& f) {
  const TensorView& x = call.in(0);
  Ints axes;
  if (call.has(1))
    for (std::int64_t i = 0, n = call.in(1).elements(); i < n; ++i) axes.push_back(integer_at(call.in(1), i));
  const auto reduced = reduced_axes(*call.node, x.rank, axes);
  const Axes dense = strides_of(x);
  Box kept, gone;
  Axes kept_strides{}, gone_strides{};
  for (std::int64_t i = 0; i < x.rank; ++i) {
    Box& box = reduced[at(i)] ? gone : kept;
    (reduced[at(i)] ? gone_strides : kept_strides)[at(box.rank)] = dense[at(i)];
    box.add(x.dims[i]);
  }
  walk(kept, std::array<Axes, 1>{kept_strides}, [&](std::int64_t i, std::int64_t base) {
    f(i, gone.elements(),
      [&](auto&& each) { walk(gone, std::array<Axes, 1>{gone_strides}, [&](std::int64_t, std::int64_t k) { each(base + k); }); });
  });
}

/// A reduction is a start, a step, and what is made of the result of n elements.
struct SumOf {
  template <class S>
  static S start() {
    return S(0);
  }
  template <class S>
  static S step(S s, S v) {
    return s + v;
  }
  template <class S>
  static S end(S s, std::int64_t) {
    return s;
  }
};
struct MeanOf : SumOf {
  template <class S>
  static S end(S s, std::int64_t n) {
    if constexpr (std::is_integral_v<S>)
      return n == 0 ? S(0) : s / S(n);
    else
      return s / S(n);
  }
};
struct ProdOf : SumOf {
  template <class S>
  static S start() {
    return S(1);
  }
  template <class S>
  static S step(S s, S v) {
    return s * v;
  }
};
struct SquareSumOf : SumOf {
  template <class S>
  static S step(S s, S v) {
    return s + v * v;
  }
};
struct L1Of : SumOf {
  template <class S>
  static S step(S s, S v) {
    return s + (v < S(0) ? S(0) - v : v);
  }
};
struct L2Of : SquareSumOf {
  template <class S>
  static S end(S s, std::int64_t) {
    return static_cast<S>(std::sqrt(double(s)));
  }
};
struct LogSumOf : SumOf {
  template <class S>
  static S end(S s, std::int64_t) {
    return static_cast<S>(std::log(double(s)));
  }
};

template <class List, class R>
void reduce_reference(const Call& call) {
  const TensorView &x = call.in(0), &y = call.out(0);
  dispatch(List{}, x.dtype, [&]<class T>() {
    // Integers are added modulo 2^64, except where an end divides or compares and so needs their sign.
    using S = Sum<T>;
    for_each_reduced(call, [&](std::int64_t i, std::int64_t n, auto&& over) {
      S s = R::template start<S>();
      over([&](std::int64_t k) {
        const S v = static_cast<S>(load<T>(x.data, k));
        if constexpr (std::is_integral_v<S>)
          s = static_cast<S>(
              R::template step<std::uint64_t>(std::uint64_t(s), std::uint64_t(std::is_same_v<R, L1Of> && v < S(0) ? S(0) - v : v)));
        else
          s = R::step(s, v);
      });
      store<T>(y.data, i, R::end(s, n));
    });
  });
}

template <bool kMax>
void extreme_reference(const Call& call) {
  const TensorView &x = call.in(0), &y = call.out(0);
  dispatch(Plain{}, x.dtype, [&]<class T>() {
    using C = Compute<T>;
    for_each_reduced(call, [&](std::int64_t i, std::int64_t, auto&& over) {
      C best = kMax ? std::numeric_limits<C>::lowest() : std::numeric_limits<C>::max();
      if constexpr (std::is_floating_point_v<C>) best = kMax ? -std::numeric_limits<C>::infinity() : std::numeric_limits<C>::infinity();
      over([&](std::int64_t k) {
        const C v = load<T>(x.data, k);
        if (v != v || (best == best && (kMax ? v > best : v < best))) best = v;  // NaN wins
      });
      store<T>(y.data, i, best);
    });
  });
}

void log_sum_exp_reference(const Call& call) {
  const TensorView &x = call.in(0), &y = call.out(0);
  dispatch(Floats{}, x.dtype, [&]<class T>() {
    for_each_reduced(call, [&](std::int64_t i, std::int64_t, auto&& over) {
      double high = -std::numeric_limits<double>::infinity(), sum = 0;
      over([&](std::int64_t k) { high = std::max(high, double(load<T>(x.data, k))); });
      const double shift = std::isfinite(high) ? high : 0;
      over([&](std::int64_t k) { sum += std::exp(double(load<T>(x.data, k)) - shift); });
      store<T>(y.data, i, std::log(sum) + shift);
    });
  });
}

template <class List>
Op reduction(std::string_view name, void (*reference)(const Call&), void (*infer)(InferContext&) = infer_reduce<List>) {
  return Op{.name = name,
            .max_inputs = 2,
            .attributes = {{"keepdims", 1}, {"noop_with_empty_axes", 0}},
            .infer = infer,
            .reference = reference,
            .operations = per_input<1>};
}

// arg_max, arg_min

void infer_arg(InferContext& c) {
  check_dtype<Numbers>(c, 0);
  const std::int64_t axis = c.axis(c.node().integer("axis"), c.rank(0));
  Shape shape = c.shape(0);
  if (shape[at(axis)] == Dim(0)) c.fail("the axis is empty");
  if (c.node().integer("keepdims") != 0)
    shape[at(axis)] = 1;
  else
    shape.erase(shape.begin() + axis);
  c.set_output(0, Type{DType::i64, std::move(shape)});
}

template <bool kMax>
void arg_reference(const Call& call) {
  const TensorView &x = call.in(0), &y = call.out(0);
  const Split3 s = split_at(x, call.node->integer("axis"));
  const bool last = call.node->integer("select_last_index") != 0;
  dispatch(Numbers{}, x.dtype, [&]<class T>() {
    for (std::int64_t o = 0; o < s.outer; ++o)
      for (std::int64_t i = 0; i < s.inner; ++i) {
        std::int64_t best = 0;
        for (std::int64_t k = 1; k < s.size; ++k) {
          const auto v = load<T>(x.data, (o * s.size + k) * s.inner + i), b = load<T>(x.data, (o * s.size + best) * s.inner + i);
          if (kMax ? v > b : v < b) best = k;
          if (last && v == b) best = k;
        }
        store<std::int64_t>(y.data, o * s.inner + i, best);
      }
  });
}

const std::vector<ir::AttributeSpec> kArgAttributes = {{"axis", 0}, {"keepdims", 1}, {"select_last_index", 0}};

// cum_sum(x, axis)

void infer_cum_sum(InferContext& c) {
  const Ints axis = required_numbers(c, 1);
  if (axis.size() != 1) c.fail("input 1 must be one number");
  c.axis(axis[0], c.rank(0));
  infer_same_of<Numbers>(c);
}

void cum_sum_reference(const Call& call) {
  const TensorView &x = call.in(0), &y = call.out(0);
  const Split3 s = split_at(x, integer_at(call.in(1), 0));
  const bool exclusive = call.node->integer("exclusive") != 0, reverse = call.node->integer("reverse") != 0;
  dispatch(Numbers{}, x.dtype, [&]<class T>() {
    using S = std::conditional_t<std::is_integral_v<Compute<T>>, std::uint64_t, double>;
    for (std::int64_t o = 0; o < s.outer; ++o)
      for (std::int64_t i = 0; i < s.inner; ++i) {
        S sum = 0;
        for (std::int64_t k = 0; k < s.size; ++k) {
          const std::int64_t index = (o * s.size + (reverse ? s.size - 1 - k : k)) * s.inner + i;
          const S v = static_cast<S>(load<T>(x.data, index));
          store<T>(y.data, index, exclusive ? sum : sum + v);
          sum += v;
        }
      }
  });
}

}  // namespace

const Op reduce_sum = reduction<Numbers>("reduce_sum", reduce_reference<Numbers, SumOf>);
const Op reduce_mean = reduction<Numbers>("reduce_mean", reduce_reference<Numbers, MeanOf>);
const Op reduce_prod = reduction<Numbers>("reduce_prod", reduce_reference<Numbers, ProdOf>, infer_reduce_prod);
const Op reduce_max = reduction<Plain>("reduce_max", extreme_reference<true>);
const Op reduce_min = reduction<Plain>("reduce_min", extreme_reference<false>);
const Op reduce_sum_square = reduction<Numbers>("reduce_sum_square", reduce_reference<Numbers, SquareSumOf>);
const Op reduce_l1 = reduction<Numbers>("reduce_l1", reduce_reference<Numbers, L1Of>);
const Op reduce_l2 = reduction<Numbers>("reduce_l2", reduce_reference<Numbers, L2Of>);
const Op reduce_log_sum = reduction<Numbers>("reduce_log_sum", reduce_reference<Numbers, LogSumOf>);
const Op reduce_log_sum_exp = reduction<Floats>("reduce_log_sum_exp", log_sum_exp_reference);
const Op arg_max{
    .name = "arg_max", .attributes = kArgAttributes, .infer = infer_arg, .reference = arg_reference<true>, .operations = per_input<1>};
const Op arg_min{
    .name = "arg_min", .attributes = kArgAttributes, .infer = infer_arg, .reference = arg_reference<false>, .operations = per_input<1>};
const Op cum_sum{.name = "cum_sum",
                 .min_inputs = 2,
                 .max_inputs = 2,
                 .attributes = {{"exclusive", 0}, {"reverse", 0}},
                 .infer = infer_cum_sum,
                 .reference = cum_sum_reference,
                 .operations = per_input<1>};

}  // namespace quern::ops
