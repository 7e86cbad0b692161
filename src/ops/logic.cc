// Comparisons, logic and choice. Canonical meaning: ONNX Equal-19, Less-13, …, And-7, Or-7, Xor-7, Where-16, IsNaN-20, IsInf-20.
#include <cmath>

#include "ops/detail/elementwise.h"
#include "ops/registry.h"

namespace quern::ops {
namespace {
using namespace detail;
using ir::Call;
using ir::Op;
using ir::Trait;

constexpr Trait kTraits = Trait::pure | Trait::elementwise;

#define QUERN_RELATION(Name, sign) \
  struct Name {                    \
    template <class T>             \
    static bool apply(T a, T b) {  \
      return a sign b;             \
    }                              \
  };
QUERN_RELATION(Equal, ==)
QUERN_RELATION(Less, <)
QUERN_RELATION(LessOrEqual, <=)
QUERN_RELATION(Greater, >)
QUERN_RELATION(GreaterOrEqual, >=)
QUERN_RELATION(And, &&)
QUERN_RELATION(Or, ||)
QUERN_RELATION(Xor, !=)
#undef QUERN_RELATION

using Booleans = Types<bool>;

/// A truth value known at compile time, as contents.
Element truth(bool yes) { return Dim(yes ? 1 : 0); }

Element equal_dims(const InferContext&, const Elements& e) {
  const Dim difference = *e[0] - *e[1];
  if (const auto value = difference.constant()) return truth(*value == 0);
  if (difference.lower_bound().value_or(0) > 0 || difference.upper_bound().value_or(0) < 0) return truth(false);
  return std::nullopt;
}
/// Whether a - b < bound, when it is the same for all values of the symbols.
Element below(const Dim& a, const Dim& b, std::int64_t bound) {
  const Dim difference = a - b;
  const auto low = difference.lower_bound(), high = difference.upper_bound();
  if (high && *high < bound) return truth(true);
  if (low && *low >= bound) return truth(false);
  return std::nullopt;
}
Element less_dims(const InferContext&, const Elements& e) { return below(*e[0], *e[1], 0); }
Element less_or_equal_dims(const InferContext&, const Elements& e) { return below(*e[0], *e[1], 1); }
Element greater_dims(const InferContext&, const Elements& e) { return below(*e[1], *e[0], 0); }
Element greater_or_equal_dims(const InferContext&, const Elements& e) { return below(*e[1], *e[0], 1); }
Element and_dims(const InferContext&, const Elements& e) { return *e[0] * *e[1]; }
Element or_dims(const InferContext&, const Elements& e) { return larger(*e[0], *e[1]); }
Element xor_dims(const InferContext&, const Elements& e) { return *e[0] + *e[1] - Dim(2) * *e[0] * *e[1]; }

template <class List, Element (*f)(const InferContext&, const Elements&)>
void infer_relation(InferContext& c) {
  check_dtype<List>(c, 0);
  check_same_dtype(c, {0, 1});
  const Type type{DType::boolean, broadcast(c, c.shape(0), c.shape(1))};
  c.set_output(0, type);
  propagate(c, type, f);
}

template <class List, class F, Element (*f)(const InferContext&, const Elements&)>
Op relation(std::string_view name) {
  return Op{.name = name,
            .min_inputs = 2,
            .max_inputs = 2,
            .infer = infer_relation<List, f>,
            .reference = binary<List, F, bool>,
            .traits = kTraits};
}

void infer_where(InferContext& c) {
  check_dtype<Booleans>(c, 0);
  check_dtype<Plain>(c, 1);
  check_same_dtype(c, {1, 2});
  const Type type{c.dtype(1), broadcast(c, broadcast(c, c.shape(0), c.shape(1)), c.shape(2))};
  c.set_output(0, type);
  propagate(c, type, [](const InferContext&, const Elements& e) -> Element {
    if (const auto condition = e[0]->constant()) return *condition != 0 ? *e[1] : *e[2];
    return *e[1] == *e[2] ? Element(*e[1]) : std::nullopt;
  });
}

void where_reference(const Call& call) {
  const TensorView &condition = call.in(0), &a = call.in(1), &b = call.in(2), &y = call.out(0);
  const Box box(y);
  const std::int64_t size = element_bytes(y);
  walk(box, std::array{broadcast_strides(condition, box), broadcast_strides(a, box), broadcast_strides(b, box)},
       [&](std::int64_t i, std::int64_t ic, std::int64_t ia, std::int64_t ib) {
         const bool first = load<bool>(condition.data, ic);
         copy_element(y.data, i, first ? a.data : b.data, first ? ia : ib, size);
       });
}

void infer_test(InferContext& c) {
  check_dtype<Floats>(c, 0);
  c.set_output(0, Type{DType::boolean, c.shape(0)});
}

void isnan_reference(const Call& call) {
  const TensorView& x = call.in(0);
  dispatch(Floats{}, x.dtype, [&]<class T>() {
    for (std::int64_t i = 0, n = x.elements(); i < n; ++i) store<bool>(call.out(0).data, i, std::isnan(load<T>(x.data, i)));
  });
}

void isinf_reference(const Call& call) {
  const TensorView& x = call.in(0);
  const bool negative = call.node->integer("detect_negative") != 0, positive = call.node->integer("detect_positive") != 0;
  dispatch(Floats{}, x.dtype, [&]<class T>() {
    for (std::int64_t i = 0, n = x.elements(); i < n; ++i) {
      const auto v = load<T>(x.data, i);
      store<bool>(call.out(0).data, i, std::isinf(v) && (v > 0 ? positive : negative));
    }
  });
}

}  // namespace

const Op equal = relation<Plain, Equal, equal_dims>("equal");
const Op less = relation<Numbers, Less, less_dims>("less");
const Op less_or_equal = relation<Numbers, LessOrEqual, less_or_equal_dims>("less_or_equal");
const Op greater = relation<Numbers, Greater, greater_dims>("greater");
const Op greater_or_equal = relation<Numbers, GreaterOrEqual, greater_or_equal_dims>("greater_or_equal");
const Op and_ = relation<Booleans, And, and_dims>("and");
const Op or_ = relation<Booleans, Or, or_dims>("or");
const Op xor_ = relation<Booleans, Xor, xor_dims>("xor");
const Op where{.name = "where", .min_inputs = 3, .max_inputs = 3, .infer = infer_where, .reference = where_reference, .traits = kTraits};
const Op isnan{.name = "isnan", .infer = infer_test, .reference = isnan_reference, .traits = kTraits};
const Op isinf{.name = "isinf",
               .attributes = {{"detect_negative", 1}, {"detect_positive", 1}},
               .infer = infer_test,
               .reference = isinf_reference,
               .traits = kTraits};

}  // namespace quern::ops
