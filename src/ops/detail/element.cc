#include "ops/detail/element.h"

namespace quern::ops::detail {

std::int64_t integer_at(const TensorView& view, std::int64_t i) {
  std::int64_t out = 0;
  dispatch(decltype(Integers{} + Types<bool>{}){}, view.dtype, [&]<class T>() { out = static_cast<std::int64_t>(load<T>(view.data, i)); });
  return out;
}

double number_at(const TensorView& view, std::int64_t i) {
  double out = 0;
  dispatch(Plain{}, view.dtype, [&]<class T>() { out = static_cast<double>(load<T>(view.data, i)); });
  return out;
}

}  // namespace quern::ops::detail
