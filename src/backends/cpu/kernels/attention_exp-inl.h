// Powers of two for the softmax of attention, once for each instruction set.
#if defined(QUERN_ATTENTION_EXP_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef QUERN_ATTENTION_EXP_INL
#undef QUERN_ATTENTION_EXP_INL
#else
#define QUERN_ATTENTION_EXP_INL
#endif

#include <hwy/highway.h>

#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace quern::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Vectors of at most 16 floats: a block of the cache holds a multiple of that.
using Floats = hn::CappedTag<float, 16>;
using Vector = hn::Vec<Floats>;
constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(Floats()));

/// 2^z for z ≤ 0, within 1e-7 of it; 0 from -127 down, and -infinity too. NaN gives a number: who calls looks for it.
HWY_INLINE Vector Exp2(Vector z) {
  const Floats d;
  const hn::RebindToSigned<Floats> di;
  z = hn::Max(z, hn::Set(d, -127.0f));
  // Beside 1.5 * 2^23 a float has no bits for fractions: what is added is rounded, and lies in the lowest bits.
  const auto magic = hn::Set(d, 12582912.0f);
  const auto whole = hn::Add(z, magic);
  const auto f = hn::Sub(z, hn::Sub(whole, magic));  // exact, at most 1/2
  // (2^f - 1) / f by Chebyshev interpolation on [-1/2, 1/2]: within 9e-9.
  auto p = hn::MulAdd(hn::Set(d, 0.00015461447765119374f), f, hn::Set(d, 0.0013390866806730628f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.009618056938052177f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.055503569543361664f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.24022650718688965f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.6931471824645996f));
  p = hn::MulAdd(p, f, hn::Set(d, 1.0f));
  return hn::BitCast(d, hn::Add(hn::BitCast(di, p), hn::ShiftLeft<23>(hn::BitCast(di, whole))));
}

HWY_INLINE float Exp2Of(float z) { return std::isnan(z) ? z : hn::GetLane(Exp2(hn::Set(Floats(), z))); }

}  // namespace quern::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
