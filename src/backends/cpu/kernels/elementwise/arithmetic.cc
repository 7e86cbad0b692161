// Functions of one f32 element, and arithmetic of two broadcast f32 tensors.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <string_view>

#include "backends/cpu/function_kernel.h"
#include "backends/cpu/kernels/broadcast.h"
#include "backends/cpu/kernels/elementwise/element_loop.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/elementwise/arithmetic.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

// After the line that includes this file again, for every instruction set.
#include <hwy/contrib/math/math-inl.h>

#ifndef QUERN_ARITHMETIC_ONCE
#define QUERN_ARITHMETIC_ONCE
namespace quern::cpu {
enum class Unary {
  abs,
  ceil,
  clip,
  cube,  // pow by 3
  erf,
  exp,
  floor,
  gelu,
  hard_sigmoid,
  hard_swish,
  leaky_relu,
  neg,
  reciprocal,
  relu,
  round,
  sigmoid,
  sqrt,
  square,  // pow by 2
  tanh
};
enum class Binary { add, sub, mul, div, min, max };
}  // namespace quern::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace quern::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats16 = hn::CappedTag<float, 16>;
using Vector = hn::Vec<Floats16>;

/// Highway's functions say nothing of NaN, and Exp wants arguments up to 104; beyond 88.8 the result is infinite anyway.
HWY_INLINE Vector KeepNan(Vector x, Vector y) { return hn::IfThenElse(hn::IsNaN(x), x, y); }
HWY_INLINE Vector ExpOf(Floats16 d, Vector x) { return KeepNan(x, hn::Exp(d, hn::Min(x, hn::Set(d, 104.0f)))); }

/// x P(x²) / Q(x²), P of degree 6 and Q of degree 4, minimax on [-4, 4] where erf reaches ±1 in f32; relative error < 5e-7.
HWY_INLINE Vector ErfOf(Floats16 d, Vector x) {
  const auto c = hn::Max(hn::Min(x, hn::Set(d, 4.0f)), hn::Set(d, -4.0f));
  const auto s = hn::Mul(c, c);
  auto p = hn::Set(d, -2.72614225801306e-10f);
  for (const float k : {2.77068142495902e-08f, -2.10102402082508e-06f, -5.69250639462346e-05f, -7.34990630326855e-04f,
                        -2.95459980854025e-03f, -1.60960333262415e-02f})
    p = hn::MulAdd(p, s, hn::Set(d, k));
  auto q = hn::Set(d, -1.45660718464996e-05f);
  for (const float k : {-2.13374055278905e-04f, -1.68282697438203e-03f, -7.37332916720468e-03f, -1.42647390514189e-02f})
    q = hn::MulAdd(q, s, hn::Set(d, k));
  return KeepNan(x, hn::Div(hn::Mul(c, p), q));
}

/// y[i] = f(x[i]). The last elements go through a whole vector too: an element's bits do not depend on where a run ends.
template <class F>
HWY_INLINE void Map(const float* x, float* y, std::int64_t n, F f) {
  const Floats16 d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(d, hn::LoadU(d, x + i)), d, y + i);
  if (i == n) return;
  HWY_ALIGN float rest[16] = {};
  for (std::int64_t k = i; k < n; ++k) rest[k - i] = x[k];
  hn::Store(f(d, hn::Load(d, rest)), d, rest);
  for (std::int64_t k = i; k < n; ++k) y[k] = rest[k - i];
}

#define QUERN_MAP(op, expression) \
  case Unary::op: return Map(x, y, n, [=](Floats16 d, Vector v) HWY_ATTR { return (void)d, expression; });

void ApplyUnary(Unary op, float alpha, float beta, const float* x, float* y, std::int64_t n) {
  switch (op) {
    QUERN_MAP(abs, hn::Abs(v))
    QUERN_MAP(ceil, hn::Ceil(v))
    QUERN_MAP(clip, KeepNan(v, hn::Min(hn::Max(v, hn::Set(d, alpha)), hn::Set(d, beta))))
    QUERN_MAP(cube, hn::Mul(hn::Mul(v, v), v))
    QUERN_MAP(erf, ErfOf(d, v))
    QUERN_MAP(exp, ExpOf(d, v))
    QUERN_MAP(floor, hn::Floor(v))
    QUERN_MAP(gelu, hn::Mul(hn::Mul(hn::Set(d, 0.5f), v), hn::Add(hn::Set(d, 1.0f), ErfOf(d, hn::Mul(v, hn::Set(d, 0.70710678f))))))
    QUERN_MAP(hard_sigmoid,
              KeepNan(v, hn::Min(hn::Max(hn::Add(hn::Mul(v, hn::Set(d, alpha)), hn::Set(d, beta)), hn::Zero(d)), hn::Set(d, 1.0f))))
    QUERN_MAP(
        hard_swish,
        KeepNan(v, hn::Mul(v, hn::Min(hn::Max(hn::Add(hn::Div(v, hn::Set(d, 6.0f)), hn::Set(d, 0.5f)), hn::Zero(d)), hn::Set(d, 1.0f)))))
    QUERN_MAP(leaky_relu, hn::IfThenElse(hn::Lt(v, hn::Zero(d)), hn::Mul(v, hn::Set(d, alpha)), v))
    QUERN_MAP(neg, hn::Neg(v))
    QUERN_MAP(reciprocal, hn::Div(hn::Set(d, 1.0f), v))
    QUERN_MAP(relu, hn::IfThenElse(hn::Lt(v, hn::Zero(d)), hn::Zero(d), v))
    QUERN_MAP(round, hn::Round(v))
    QUERN_MAP(sigmoid, hn::Div(hn::Set(d, 1.0f), hn::Add(hn::Set(d, 1.0f), ExpOf(d, hn::Neg(v)))))
    QUERN_MAP(sqrt, hn::Sqrt(v))
    QUERN_MAP(square, hn::Mul(v, v))
    QUERN_MAP(tanh, KeepNan(v, hn::Tanh(d, v)))
  }
}
#undef QUERN_MAP

/// y[i] = f(a[i or 0], b[i or 0]); strides are 0 or 1.
template <class F>
HWY_INLINE void Combine(const float* a, std::int64_t a_stride, const float* b, std::int64_t b_stride, float* y, std::int64_t n, F f) {
  const Floats16 d;
  if (a_stride == 1 && b_stride == 1) {
    const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
    std::int64_t i = 0;
    for (; i + lanes <= n; i += lanes) hn::StoreU(f(d, hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, y + i);
    if (i == n) return;
    HWY_ALIGN float left[16] = {}, right[16] = {};
    for (std::int64_t k = i; k < n; ++k) left[k - i] = a[k], right[k - i] = b[k];
    hn::Store(f(d, hn::Load(d, left), hn::Load(d, right)), d, left);
    for (std::int64_t k = i; k < n; ++k) y[k] = left[k - i];
  } else if (a_stride == 1) {
    const auto right = hn::Set(d, *b);
    Map(a, y, n, [=](Floats16 tag, Vector v) HWY_ATTR { return f(tag, v, right); });
  } else if (b_stride == 1) {
    const auto left = hn::Set(d, *a);
    Map(b, y, n, [=](Floats16 tag, Vector v) HWY_ATTR { return f(tag, left, v); });
  } else {
    const float value = hn::GetLane(f(d, hn::Set(d, *a), hn::Set(d, *b)));
    for (std::int64_t i = 0; i < n; ++i) y[i] = value;
  }
}

#define QUERN_COMBINE(op, expression) \
  case Binary::op: return Combine(a, a_stride, b, b_stride, y, n, [](Floats16, Vector u, Vector v) HWY_ATTR { return expression; });

void ApplyBinary(Binary op, const float* a, std::int64_t a_stride, const float* b, std::int64_t b_stride, float* y, std::int64_t n) {
  switch (op) {
    QUERN_COMBINE(add, hn::Add(u, v))
    QUERN_COMBINE(sub, hn::Sub(u, v))
    QUERN_COMBINE(mul, hn::Mul(u, v))
    QUERN_COMBINE(div, hn::Div(u, v))
    QUERN_COMBINE(min, hn::IfThenElse(hn::Or(hn::Lt(u, v), hn::IsNaN(u)), u, v))
    QUERN_COMBINE(max, hn::IfThenElse(hn::Or(hn::Gt(u, v), hn::IsNaN(u)), u, v))
  }
}
#undef QUERN_COMBINE

}  // namespace quern::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quern::cpu {
HWY_EXPORT(ApplyUnary);
HWY_EXPORT(ApplyBinary);

namespace {

constexpr std::int64_t kChunk = 4096;  // elements a unit: 16 KiB, some hundred nanoseconds at least

std::int64_t chunks(const ir::Call& call) { return (call.out(0).elements() + kChunk - 1) / kChunk; }

struct UnaryRow {
  std::string_view op;
  Unary unary;
  double nanoseconds;  // an element, roughly
};
constexpr UnaryRow kUnary[] = {
    {"abs", Unary::abs, 0.1},
    {"ceil", Unary::ceil, 0.1},
    {"clip", Unary::clip, 0.1},
    {"erf", Unary::erf, 0.5},
    {"exp", Unary::exp, 0.5},
    {"floor", Unary::floor, 0.1},
    {"gelu", Unary::gelu, 0.6},
    {"hard_sigmoid", Unary::hard_sigmoid, 0.1},
    {"hard_swish", Unary::hard_swish, 0.2},
    {"leaky_relu", Unary::leaky_relu, 0.1},
    {"neg", Unary::neg, 0.1},
    {"reciprocal", Unary::reciprocal, 0.2},
    {"relu", Unary::relu, 0.1},
    {"round", Unary::round, 0.1},
    {"sigmoid", Unary::sigmoid, 0.6},
    {"sqrt", Unary::sqrt, 0.3},
    {"tanh", Unary::tanh, 1.0},
};

constexpr std::pair<std::string_view, Binary> kBinary[] = {{"add", Binary::add}, {"sub", Binary::sub}, {"mul", Binary::mul},
                                                           {"div", Binary::div}, {"min", Binary::min}, {"max", Binary::max}};
constexpr double kBinaryNanoseconds = 0.12;

bool is_f32(const ir::Node& node, std::size_t i) { return node.has_input(i) && node.inputs[i]->type.dtype == ir::DType::f32; }

/// The value of an f32 constant with one element.
std::optional<float> number(const ir::Value& value) {
  if (value.constant == nullptr || value.type.dtype != ir::DType::f32 || !(ir::element_count(value.type.shape) == ir::Dim(1)))
    return std::nullopt;
  float result;
  std::memcpy(&result, value.constant->data, sizeof result);
  return result;
}

/// x to the power of the exponent, where that is 2 or 3 and adds no axes.
std::optional<Unary> small_power(const ir::Node& node) {
  if (node.outputs[0]->type.shape != node.inputs[0]->type.shape) return std::nullopt;
  const std::optional<float> exponent = number(*node.inputs[1]);
  return exponent == 2.0f ? std::optional(Unary::square) : exponent == 3.0f ? std::optional(Unary::cube) : std::nullopt;
}

std::optional<ElementLoop> unary_loop(const ir::Node& node) {
  if (node.op->name == "gelu" && node.text("approximate") != "none") return std::nullopt;
  for (const UnaryRow& row : kUnary) {
    if (row.op != node.op->name) continue;
    const auto attribute = [&](std::string_view name) {
      return node.attributes.contains(name) ? static_cast<float>(node.number(name)) : 0.0f;
    };
    ElementLoop loop{1, static_cast<int>(row.unary), attribute("alpha"), attribute("beta"), row.nanoseconds};
    if (row.unary == Unary::clip) {
      const auto bound = [&](std::size_t i, float otherwise) {
        return node.has_input(i) ? number(*node.inputs[i]) : std::optional(otherwise);
      };
      const auto low = bound(1, -INFINITY), high = bound(2, INFINITY);
      if (!low || !high) return std::nullopt;
      loop.alpha = *low;
      loop.beta = *high;
    }
    return loop;
  }
  return std::nullopt;
}

class UnaryKernel final : public plan::Kernel {
 public:
  explicit UnaryKernel(const ElementLoop& loop) : loop_(loop) {}
  plan::Split split(const ir::Call& call) const override { return {chunks(call), kChunk * loop_.nanoseconds}; }
  void run(const ir::Call& call, std::int64_t begin, std::int64_t end, std::byte*) const noexcept override {
    const std::int64_t first = begin * kChunk, n = std::min(end * kChunk, call.out(0).elements()) - first;
    run_element_loop(loop_, call.in(0).as<float>() + first, 1, nullptr, 0, call.out(0).as<float>() + first, n);
  }
  const char* name() const override { return "unary f32"; }

 private:
  ElementLoop loop_;
};

/// Bounds that only the data tells.
constexpr KernelFunctions kClip{"clip f32", [](const ir::Call& call) { return plan::Split{chunks(call), 400}; },
                                [](const ir::Call& call, std::int64_t begin, std::int64_t end, std::byte*) noexcept {
                                  const float low = call.has(1) ? *call.in(1).as<float>() : -INFINITY;
                                  const float high = call.has(2) ? *call.in(2).as<float>() : INFINITY;
                                  const std::int64_t first = begin * kChunk, n = std::min(end * kChunk, call.out(0).elements()) - first;
                                  HWY_DYNAMIC_DISPATCH(ApplyUnary)
                                  (Unary::clip, low, high, call.in(0).as<float>() + first, call.out(0).as<float>() + first, n);
                                }};

class BinaryKernel final : public plan::Kernel {
 public:
  explicit BinaryKernel(const ElementLoop& loop) : loop_(loop) {}
  plan::Split split(const ir::Call& call) const override { return {chunks(call), kChunk * kBinaryNanoseconds}; }
  void run(const ir::Call& call, std::int64_t begin, std::int64_t end, std::byte*) const noexcept override {
    const ir::TensorView &a = call.in(0), &b = call.in(1), &y = call.out(0);
    const Loop<2> walk(y, {a, b});
    const auto [a_stride, b_stride] = walk.inner_strides();
    walk.runs(begin * kChunk, std::min(end * kChunk, y.elements()), [&](std::int64_t i, std::int64_t n, const auto& at) {
      run_element_loop(loop_, a.as<float>() + at[0], a_stride, b.as<float>() + at[1], b_stride, y.as<float>() + i, n);
    });
  }
  const char* name() const override { return "binary f32"; }

 private:
  ElementLoop loop_;
};

}  // namespace

std::optional<ElementLoop> element_loop(const ir::Node& node) {
  if (!is_f32(node, 0)) return std::nullopt;
  if (auto unary = unary_loop(node)) return unary;
  if (node.inputs.size() != 2 || !is_f32(node, 1)) return std::nullopt;
  if (node.op->name == "pow") {
    const auto power = small_power(node);
    return power ? std::optional(ElementLoop{1, static_cast<int>(*power)}) : std::nullopt;
  }
  for (const auto& [name, binary] : kBinary)
    if (name == node.op->name) return ElementLoop{2, static_cast<int>(binary), 0, 0, kBinaryNanoseconds};
  return std::nullopt;
}

bool has_element_loop(const ir::Node& node) { return element_loop(node).has_value(); }

void run_element_loop(const ElementLoop& loop, const float* a, std::int64_t a_stride, const float* b, std::int64_t b_stride, float* y,
                      std::int64_t n) {
  if (loop.operands == 2) {
    HWY_DYNAMIC_DISPATCH(ApplyBinary)(static_cast<Binary>(loop.function), a, a_stride, b, b_stride, y, n);
    return;
  }
  HWY_DYNAMIC_DISPATCH(ApplyUnary)(static_cast<Unary>(loop.function), loop.alpha, loop.beta, a, y,
                                   a_stride == 0 ? std::min<std::int64_t>(n, 1) : n);
  if (a_stride == 0) std::fill(y, y + n, n > 0 ? *y : 0);
}

std::unique_ptr<plan::Kernel> lower_unary(const ir::Node& node) {
  if (const auto loop = element_loop(node)) return std::make_unique<UnaryKernel>(*loop);
  const bool is_clip =
      node.op->name == "clip" && is_f32(node, 0) && (!node.has_input(1) || is_f32(node, 1)) && (!node.has_input(2) || is_f32(node, 2));
  return is_clip ? make_kernel(kClip) : nullptr;
}

std::unique_ptr<plan::Kernel> lower_binary(const ir::Node& node) {
  const auto loop = element_loop(node);
  if (!loop) return nullptr;
  return loop->operands == 2 ? std::unique_ptr<plan::Kernel>(std::make_unique<BinaryKernel>(*loop)) : std::make_unique<UnaryKernel>(*loop);
}

}  // namespace quern::cpu
#endif  // HWY_ONCE
