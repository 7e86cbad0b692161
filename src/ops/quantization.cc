// Linear quantisation. Canonical meaning: ONNX QuantizeLinear-21, DequantizeLinear-21, DynamicQuantizeLinear-11, without 4-bit and
// 8-bit-float types.
#include <cmath>
#include <limits>

#include "ops/detail/elementwise.h"
#include "ops/registry.h"

namespace quern::ops {
namespace {
using namespace detail;
using ir::Call;
using ir::Op;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

using Quantized = Types<std::int8_t, std::int16_t, std::uint8_t, std::uint16_t>;
using Dequantizable = decltype(Quantized{} + Types<std::int32_t>{});
using Scales = Types<Half, Bfloat, float>;

/// One scale for all, one for each index of `axis`, or (block_size > 0) one for each run of block_size along it. The zero point has its
/// shape.
void check_scale(const InferContext& c) {
  check_dtype<Scales>(c, 1);
  const std::int64_t block = c.node().integer("block_size");
  if (block < 0) c.fail("block_size is " + std::to_string(block));
  if (c.has(2)) {
    check_rank(c, 2, c.rank(1), c.rank(1));
    for (std::size_t i = 0; i < c.shape(1).size(); ++i) same_size(c, c.shape(1)[i], c.shape(2)[i]);
  }
  if (block == 0 && known_count(c, 1) == 1) return;
  const std::int64_t axis = c.axis(c.node().integer("axis"), c.rank(0));
  if (block == 0) {
    check_rank(c, 1, 1, 1);
    same_size(c, c.shape(1)[0], c.shape(0)[at(axis)]);
    return;
  }
  check_rank(c, 1, c.rank(0), c.rank(0));
  for (std::int64_t i = 0; i < c.rank(0); ++i)
    same_size(c, c.shape(1)[at(i)], i == axis ? ceil_div(c.shape(0)[at(i)], block) : c.shape(0)[at(i)]);
}

/// Which scale element i of x has.
struct ScaleIndex {
  Split3 x;
  std::int64_t block = 0, scales = 1;

  explicit ScaleIndex(const Call& call) : block(call.node->integer("block_size")), scales(call.in(1).elements()) {
    if (scales != 1 || block > 0) x = split_at(call.in(0), call.node->integer("axis"));
  }
  std::int64_t operator()(std::int64_t i) const {
    if (scales == 1) return 0;
    const std::int64_t k = i / x.inner % x.size;
    if (block == 0) return k;
    return (i / x.inner / x.size * ((x.size + block - 1) / block) + k / block) * x.inner + i % x.inner;
  }
};

void infer_dequantize(InferContext& c) {
  check_dtype<Dequantizable>(c, 0);
  check_scale(c);
  check_same_dtype(c, {0, 2});
  c.set_output(0, Type{c.dtype(1), c.shape(0)});
}

void dequantize_reference(const Call& call) {
  const TensorView &x = call.in(0), &y = call.out(0);
  const ScaleIndex scale_of(call);
  dispatch(Dequantizable{}, x.dtype, [&]<class Q>() {
    dispatch(Scales{}, y.dtype, [&]<class T>() {
      for (std::int64_t i = 0, n = y.elements(); i < n; ++i) {
        const std::int64_t s = scale_of(i), zero = call.has(2) ? load<Q>(call.in(2).data, s) : 0;
        store<T>(y.data, i, static_cast<float>(load<Q>(x.data, i) - zero) * load<T>(call.in(1).data, s));
      }
    });
  });
}

void infer_quantize(InferContext& c) {
  check_dtype<decltype(Scales{} + Types<std::int32_t>{})>(c, 0);
  check_scale(c);
  const DType to = c.has(2) ? c.dtype(2) : c.node().dtype("output_dtype");
  if (!contains(Quantized{}, to)) c.fail("cannot quantize to " + std::string(ir::name(to)));
  c.set_output(0, Type{to, c.shape(0)});
}

/// round(x / scale) + zero, ties to even, brought into the range of Q.
template <class Q>
Q quantized(float x, float scale, std::int64_t zero) {
  const double v = double(std::nearbyint(x / scale)) + double(zero);
  if (!(v > double(std::numeric_limits<Q>::min()))) return std::numeric_limits<Q>::min();
  return v >= double(std::numeric_limits<Q>::max()) ? std::numeric_limits<Q>::max() : static_cast<Q>(v);
}

void quantize_reference(const Call& call) {
  const TensorView &x = call.in(0), &y = call.out(0);
  const ScaleIndex scale_of(call);
  dispatch(decltype(Scales{} + Types<std::int32_t>{}){}, x.dtype, [&]<class T>() {
    dispatch(Quantized{}, y.dtype, [&]<class Q>() {
      for (std::int64_t i = 0, n = y.elements(); i < n; ++i) {
        const std::int64_t s = scale_of(i);
        const auto scale = static_cast<float>(number_at(call.in(1), s));
        store<Q>(y.data, i, quantized<Q>(static_cast<float>(load<T>(x.data, i)), scale, call.has(2) ? load<Q>(call.in(2).data, s) : 0));
      }
    });
  });
}

void infer_dynamic(InferContext& c) {
  check_dtype<Types<float>>(c, 0);
  c.set_output(0, Type{DType::u8, c.shape(0)});
  c.set_output(1, Type{DType::f32, {}});
  c.set_output(2, Type{DType::u8, {}});
}

/// The range of x with 0 in it becomes [0, 255].
void dynamic_reference(const Call& call) {
  const TensorView& x = call.in(0);
  const std::int64_t n = x.elements();
  float low = 0, high = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    low = std::min(low, load<float>(x.data, i));
    high = std::max(high, load<float>(x.data, i));
  }
  const float scale = high == low ? 1.0f : (high - low) / 255.0f;  // all zeros: any scale will do
  const std::uint8_t zero = quantized<std::uint8_t>(-low, scale, 0);
  store<float>(call.out(1).data, 0, scale);
  store<std::uint8_t>(call.out(2).data, 0, zero);
  for (std::int64_t i = 0; i < n; ++i)
    store<std::uint8_t>(call.out(0).data, i, quantized<std::uint8_t>(load<float>(x.data, i), scale, zero));
}

}  // namespace

const Op dequantize_linear{.name = "dequantize_linear",
                           .min_inputs = 2,
                           .max_inputs = 3,
                           .attributes = {{"axis", 1}, {"block_size", 0}},
                           .infer = infer_dequantize,
                           .reference = dequantize_reference};
const Op quantize_linear{.name = "quantize_linear",
                         .min_inputs = 2,
                         .max_inputs = 3,
                         .attributes = {{"axis", 1}, {"block_size", 0}, {"output_dtype", DType::u8}, {"saturate", 1}},
                         .infer = infer_quantize,
                         .reference = quantize_reference};
const Op dynamic_quantize_linear{.name = "dynamic_quantize_linear", .outputs = 3, .infer = infer_dynamic, .reference = dynamic_reference};

}  // namespace quern::ops
