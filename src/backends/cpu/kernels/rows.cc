// Kernels over rows and plain elements of f32: RMS norm, gated activations.
#include "backends/cpu/function_kernel.h"
#include "backends/cpu/kernels/gate.h"
#include "backends/cpu/kernels/linear/linear.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/rows.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>
#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace quern::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void AddRow(const float* a, const float* b, float* y, std::int64_t n) {
  const hn::ScalableTag<float> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Add(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, y + i);
  for (; i < n; ++i) y[i] = a[i] + b[i];
}

/// y = x * weight / sqrt(mean(x²) + epsilon). The sum of squares runs in four vectors of partial sums, folded in one order: the same bits
/// for a row whatever else is computed.
void RmsNormRow(const float* x, const float* HWY_RESTRICT weight, float* y, std::int64_t n, float epsilon) {
  const hn::ScalableTag<float> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    const auto a = hn::LoadU(d, x + i), b = hn::LoadU(d, x + i + lanes), c = hn::LoadU(d, x + i + 2 * lanes),
               e = hn::LoadU(d, x + i + 3 * lanes);
    s0 = hn::MulAdd(a, a, s0);
    s1 = hn::MulAdd(b, b, s1);
    s2 = hn::MulAdd(c, c, s2);
    s3 = hn::MulAdd(e, e, s3);
  }
  for (; i + lanes <= n; i += lanes) {
    const auto a = hn::LoadU(d, x + i);
    s0 = hn::MulAdd(a, a, s0);
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
  for (; i < n; ++i) sum += x[i] * x[i];
  const float scale = 1.0f / std::sqrt(sum / static_cast<float>(n) + epsilon);
  const auto scales = hn::Set(d, scale);
  for (i = 0; i + lanes <= n; i += lanes) hn::StoreU(hn::Mul(hn::Mul(hn::LoadU(d, x + i), scales), hn::LoadU(d, weight + i)), d, y + i);
  for (; i < n; ++i) y[i] = x[i] * scale * weight[i];
}

/// y = gate / (1 + exp(-slope(gate))) * up. Relative error of the exponential: 1 ulp (Highway's Exp, which wants at most 104; e^104 is
/// infinity).
template <class Slope>
HWY_INLINE void Glu(const float* gate, const float* up, float* y, std::int64_t n, Slope slope) {
  const hn::ScalableTag<float> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto one = hn::Set(d, 1.0f), most = hn::Set(d, 104.0f);
  const auto compute = [&](auto g, auto u)
                           HWY_ATTR { return hn::Mul(hn::Div(g, hn::Add(one, hn::Exp(d, hn::Min(hn::Neg(slope(d, g)), most)))), u); };
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(compute(hn::LoadU(d, gate + i), hn::LoadU(d, up + i)), d, y + i);
  if (i < n) {  // the rest through a whole vector, so that an element's bits do not depend on where its chunk ends
    HWY_ALIGN float g[64] = {}, u[64] = {};
    for (std::int64_t k = i; k < n; ++k) g[k - i] = gate[k], u[k - i] = up[k];
    hn::Store(compute(hn::Load(d, g), hn::Load(d, u)), d, g);
    for (std::int64_t k = i; k < n; ++k) y[k] = g[k - i];
  }
}

void GluSilu(const float* gate, const float* up, float* y, std::int64_t n) {
  Glu(gate, up, y, n, [](auto, auto g) HWY_ATTR { return g; });
}

/// 0.5 * (1 + tanh(u)) is sigmoid(2u).
void GluGelu(const float* gate, const float* up, float* y, std::int64_t n) {
  Glu(gate, up, y, n, [](auto d, auto g) HWY_ATTR {
    const auto linear = hn::Set(d, 1.5957691216057308f), cubic = hn::Set(d, 0.0713548162726009f);  // 2 sqrt(2 / pi), that * 0.044715
    return hn::Mul(g, hn::MulAdd(hn::Mul(cubic, g), g, linear));
  });
}

}  // namespace quern::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quern::cpu {
HWY_EXPORT(AddRow);
HWY_EXPORT(RmsNormRow);
HWY_EXPORT(GluSilu);
HWY_EXPORT(GluGelu);

namespace {

constexpr std::int64_t kChunk = 1024;  // elements a unit of an element-wise kernel: 4 KiB, some 100 ns

/// Where the floats [element, …) of output 0 are computed: in place, or in scratch when they become a8 or bf16.
float* floats_at(const ir::Call& call, std::int64_t element, std::byte* scratch) {
  return call.out(0).dtype == ir::DType::f32 ? call.out(0).as<float>() + element : reinterpret_cast<float*>(scratch);
}

/// Ends what floats_at() began: `count` floats are ready.
void finish(const ir::Call& call, std::int64_t element, std::int64_t count, const std::byte* scratch) {
  if (call.out(0).dtype != ir::DType::f32) shorten(reinterpret_cast<const float*>(scratch), call.out(0), element, count);
}

constexpr KernelFunctions kRmsNorm{
    "rms_norm",
    [](const ir::Call& call) {
      return plan::Split{call.out(0).rows(), 20 + (call.out(0).dtype == ir::DType::f32 ? 0.2 : 0.6) * double(call.out(0).columns())};
    },
    [](const ir::Call& call, std::int64_t begin, std::int64_t end, std::byte* scratch) noexcept {
      const auto add = HWY_DYNAMIC_DISPATCH(AddRow);
      const auto norm = HWY_DYNAMIC_DISPATCH(RmsNormRow);
      const std::int64_t n = call.out(0).columns();
      const float epsilon = static_cast<float>(call.node->number("epsilon"));
      for (std::int64_t r = begin; r < end; ++r) {
        const float* x = call.in(0).as<float>() + r * n;
        if (call.has(2)) {
          add(x, call.in(2).as<float>() + r * n, call.out(1).as<float>() + r * n, n);
          x = call.out(1).as<float>() + r * n;
        }
        norm(x, call.in(1).as<float>(), floats_at(call, r * n, scratch), n, epsilon);
        finish(call, r * n, n, scratch);
      }
    },
    [](const ir::Call& call) { return call.out(0).columns() * std::int64_t{sizeof(float)}; }};

constexpr KernelFunctions kGlu{
    "glu",
    [](const ir::Call& call) {
      return plan::Split{(call.out(0).elements() + kChunk - 1) / kChunk, call.out(0).dtype == ir::DType::f32 ? 200.0 : 600.0};
    },
    [](const ir::Call& call, std::int64_t begin, std::int64_t end, std::byte* scratch) noexcept {
      const GateLoop gate = gate_loop(call.node->text("activation"));
      for (std::int64_t first = begin * kChunk; first < std::min(end * kChunk, call.out(0).elements()); first += kChunk) {
        const std::int64_t count = std::min(kChunk, call.out(0).elements() - first);
        gate(call.in(0).as<float>() + first, call.in(1).as<float>() + first, floats_at(call, first, scratch), count);
        finish(call, first, count, scratch);
      }
    },
    [](const ir::Call&) { return kChunk * std::int64_t{sizeof(float)}; }};

}  // namespace

std::unique_ptr<plan::Kernel> lower_rms_norm(const ir::Node&) { return make_kernel(kRmsNorm); }
std::unique_ptr<plan::Kernel> lower_glu(const ir::Node&) { return make_kernel(kGlu); }

GateLoop gate_loop(std::string_view activation) {
  return activation == "silu" ? HWY_DYNAMIC_DISPATCH(GluSilu) : HWY_DYNAMIC_DISPATCH(GluGelu);
}

}  // namespace quern::cpu
#endif  // HWY_ONCE
