// Changes of element type. Canonical meaning: ONNX Cast-21, CastLike-21 without the 8-bit floats.
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

/// A float to an integer rounds toward zero; what does not fit goes to the nearest integer that does, NaN to 0 (ONNX leaves both open).
template <class To, class From>
To whole(From v) {
  if (std::isnan(v)) return 0;
  if (v <= From(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
  if (v >= From(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
  return static_cast<To>(v);
}

template <class From, class To>
void convert(const TensorView& x, const TensorView& y) {
  for (std::int64_t i = 0, n = y.elements(); i < n; ++i) {
    const Compute<From> v = load<From>(x.data, i);
    if constexpr (std::is_same_v<To, bool>)
      store<bool>(y.data, i, v != Compute<From>(0));
    else if constexpr (std::is_floating_point_v<Compute<From>> && std::is_integral_v<To>)
      store<To>(y.data, i, whole<To>(v));
    else
      store<To>(y.data, i, v);
  }
}

void cast_reference(const Call& call) {
  const TensorView &x = call.in(0), &y = call.out(0);
  dispatch(Plain{}, x.dtype, [&]<class From>() { dispatch(Plain{}, y.dtype, [&]<class To>() { convert<From, To>(x, y); }); });
}

void infer_to(InferContext& c, DType to) {
  check_dtype<Plain>(c, 0);
  if (!contains(Plain{}, to)) c.fail("cannot make " + std::string(ir::name(to)));
  c.set_output(0, Type{to, c.shape(0)});
  if (to == DType::i64 || to == c.dtype(0) || (to == DType::i32 && c.dtype(0) == DType::boolean)) {
    keep_contents(c);
  } else if (to == DType::i32) {
    // Sizes that are not yet known are taken to fit in 32 bits; the arithmetic of shapes in files does the same.
    propagate(c, c.node().outputs[0]->type, [](const InferContext&, const Elements& e) -> Element {
      const auto v = e[0]->constant();
      return !v || *v == static_cast<std::int32_t>(*v) ? Element(*e[0]) : std::nullopt;
    });
  }
}

}  // namespace

const Op cast{
    .name = "cast",
    .attributes = {{"to", {}}, {"saturate", 1}},  // `saturate` speaks of 8-bit floats only
    .infer = [](InferContext& c) { infer_to(c, c.node().dtype("to")); },
    .reference = cast_reference,
    .traits = Trait::pure | Trait::elementwise,
};
const Op cast_like{
    .name = "cast_like",
    .min_inputs = 2,
    .max_inputs = 2,
    .attributes = {{"saturate", 1}},
    .infer = [](InferContext& c) { infer_to(c, c.dtype(1)); },
    .reference = cast_reference,
    .traits = Trait::pure,
};

}  // namespace quern::ops
