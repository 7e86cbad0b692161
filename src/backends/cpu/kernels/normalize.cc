// Kernels that read rows of f32 as a whole: softmax, layer normalization, sums and means over neighbouring axes. A row's sums run in four
// vectors of partial sums folded in one order, so its bits depend on its own elements alone.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/function_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/normalize.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

// After the line that includes this file again, for every instruction set.
#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace quern::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using RowTag = hn::CappedTag<float, 16>;
using RowVector = hn::Vec<RowTag>;

/// The elements of x from i on, fewer than a vector, filled up with `fill`.
HWY_INLINE RowVector LoadRest(RowTag d, const float* x, std::int64_t i, std::int64_t n, float fill) {
  HWY_ALIGN float rest[16];
  std::fill(rest, rest + 16, fill);
  for (std::int64_t k = i; k < n; ++k) rest[k - i] = x[k];
  return hn::Load(d, rest);
}
HWY_INLINE void StoreRest(RowTag d, RowVector v, float* y, std::int64_t i, std::int64_t n) {
  HWY_ALIGN float rest[16];
  hn::Store(v, d, rest);
  for (std::int64_t k = i; k < n; ++k) y[k] = rest[k - i];
}

/// The sum of f(x[i]) over a row; f(0 + offset) of what fills up the last vector must be 0: `fill` says what that is.
template <class F>
HWY_INLINE float SumRow(const float* x, std::int64_t n, float fill, F f) {
  const RowTag d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  std::int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    s0 = hn::Add(s0, f(hn::LoadU(d, x + i)));
    s1 = hn::Add(s1, f(hn::LoadU(d, x + i + lanes)));
    s2 = hn::Add(s2, f(hn::LoadU(d, x + i + 2 * lanes)));
    s3 = hn::Add(s3, f(hn::LoadU(d, x + i + 3 * lanes)));
  }
  for (; i + lanes <= n; i += lanes) s0 = hn::Add(s0, f(hn::LoadU(d, x + i)));
  if (i < n) s1 = hn::Add(s1, f(LoadRest(d, x, i, n, fill)));
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
}

/// y[i] = f(x[i], i) over a row, vector by vector.
template <class F>
HWY_INLINE void MapRow(const float* x, float* y, std::int64_t n, F f) {
  const RowTag d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(hn::LoadU(d, x + i), i), d, y + i);
  if (i < n) StoreRest(d, f(LoadRest(d, x, i, n, 0), i), y, i, n);
}

void SoftmaxRow(const float* x, float* y, std::int64_t n) {
  const RowTag d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  auto highest = hn::Set(d, kLowest);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) highest = hn::Max(highest, hn::LoadU(d, x + i));
  if (i < n) highest = hn::Max(highest, LoadRest(d, x, i, n, kLowest));
  const auto high = hn::MaxOfLanes(d, highest);
  // Differences are never above 0, so Highway's Exp is in its range; it would make 0 of a NaN.
  const auto exponential = [&](RowVector v) HWY_ATTR {
    const auto shifted = hn::Sub(v, high);
    return hn::IfThenElse(hn::IsNaN(shifted), shifted, hn::Exp(d, shifted));
  };
  auto s0 = hn::Zero(d), s1 = s0;
  for (i = 0; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto a = exponential(hn::LoadU(d, x + i)), b = exponential(hn::LoadU(d, x + i + lanes));
    hn::StoreU(a, d, y + i);
    hn::StoreU(b, d, y + i + lanes);
    s0 = hn::Add(s0, a);
    s1 = hn::Add(s1, b);
  }
  for (; i < n; i += lanes) {
    const auto a = exponential(i + lanes <= n ? hn::LoadU(d, x + i) : LoadRest(d, x, i, n, kLowest));
    if (i + lanes <= n)
      hn::StoreU(a, d, y + i);
    else
      StoreRest(d, a, y, i, n);
    s0 = hn::Add(s0, a);
  }
  const auto inverse = hn::Div(hn::Set(d, 1.0f), hn::SumOfLanes(d, hn::Add(s0, s1)));
  MapRow(y, y, n, [&](RowVector v, std::int64_t) HWY_ATTR { return hn::Mul(v, inverse); });
}

/// y = (x - mean) / sqrt(variance + epsilon) * scale + bias. The mean is rounded once more from the deviations, so that a large one costs
/// no digits.
void LayerNormRow(const float* x, const float* scale, const float* bias, float* y, std::int64_t n, float epsilon) {
  const RowTag d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto count = static_cast<float>(n);
  const float first = SumRow(x, n, 0, [](RowVector v) HWY_ATTR { return v; }) / count;
  const auto shift = hn::Set(d, first);
  const float rest = SumRow(x, n, first, [&](RowVector v) HWY_ATTR { return hn::Sub(v, shift); }) / count;
  const auto mean = hn::Set(d, first + rest);
  const float squares = SumRow(x, n, first + rest, [&](RowVector v) HWY_ATTR {
    const auto deviation = hn::Sub(v, mean);
    return hn::Mul(deviation, deviation);
  });
  const auto inverse = hn::Set(d, 1.0f / std::sqrt(squares / count + epsilon));
  const auto load = [&](const float* from, std::int64_t i)
                        HWY_ATTR { return i + lanes <= n ? hn::LoadU(d, from + i) : LoadRest(d, from, i, n, 0); };
  MapRow(x, y, n, [&](RowVector v, std::int64_t i) HWY_ATTR {
    const auto normal = hn::Mul(hn::Mul(hn::Sub(v, mean), inverse), load(scale, i));
    return bias == nullptr ? normal : hn::Add(normal, load(bias, i));
  });
}

float SumElements(const float* x, std::int64_t n) {
  return SumRow(x, n, 0, [](RowVector v) HWY_ATTR { return v; });
}

/// y[j] = sum over rows r of x[r * stride + j], four chains of rows each.
void SumRows(const float* x, std::int64_t stride, std::int64_t rows, float* y, std::int64_t n) {
  const RowTag d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t j = 0; j < n; j += lanes) {
    const bool whole = j + lanes <= n;
    const auto row = [&](std::int64_t r)
                         HWY_ATTR { return whole ? hn::LoadU(d, x + r * stride + j) : LoadRest(d, x + r * stride, j, n, 0); };
    auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
    std::int64_t r = 0;
    for (; r + 4 <= rows; r += 4) {
      s0 = hn::Add(s0, row(r));
      s1 = hn::Add(s1, row(r + 1));
      s2 = hn::Add(s2, row(r + 2));
      s3 = hn::Add(s3, row(r + 3));
    }
    for (; r < rows; ++r) s0 = hn::Add(s0, row(r));
    const auto sum = hn::Add(hn::Add(s0, s1), hn::Add(s2, s3));
    if (whole)
      hn::StoreU(sum, d, y + j);
    else
      StoreRest(d, sum, y, j, n);
  }
}

}  // namespace quern::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quern::cpu {
HWY_EXPORT(SoftmaxRow);
HWY_EXPORT(LayerNormRow);
HWY_EXPORT(SumElements);
HWY_EXPORT(SumRows);

namespace {

using ir::Call;
using ir::TensorView;

constexpr KernelFunctions kSoftmax{
    "softmax f32", [](const Call& call) { return plan::Split{call.out(0).rows(), 30 + 0.7 * double(call.out(0).columns())}; },
    [](const Call& call, std::int64_t begin, std::int64_t end, std::byte*) noexcept {
      const auto softmax = HWY_DYNAMIC_DISPATCH(SoftmaxRow);
      const std::int64_t n = call.out(0).columns();
      for (std::int64_t r = begin; r < end; ++r) softmax(call.in(0).as<float>() + r * n, call.out(0).as<float>() + r * n, n);
    }};

std::int64_t elements_from(const TensorView& view, std::int64_t axis) {
  std::int64_t n = 1;
  for (std::int64_t i = axis < 0 ? axis + view.rank : axis; i < view.rank; ++i) n *= view.dims[i];
  return n;
}

constexpr KernelFunctions kLayerNorm{"layer_normalization f32",
                                     [](const Call& call) {
                                       const std::int64_t n = elements_from(call.in(0), call.node->integer("axis"));
                                       return plan::Split{n == 0 ? 0 : call.in(0).elements() / n, 50 + 0.4 * double(n)};
                                     },
                                     [](const Call& call, std::int64_t begin, std::int64_t end, std::byte*) noexcept {
                                       const auto normalize = HWY_DYNAMIC_DISPATCH(LayerNormRow);
                                       const std::int64_t n = elements_from(call.in(0), call.node->integer("axis"));
                                       const auto epsilon = static_cast<float>(call.node->number("epsilon"));
                                       for (std::int64_t r = begin; r < end; ++r)
                                         normalize(call.in(0).as<float>() + r * n, call.in(1).as<float>(),
                                                   call.has(2) ? call.in(2).as<float>() : nullptr, call.out(0).as<float>() + r * n, n,
                                                   epsilon);
                                     }};

/// Sum or mean over axes [begin, end) of the input.
class ReduceKernel final : public plan::Kernel {
 public:
  ReduceKernel(bool mean, std::int64_t begin, std::int64_t end) : mean_(mean), begin_(begin), end_(end) {}

  plan::Split split(const Call& call) const override {
    const Sizes s = sizes(call);
    return {s.units(), 20 + 0.1 * double(s.reduced * std::min(s.inner, kColumns))};
  }
  void run(const Call& call, std::int64_t begin, std::int64_t end, std::byte*) const noexcept override {
    const Sizes s = sizes(call);
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t outer = unit / s.blocks(), column = unit % s.blocks() * kColumns, n = std::min(kColumns, s.inner - column);
      const float* x = call.in(0).as<float>() + outer * s.reduced * s.inner + column;
      float* y = call.out(0).as<float>() + outer * s.inner + column;
      if (s.inner == 1)
        *y = HWY_DYNAMIC_DISPATCH(SumElements)(x, s.reduced);
      else
        HWY_DYNAMIC_DISPATCH(SumRows)(x, s.inner, s.reduced, y, n);
      if (mean_)
        for (std::int64_t i = 0; i < n; ++i) y[i] /= static_cast<float>(s.reduced);
    }
  }
  const char* name() const override { return "reduce f32"; }

 private:
  static constexpr std::int64_t kColumns = 256;  // of a unit, when the axes are not the last

  struct Sizes {
    std::int64_t outer = 1, reduced = 1, inner = 1;
    std::int64_t blocks() const { return (inner + kColumns - 1) / kColumns; }
    std::int64_t units() const { return outer * blocks(); }
  };
  Sizes sizes(const Call& call) const {
    Sizes s;
    for (std::int64_t i = 0; i < call.in(0).rank; ++i) (i < begin_ ? s.outer : i < end_ ? s.reduced : s.inner) *= call.in(0).dims[i];
    return s;
  }

  bool mean_;
  std::int64_t begin_, end_;
};

bool is_f32(const ir::Node& node, std::size_t i) { return !node.has_input(i) || node.inputs[i]->type.dtype == ir::DType::f32; }

}  // namespace

std::unique_ptr<plan::Kernel> lower_softmax(const ir::Node& node) {
  const std::int64_t axis = node.integer("axis"), rank = static_cast<std::int64_t>(node.inputs[0]->type.shape.size());
  return is_f32(node, 0) && (axis == -1 || axis == rank - 1) ? make_kernel(kSoftmax) : nullptr;
}

/// Scale and bias must have the very shape of the axes normalized over.
std::unique_ptr<plan::Kernel> lower_layer_normalization(const ir::Node& node) {
  const ir::Shape& x = node.inputs[0]->type.shape;
  const std::int64_t axis = node.integer("axis");
  const ir::Shape normalized(axis < 0 ? x.end() + axis : x.begin() + axis, x.end());
  for (const std::size_t i : {1u, 2u})
    if (node.has_input(i) && node.inputs[i]->type.shape != normalized) return nullptr;
  return is_f32(node, 0) && is_f32(node, 1) && is_f32(node, 2) ? make_kernel(kLayerNorm) : nullptr;
}

/// Axes that lie side by side.
std::unique_ptr<plan::Kernel> lower_reduce(const ir::Node& node) {
  const std::int64_t rank = static_cast<std::int64_t>(node.inputs[0]->type.shape.size());
  if (!is_f32(node, 0)) return nullptr;
  std::int64_t begin = 0, end = rank;
  if (node.has_input(1) && !(ir::element_count(node.inputs[1]->type.shape) == ir::Dim(0))) {
    if (!node.inputs[1]->contents) return nullptr;
    begin = rank;
    end = 0;
    for (const ir::Dim& d : *node.inputs[1]->contents) {
      if (!d.constant()) return nullptr;
      const std::int64_t axis = *d.constant() < 0 ? *d.constant() + rank : *d.constant();
      begin = std::min(begin, axis);
      end = std::max(end, axis + 1);
    }
    if (end - begin != static_cast<std::int64_t>(node.inputs[1]->contents->size())) return nullptr;
  } else if (node.integer("noop_with_empty_axes") != 0) {
    return nullptr;
  }
  return std::make_unique<ReduceKernel>(node.op->name == "reduce_mean", begin, end);
}

/// The mean over all axes from the third on.
std::unique_ptr<plan::Kernel> lower_global_average_pool(const ir::Node& node) {
  return is_f32(node, 0) ? std::make_unique<ReduceKernel>(true, 2, static_cast<std::int64_t>(node.inputs[0]->type.shape.size())) : nullptr;
}

}  // namespace quern::cpu
#endif  // HWY_ONCE
