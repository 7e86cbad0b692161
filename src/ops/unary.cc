// Functions of one element. Canonical meaning: the ONNX operators of these names, newest opset ≤ 21.
#include <cmath>

#include "ops/detail/elementwise.h"
#include "ops/registry.h"

namespace quern::ops {
namespace {
using namespace detail;
using ir::Call;
using ir::Op;
using ir::Trait;

constexpr Trait kTraits = Trait::pure | Trait::elementwise | Trait::in_place;

#define QUERN_FUNCTION(Name, expression) \
  struct Name {                          \
    template <class T>                   \
    static T apply(T x) {                \
      return expression;                 \
    }                                    \
  };
QUERN_FUNCTION(Sqrt, std::sqrt(x))
QUERN_FUNCTION(Erf, std::erf(x))
QUERN_FUNCTION(Exp, std::exp(x))
QUERN_FUNCTION(Log, std::log(x))
QUERN_FUNCTION(Tanh, std::tanh(x))
QUERN_FUNCTION(Sigmoid, T(1) / (T(1) + std::exp(-x)))
QUERN_FUNCTION(Floor, std::floor(x))
QUERN_FUNCTION(Ceil, std::ceil(x))
QUERN_FUNCTION(Round, std::nearbyint(x))  // to nearest, ties to even
QUERN_FUNCTION(Sin, std::sin(x))
QUERN_FUNCTION(Cos, std::cos(x))
QUERN_FUNCTION(Tan, std::tan(x))
QUERN_FUNCTION(Asin, std::asin(x))
QUERN_FUNCTION(Acos, std::acos(x))
QUERN_FUNCTION(Atan, std::atan(x))
QUERN_FUNCTION(Sinh, std::sinh(x))
QUERN_FUNCTION(Cosh, std::cosh(x))
QUERN_FUNCTION(Asinh, std::asinh(x))
QUERN_FUNCTION(Acosh, std::acosh(x))
QUERN_FUNCTION(Atanh, std::atanh(x))
QUERN_FUNCTION(Reciprocal, T(1) / x)
QUERN_FUNCTION(Softplus, x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)))
QUERN_FUNCTION(Softsign, x / (T(1) + std::abs(x)))
QUERN_FUNCTION(Mish, x* std::tanh(std::log1p(std::exp(-std::abs(x))) + (x > 0 ? x : T(0))))
QUERN_FUNCTION(HardSwish, x*(x <= -3 ? T(0) : x >= 3 ? T(1) : x / T(6) + T(0.5)))
QUERN_FUNCTION(Relu, x < 0 ? T(0) : x)               // NaN stays
QUERN_FUNCTION(Sign, T(x > 0 ? 1 : x < 0 ? -1 : x))  // NaN stays
QUERN_FUNCTION(Not, !x)
#undef QUERN_FUNCTION

struct Neg {
  template <class T>
  static T apply(T x) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(0 - std::uint64_t(x));
    else
      return -x;
  }
};
struct Abs {
  template <class T>
  static T apply(T x) {
    if constexpr (std::is_unsigned_v<T>)
      return x;
    else if constexpr (std::is_integral_v<T>)
      return x < 0 ? Neg::apply(x) : x;
    else
      return std::abs(x);
  }
};

using Booleans = Types<bool>;

template <class List, class F>
Op function(std::string_view name, void (*infer)(InferContext&) = infer_same_of<List>) {
  return Op{.name = name, .infer = infer, .reference = unary<List, F>, .traits = kTraits};
}

/// A function with numbers as attributes: `f(node)` gives the function of one element.
template <auto f>
void parametric(const Call& call) {
  const TensorView &x = call.in(0), &y = call.out(0);
  dispatch(Floats{}, x.dtype, [&]<class T>() {
    using C = Compute<T>;
    const auto apply = f.template operator()<C>(*call.node);
    for (std::int64_t i = 0, n = y.elements(); i < n; ++i) store<T>(y.data, i, static_cast<C>(apply(load<T>(x.data, i))));
  });
}

constexpr auto leaky_relu_of = []<class T>(const ir::Node& n) {
  return [alpha = T(n.number("alpha"))](T x) { return x < 0 ? alpha * x : x; };
};
constexpr auto elu_of = []<class T>(const ir::Node& n) {
  return [alpha = T(n.number("alpha"))](T x) { return x < 0 ? alpha * std::expm1(x) : x; };
};
constexpr auto selu_of = []<class T>(const ir::Node& n) {
  return [alpha = T(n.number("alpha")), gamma = T(n.number("gamma"))](T x) { return gamma * (x > 0 ? x : alpha * std::expm1(x)); };
};
constexpr auto celu_of = []<class T>(const ir::Node& n) {
  return [alpha = T(n.number("alpha"))](T x) { return x > 0 ? x : alpha * std::expm1(x / alpha); };
};
constexpr auto hard_sigmoid_of = []<class T>(const ir::Node& n) {
  return [alpha = T(n.number("alpha")), beta = T(n.number("beta"))](T x) {
    const T v = alpha * x + beta;
    return v < 0 ? T(0) : v > 1 ? T(1) : v;
  };
};
constexpr auto thresholded_relu_of = []<class T>(const ir::Node& n) {
  return [alpha = T(n.number("alpha"))](T x) { return x > alpha ? x : T(0); };
};
constexpr auto gelu_of = []<class T>(const ir::Node& n) {
  return [tanh = n.text("approximate") == "tanh"](T v) {
    const double x = v;
    if (tanh) return static_cast<T>(0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))));  // sqrt(2 / pi)
    return static_cast<T>(0.5 * x * (1 + std::erf(x * 0.7071067811865476)));                                      // 1 / sqrt(2)
  };
};

void infer_gelu(InferContext& c) {
  infer_same_of<Floats>(c);
  const std::string& how = c.node().text("approximate");
  if (how != "none" && how != "tanh") c.fail("approximate is '" + how + "' where none or tanh is wanted");
}

template <auto f>
Op function_of(std::string_view name, std::vector<ir::AttributeSpec> attributes, void (*infer)(InferContext&) = infer_same_of<Floats>) {
  return Op{.name = name, .attributes = std::move(attributes), .infer = infer, .reference = parametric<f>, .traits = kTraits};
}

template <Element (*f)(const InferContext&, const Elements&)>
void infer_known(InferContext& c) {
  infer_same_of<Numbers>(c);
  propagate(c, c.node().outputs[0]->type, f);
}
Element neg_dim(const InferContext&, const Elements& e) { return Dim(0) - *e[0]; }
Element abs_dim(const InferContext&, const Elements& e) { return larger(*e[0], Dim(0) - *e[0]); }
Element relu_dim(const InferContext&, const Elements& e) { return larger(*e[0], 0); }

void infer_not(InferContext& c) {
  infer_same_of<Booleans>(c);
  propagate(c, c.node().outputs[0]->type, [](const InferContext&, const Elements& e) -> Element { return Dim(1) - *e[0]; });
}

/// clip(x, low, high): both bounds are optional scalars of x's type. When low > high the result is high.
void clip_reference(const Call& call) {
  const TensorView &x = call.in(0), &y = call.out(0);
  dispatch(Numbers{}, x.dtype, [&]<class T>() {
    for (std::int64_t i = 0, n = y.elements(); i < n; ++i) {
      auto v = load<T>(x.data, i);
      if (call.has(1)) v = std::max(v, load<T>(call.in(1).data, 0));  // std::max and std::min keep a NaN that comes first
      if (call.has(2)) v = std::min(v, load<T>(call.in(2).data, 0));
      store<T>(y.data, i, v);
    }
  });
}

void infer_clip(InferContext& c) {
  infer_same_of<Numbers>(c);
  check_same_dtype(c, {0, 1, 2});
  for (const std::size_t i : {1u, 2u})
    if (c.has(i) && known_count(c, i) != 1) c.fail("input " + std::to_string(i) + " must be a scalar");
  if (!may_have_contents(c.node().outputs[0]->type) || c.contents(0) == nullptr) return;
  if ((c.has(1) && c.contents(1) == nullptr) || (c.has(2) && c.contents(2) == nullptr)) return;
  std::vector<Dim> out;
  for (Dim d : *c.contents(0)) {
    if (c.has(1)) d = larger(d, c.contents(1)->at(0));
    if (c.has(2)) d = smaller(d, c.contents(2)->at(0));
    out.push_back(std::move(d));
  }
  c.set_contents(0, std::move(out));
}

}  // namespace

const Op sqrt = function<Floats, Sqrt>("sqrt");
const Op erf = function<Floats, Erf>("erf");
const Op exp = function<Floats, Exp>("exp");
const Op log = function<Floats, Log>("log");
const Op tanh = function<Floats, Tanh>("tanh");
const Op sigmoid = function<Floats, Sigmoid>("sigmoid");
const Op floor = function<Floats, Floor>("floor");
const Op ceil = function<Floats, Ceil>("ceil");
const Op round = function<Floats, Round>("round");
const Op sin = function<Floats, Sin>("sin");
const Op cos = function<Floats, Cos>("cos");
const Op tan = function<Floats, Tan>("tan");
const Op asin = function<Floats, Asin>("asin");
const Op acos = function<Floats, Acos>("acos");
const Op atan = function<Floats, Atan>("atan");
const Op sinh = function<Floats, Sinh>("sinh");
const Op cosh = function<Floats, Cosh>("cosh");
const Op asinh = function<Floats, Asinh>("asinh");
const Op acosh = function<Floats, Acosh>("acosh");
const Op atanh = function<Floats, Atanh>("atanh");
const Op reciprocal = function<Floats, Reciprocal>("reciprocal");
const Op softplus = function<Floats, Softplus>("softplus");
const Op softsign = function<Floats, Softsign>("softsign");
const Op mish = function<Floats, Mish>("mish");
const Op hard_swish = function<Floats, HardSwish>("hard_swish");
const Op sign = function<Numbers, Sign>("sign");
const Op neg = function<Numbers, Neg>("neg", infer_known<neg_dim>);
const Op abs = function<Numbers, Abs>("abs", infer_known<abs_dim>);
const Op relu = function<Numbers, Relu>("relu", infer_known<relu_dim>);
const Op not_ = function<Booleans, Not>("not", infer_not);

const Op leaky_relu = function_of<leaky_relu_of>("leaky_relu", {{"alpha", 0.01}});
const Op elu = function_of<elu_of>("elu", {{"alpha", 1.0}});
const Op selu = function_of<selu_of>("selu", {{"alpha", 1.67326319217681884765625}, {"gamma", 1.05070102214813232421875}});
const Op celu = function_of<celu_of>("celu", {{"alpha", 1.0}});
const Op hard_sigmoid = function_of<hard_sigmoid_of>("hard_sigmoid", {{"alpha", 0.2}, {"beta", 0.5}});
const Op thresholded_relu = function_of<thresholded_relu_of>("thresholded_relu", {{"alpha", 1.0}});
const Op gelu = function_of<gelu_of>("gelu", {{"approximate", "none"}}, infer_gelu);

const Op clip{.name = "clip", .max_inputs = 3, .infer = infer_clip, .reference = clip_reference, .traits = Trait::pure | Trait::in_place};

}  // namespace quern::ops
