#include "backends/cpu/kernels/halves.h"

#include "base/float16.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/halves.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace quern::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void ToF16(const float* x, std::uint16_t* y, std::int64_t n) {
  std::int64_t i = 0;
#if HWY_TARGET <= HWY_AVX2  // these have an instruction for it; what Highway does elsewhere has other subnormals
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> halves;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(hn::DemoteTo(halves, hn::LoadU(d, x + i)), halves, reinterpret_cast<hwy::float16_t*>(y + i));
#endif
  for (; i < n; ++i) y[i] = f32_to_f16(x[i]);
}

/// By integers: the machine's own instructions take subnormals for zero.
void ToBf16(const float* x, std::uint16_t* y, std::int64_t n) {
  const hn::ScalableTag<std::uint32_t> d;
  const hn::Rebind<std::uint16_t, decltype(d)> halves;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto bits = hn::LoadU(d, reinterpret_cast<const std::uint32_t*>(x + i)), high = hn::ShiftRight<16>(bits);
    const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(d, 0x7fff)), hn::And(high, hn::Set(d, 1))));
    const auto is_nan = hn::Gt(hn::And(bits, hn::Set(d, 0x7fffffff)), hn::Set(d, 0x7f800000));
    hn::StoreU(hn::TruncateTo(halves, hn::IfThenElse(is_nan, hn::Or(high, hn::Set(d, 0x40)), rounded)), halves, y + i);
  }
  for (; i < n; ++i) y[i] = f32_to_bf16(x[i]);
}

}  // namespace quern::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quern::cpu {
HWY_EXPORT(ToF16);
HWY_EXPORT(ToBf16);

void to_f16(const float* x, std::uint16_t* y, std::int64_t n) { HWY_DYNAMIC_DISPATCH(ToF16)(x, y, n); }
void to_bf16(const float* x, std::uint16_t* y, std::int64_t n) { HWY_DYNAMIC_DISPATCH(ToBf16)(x, y, n); }

}  // namespace quern::cpu
#endif
