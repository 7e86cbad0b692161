// Choosing the largest. Canonical meaning: ONNX TopK-11. NaN counts as larger than any number; of equal elements the first comes first.
#include "ops/detail/elementwise.h"
#include "ops/registry.h"

namespace quern::ops {
namespace {
using namespace detail;
using ir::Call;
using ir::Op;

void infer_top_k(InferContext& c) {
  check_dtype<Numbers>(c, 0);
  const auto axis = static_cast<std::size_t>(c.axis(c.node().integer("axis"), c.rank(0)));
  const auto& k = c.required_contents(1);
  if (k.size() != 1) c.fail("input 1 must be one number");
  Shape shape = c.shape(0);
  if ((shape[axis] - k[0]).upper_bound().value_or(0) < 0) c.fail("cannot take " + k[0].to_string() + " of " + shape[axis].to_string());
  shape[axis] = k[0];
  c.set_output(0, Type{c.dtype(0), shape});
  c.set_output(1, Type{DType::i64, std::move(shape)});
}

/// Whether element a at index i comes before element b at index j.
template <class T>
bool before(T a, std::int64_t i, T b, std::int64_t j, bool largest) {
  const bool a_nan = a != a, b_nan = b != b;
  if (a_nan != b_nan) return a_nan == largest;
  if (a_nan || a == b) return i < j;
  return largest ? a > b : a < b;
}

void top_k_reference(const Call& call) {
  const TensorView &x = call.in(0), &values = call.out(0), &indices = call.out(1);
  const bool largest = call.node->integer("largest") != 0;
  const Split3 s = split_at(x, call.node->integer("axis"));
  const std::int64_t k = std::min(s.size, split_at(values, call.node->integer("axis")).size);
  dispatch(Numbers{}, x.dtype, [&]<class T>() {
    for (std::int64_t o = 0; o < s.outer; ++o)
      for (std::int64_t i = 0; i < s.inner; ++i) {
        const auto value = [&](std::int64_t j) { return load<T>(x.data, (o * s.size + j) * s.inner + i); };
        std::int64_t last = -1;  // the element chosen before: the next is the first of those after it
        for (std::int64_t rank = 0; rank < k; ++rank) {
          std::int64_t best = -1;
          for (std::int64_t j = 0; j < s.size; ++j) {
            if (last >= 0 && !before(value(last), last, value(j), j, largest)) continue;
            if (best < 0 || before(value(j), j, value(best), best, largest)) best = j;
          }
          const std::int64_t to = (o * k + rank) * s.inner + i;
          store<T>(values.data, to, value(best));
          store<std::int64_t>(indices.data, to, best);
          last = best;
        }
      }
  });
}

}  // namespace

/// `sorted` 0 allows any order; this one is always sorted.
const Op top_k{.name = "top_k",
               .min_inputs = 2,
               .max_inputs = 2,
               .outputs = 2,
               .attributes = {{"axis", -1}, {"largest", 1}, {"sorted", 1}},
               .infer = infer_top_k,
               .reference = top_k_reference};

}  // namespace quern::ops
