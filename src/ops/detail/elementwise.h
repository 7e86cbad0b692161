#pragma once

#include "ir/op.h"
#include "ops/detail/element.h"
#include "ops/detail/infer.h"
#include "ops/detail/walk.h"

namespace quern::ops::detail {

/// y[i] = F::apply(x[i]), computed in the element's own type (16-bit floats: in f32).
template <class List, class F>
void unary(const ir::Call& call) {
  const TensorView &x = call.in(0), &y = call.out(0);
  dispatch(List{}, x.dtype, [&]<class T>() {
    for (std::int64_t i = 0, n = y.elements(); i < n; ++i) store<T>(y.data, i, F::apply(load<T>(x.data, i)));
  });
}

/// y[i] = F::apply(a[i], b[i]) with broadcasting; Out is the element type of y, or void for that of the inputs.
template <class List, class F, class Out = void>
void binary(const ir::Call& call) {
  const TensorView &a = call.in(0), &b = call.in(1), &y = call.out(0);
  const Box box(y);
  const std::array strides{broadcast_strides(a, box), broadcast_strides(b, box)};
  dispatch(List{}, a.dtype, [&]<class T>() {
    using To = std::conditional_t<std::is_void_v<Out>, T, Out>;
    walk(box, strides, [&](std::int64_t i, std::int64_t ia, std::int64_t ib) {
      store<To>(y.data, i, F::apply(load<T>(a.data, ia), load<T>(b.data, ib)));
    });
  });
}

/// Inference of two broadcast inputs of one element type, which is also the output's.
template <class List>
void infer_binary(InferContext& c) {
  check_dtype<List>(c, 0);
  check_same_dtype(c, {0, 1});
  c.set_output(0, Type{c.dtype(0), broadcast(c, c.shape(0), c.shape(1))});
}

using Elements = std::vector<const Dim*>;

}  // namespace quern::ops::detail
