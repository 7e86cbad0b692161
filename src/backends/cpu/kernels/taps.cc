#include "backends/cpu/kernels/taps.h"

#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/taps.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace quern::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using TapTag = hn::CappedTag<float, 16>;
using TapVector = hn::Vec<TapTag>;

/// Every stride-th element from p on, one vector of them; `more` says that the element after the last stride may be read.
HWY_INLINE TapVector LoadEvery(TapTag d, const float* p, std::int64_t stride, bool more) {
  if (stride == 1) return hn::LoadU(d, p);
  if (stride == 2 && more) {
    TapVector even, odd;
    hn::LoadInterleaved2(d, p, even, odd);
    return even;
  }
  HWY_ALIGN float gathered[16] = {};
  for (std::size_t k = 0; k < hn::Lanes(d); ++k) gathered[k] = p[static_cast<std::int64_t>(k) * stride];
  return hn::Load(d, gathered);
}

/// `f(sum, x, row, column)` folds one element of the window into the sums of a vector of outputs.
template <class F>
HWY_INLINE void FoldTaps(const Taps& t, float start, float* y, std::int64_t n, F f) {
  const TapTag d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto fold = [&](std::int64_t i, bool more) HWY_ATTR {
    auto sum = hn::Set(d, start);
    for (std::int64_t r = 0; r < t.rows; ++r)
      for (std::int64_t c = 0; c < t.columns; ++c)
        sum = f(sum, LoadEvery(d, t.x + i * t.stride + r * t.row_step + c * t.column_step, t.stride, more), r, c);
    return sum;
  };
  if (n >= lanes) {
    std::int64_t i = 0;
    for (; i + lanes < n; i += lanes) hn::StoreU(fold(i, true), d, y + i);
    hn::StoreU(fold(n - lanes, false), d, y + n - lanes);  // computes some again, with the same bits
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    auto sum = hn::Set(d, start);
    for (std::int64_t r = 0; r < t.rows; ++r)
      for (std::int64_t c = 0; c < t.columns; ++c) sum = f(sum, hn::Set(d, t.x[i * t.stride + r * t.row_step + c * t.column_step]), r, c);
    y[i] = hn::GetLane(sum);
  }
}

void WeightedTaps(const Taps& t, const float* w, std::int64_t w_row, float bias, float* y, std::int64_t n) {
  FoldTaps(t, bias, y, n, [&](TapVector sum, TapVector x, std::int64_t r, std::int64_t c) HWY_ATTR {
    return hn::MulAdd(hn::Set(TapTag(), w[r * w_row + c]), x, sum);
  });
}
void MaximumTaps(const Taps& t, float* y, std::int64_t n) {
  FoldTaps(t, -std::numeric_limits<float>::infinity(), y, n, [](TapVector best, TapVector x, std::int64_t, std::int64_t) HWY_ATTR {
    return hn::IfThenElse(hn::Or(hn::Gt(x, best), hn::IsNaN(x)), x, best);
  });
}
void SumTaps(const Taps& t, float* y, std::int64_t n) {
  FoldTaps(t, 0.0f, y, n, [](TapVector sum, TapVector x, std::int64_t, std::int64_t) HWY_ATTR { return hn::Add(sum, x); });
}

}  // namespace quern::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quern::cpu {
HWY_EXPORT(WeightedTaps);
HWY_EXPORT(MaximumTaps);
HWY_EXPORT(SumTaps);

void weighted_taps(const Taps& taps, const float* w, std::int64_t w_row, float bias, float* y, std::int64_t n) noexcept {
  HWY_DYNAMIC_DISPATCH(WeightedTaps)(taps, w, w_row, bias, y, n);
}
void maximum_taps(const Taps& taps, float* y, std::int64_t n) noexcept { HWY_DYNAMIC_DISPATCH(MaximumTaps)(taps, y, n); }
void sum_taps(const Taps& taps, float* y, std::int64_t n) noexcept { HWY_DYNAMIC_DISPATCH(SumTaps)(taps, y, n); }

}  // namespace quern::cpu
#endif  // HWY_ONCE
