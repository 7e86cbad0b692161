// Arithmetic of two and more broadcast tensors. Canonical meaning: ONNX Add-14, Sub-14, Mul-14, Div-14, Pow-15, Mod-13, Min-13, Max-13,
// Sum-13, Mean-13, PRelu-16. Integers wrap around; division by zero gives 0 (ONNX leaves it open).
#include <cmath>
#include <limits>

#include "ops/detail/elementwise.h"
#include "ops/registry.h"

namespace quern::ops {
namespace {
using namespace detail;
using ir::Call;
using ir::Op;
using ir::Trait;

constexpr Trait kTraits = Trait::pure | Trait::elementwise | Trait::in_place;

template <class T>
constexpr bool is_whole = std::is_integral_v<T>;
using Wide = std::uint64_t;  // integers are computed modulo 2^64, which is right modulo any smaller power of two

struct Add {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (is_whole<T>)
      return static_cast<T>(Wide(a) + Wide(b));
    else
      return a + b;
  }
};
struct Sub {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (is_whole<T>)
      return static_cast<T>(Wide(a) - Wide(b));
    else
      return a - b;
  }
};
struct Mul {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (is_whole<T>)
      return static_cast<T>(Wide(a) * Wide(b));
    else
      return a * b;
  }
};
struct Div {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (is_whole<T>) {
      if (b == 0) return 0;
      if constexpr (std::is_signed_v<T>)
        if (b == -1) return static_cast<T>(0 - Wide(a));
      return static_cast<T>(a / b);
    } else {
      return a / b;
    }
  }
};
struct Min {
  template <class T>
  static T apply(T a, T b) {
    return a < b || a != a ? a : b;  // NaN wins
  }
};
struct Max {
  template <class T>
  static T apply(T a, T b) {
    return a > b || a != a ? a : b;
  }
};
/// The sign of the divisor, as Python's %.
struct FloorMod {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (is_whole<T>) {
      if (b == 0) return 0;
      if constexpr (std::is_signed_v<T>) {
        if (b == -1) return 0;
        const T r = static_cast<T>(a % b);
        return r != 0 && (r < 0) != (b < 0) ? static_cast<T>(r + b) : r;
      }
      return static_cast<T>(a % b);
    } else {
      const T r = std::fmod(a, b);
      return r != 0 && (r < 0) != (b < 0) ? r + b : r;
    }
  }
};
/// The sign of the dividend, as C's fmod.
struct TruncatedMod {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (is_whole<T>) {
      if (b == 0) return 0;
      if constexpr (std::is_signed_v<T>)
        if (b == -1) return 0;
      return static_cast<T>(a % b);
    } else {
      return std::fmod(a, b);
    }
  }
};

Element add_dims(const InferContext&, const Elements& e) { return *e[0] + *e[1]; }
Element sub_dims(const InferContext&, const Elements& e) { return *e[0] - *e[1]; }
Element mul_dims(const InferContext&, const Elements& e) { return *e[0] * *e[1]; }
Element div_dims(const InferContext&, const Elements& e) {
  const auto a = e[0]->constant(), b = e[1]->constant();
  if (b && *b == 0) return std::nullopt;
  if (a && b) return *b == -1 ? Dim(0) - *e[0] : Dim(*a / *b);
  if (e[0]->lower_bound().value_or(-1) < 0 || e[1]->lower_bound().value_or(-1) < 0) return std::nullopt;  // rounds to zero, not down
  return floor_div(*e[0], *e[1]);
}
Element mod_dims(const InferContext& c, const Elements& e) {
  const auto b = e[1]->constant();
  if (!b || *b <= 0) return std::nullopt;
  if (c.node().integer("fmod") != 0 && e[0]->lower_bound().value_or(-1) < 0) return std::nullopt;
  return remainder(*e[0], *e[1]);
}
template <Dim (*pick)(const Dim&, const Dim&)>
Element pick_dim(const InferContext&, const Elements& e) {
  Dim out = *e[0];
  for (const Dim* d : e) out = pick(out, *d);
  return out;
}

template <Element (*f)(const InferContext&, const Elements&)>
void infer_arithmetic(InferContext& c) {
  infer_binary<Numbers>(c);
  propagate(c, c.node().outputs[0]->type, f);
}

template <Element (*f)(const InferContext&, const Elements&)>
void infer_variadic(InferContext& c) {
  check_dtype<Numbers>(c, 0);
  Shape shape = c.shape(0);
  for (std::size_t i = 1; i < c.inputs(); ++i) {
    check_same_dtype(c, {0, i});
    shape = broadcast(c, shape, c.shape(i));
  }
  const Type type{c.dtype(0), std::move(shape)};
  c.set_output(0, type);
  propagate(c, type, f);
}

/// Each input in turn is folded into the output, which is written and read back.
template <class F>
void fold_inputs(const Call& call) {
  const TensorView& y = call.out(0);
  const Box box(y);
  dispatch(Numbers{}, y.dtype, [&]<class T>() {
    for (std::size_t k = 0; k < call.node->inputs.size(); ++k) {
      const TensorView& x = call.in(k);
      walk(box, std::array<Axes, 1>{broadcast_strides(x, box)}, [&](std::int64_t i, std::int64_t ix) {
        const auto v = load<T>(x.data, ix);
        store<T>(y.data, i, k == 0 ? v : F::apply(load<T>(y.data, i), v));
      });
    }
  });
}

void mean_reference(const Call& call) {
  fold_inputs<Add>(call);
  const TensorView& y = call.out(0);
  dispatch(Floats{}, y.dtype, [&]<class T>() {
    const auto count = static_cast<Compute<T>>(call.node->inputs.size());
    for (std::int64_t i = 0, n = y.elements(); i < n; ++i) store<T>(y.data, i, load<T>(y.data, i) / count);
  });
}

Element sum_dims(const InferContext&, const Elements& e) {
  Dim out = 0;
  for (const Dim* d : e) out = out + *d;
  return out;
}

void infer_mean(InferContext& c) {
  check_dtype<Floats>(c, 0);
  infer_variadic<sum_dims>(c);  // floats have no contents
}

struct Prelu {
  template <class T>
  static T apply(T x, T slope) {
    return x < 0 ? Mul::apply(x, slope) : x;
  }
};

void infer_prelu(InferContext& c) {
  check_dtype<Numbers>(c, 0);
  check_same_dtype(c, {0, 1});
  check_broadcasts_to(c, c.shape(1), c.shape(0), 1);
  infer_same(c);
}

/// Base and exponent may differ in type; the result has the base's. Whole powers of integers are exact modulo their width.
template <class T>
Compute<T> power(const TensorView& a, std::int64_t ia, const TensorView& b, std::int64_t ib) {
  const auto x = load<T>(a.data, ia);
  if constexpr (is_whole<Compute<T>>) {
    if (!ir::is_float(b.dtype)) {
      std::int64_t n = integer_at(b, ib);
      if (n < 0) {
        if (x == 1) return 1;
        if constexpr (std::is_signed_v<T>)
          if (x == -1) return static_cast<T>(n % 2 ? -1 : 1);
        return 0;
      }
      Wide result = 1, square = Wide(x);
      for (; n > 0; n >>= 1, square *= square)
        if (n & 1) result *= square;
      return static_cast<T>(result);
    }
    const double v = std::pow(double(x), number_at(b, ib));
    const double low = double(std::numeric_limits<T>::min()), high = double(std::numeric_limits<T>::max());
    return v != v ? T(0) : v <= low ? std::numeric_limits<T>::min() : v >= high ? std::numeric_limits<T>::max() : static_cast<T>(v);
  } else {
    return static_cast<Compute<T>>(std::pow(double(x), number_at(b, ib)));
  }
}

void pow_reference(const Call& call) {
  const TensorView &a = call.in(0), &b = call.in(1), &y = call.out(0);
  const Box box(y);
  dispatch(Numbers{}, a.dtype, [&]<class T>() {
    walk(box, std::array{broadcast_strides(a, box), broadcast_strides(b, box)},
         [&](std::int64_t i, std::int64_t ia, std::int64_t ib) { store<T>(y.data, i, power<T>(a, ia, b, ib)); });
  });
}

void infer_pow(InferContext& c) {
  check_dtype<Numbers>(c, 0);
  check_dtype<Numbers>(c, 1);
  c.set_output(0, Type{c.dtype(0), broadcast(c, c.shape(0), c.shape(1))});
}

void mod_reference(const Call& call) {
  if (call.node->integer("fmod") != 0)
    binary<Numbers, TruncatedMod>(call);
  else
    binary<Numbers, FloorMod>(call);
}

}  // namespace

const Op add{.name = "add",
             .min_inputs = 2,
             .max_inputs = 2,
             .infer = infer_arithmetic<add_dims>,
             .reference = binary<Numbers, Add>,
             .traits = kTraits};
const Op sub{.name = "sub",
             .min_inputs = 2,
             .max_inputs = 2,
             .infer = infer_arithmetic<sub_dims>,
             .reference = binary<Numbers, Sub>,
             .traits = kTraits};
const Op mul{.name = "mul",
             .min_inputs = 2,
             .max_inputs = 2,
             .infer = infer_arithmetic<mul_dims>,
             .reference = binary<Numbers, Mul>,
             .traits = kTraits};
const Op div{.name = "div",
             .min_inputs = 2,
             .max_inputs = 2,
             .infer = infer_arithmetic<div_dims>,
             .reference = binary<Numbers, Div>,
             .traits = kTraits};
const Op pow{.name = "pow", .min_inputs = 2, .max_inputs = 2, .infer = infer_pow, .reference = pow_reference, .traits = kTraits};
const Op mod{.name = "mod",
             .min_inputs = 2,
             .max_inputs = 2,
             .attributes = {{"fmod", 0}},
             .infer = infer_arithmetic<mod_dims>,
             .reference = mod_reference,
             .traits = kTraits};
const Op min{.name = "min",
             .max_inputs = Op::kVariadic,
             .infer = infer_variadic<pick_dim<smaller>>,
             .reference = fold_inputs<Min>,
             .traits = Trait::pure | Trait::elementwise};
const Op max{.name = "max",
             .max_inputs = Op::kVariadic,
             .infer = infer_variadic<pick_dim<larger>>,
             .reference = fold_inputs<Max>,
             .traits = Trait::pure | Trait::elementwise};

const Op sum{.name = "sum",
             .max_inputs = Op::kVariadic,
             .infer = infer_variadic<sum_dims>,
             .reference = fold_inputs<Add>,
             .traits = Trait::pure | Trait::elementwise};
const Op mean{.name = "mean",
              .max_inputs = Op::kVariadic,
              .infer = infer_mean,
              .reference = mean_reference,
              .traits = Trait::pure | Trait::elementwise};
const Op prelu{
    .name = "prelu", .min_inputs = 2, .max_inputs = 2, .infer = infer_prelu, .reference = binary<Numbers, Prelu>, .traits = kTraits};

}  // namespace quern::ops
