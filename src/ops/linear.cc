// Products with weights, what shortens their input, and the gate between them. Every reference kernel is plain scalar code with sums in
// f64.
#include <cmath>
#include <vector>

#include "ops/detail/cost.h"
#include "ops/detail/float_rows.h"
#include "ops/registry.h"

namespace quern::ops {
namespace {

using namespace ir;      // NOLINT(google-build-using-namespace): this file speaks of nothing else
using namespace detail;  // NOLINT(google-build-using-namespace)

/// Checks input 0 as x and input i as the weights of a product.
void expect_product(const InferContext& c, std::size_t i) {
  if (c.dtype(0) != DType::a8 && c.dtype(0) != DType::bf16) expect_dtype(c, 0, DType::f32);
  expect_rank(c, 0, 2);
  expect_rank(c, i, 2);
  expect_equal(c, c.shape(0)[1], c.shape(i)[1], "the widths of input and weight");
}

/// Row r of x times all rows of w.
void multiply_row(const TensorView& x, std::int64_t r, const TensorView& w, float* y) {
  const std::int64_t width = x.dims[1], step = is_block(w.dtype) ? block_elements(w.dtype) : 1;
  for (std::int64_t o = 0; o < w.dims[0]; ++o) {
    double sum = 0;
    float block[kMaxBlock];
    std::int64_t loaded = -1;  // which block of the weight row `block` holds
    for_each_in_row(x.data + r * row_bytes(x.dtype, width), x.dtype, width, [&](std::int64_t k, float v) {
      if (k / step != loaded) {
        loaded = k / step;
        dtypes::dequantize(w.dtype, w.data + o * row_bytes(w.dtype, width) + loaded * block_bytes(w.dtype), block, step);
      }
      sum += double(v) * block[k % step];
    });
    y[o] = float(sum);
  }
}

void expect_activation(const InferContext& c) {
  const std::string& activation = c.node().text("activation");
  if (activation != "silu" && activation != "gelu_tanh") c.fail("activation is '" + activation + "' where silu or gelu_tanh is wanted");
}

double activation(const Call& c, double x) {
  if (c.node->text("activation") == "silu") return x / (1.0 + std::exp(-x));
  return 0.5 * x * (1.0 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));  // sqrt(2 / pi)
}

double linear_operations(const Call& c) {
  double outs = 0;
  for (std::size_t i = 0; i < c.node->outputs.size(); ++i) outs += double(c.out(i).elements());
  return 2.0 * double(c.in(0).dims[1]) * outs;
}

}  // namespace

/// y[i] = x · w[i]ᵀ for one or more weights. Shapes: x [rows, width]; w[i] [out[i], width] of any float or block type; y[i] [rows, out[i]]
/// f32. The type of x says how it is computed: f32 means float32 arithmetic on dequantised weights; a8 (from quantize_activations) means
/// integer products inside each block of 32; bf16 means products of bf16 with sums in f32.
const Op linear{
    .name = "linear",
    .min_inputs = 2,
    .max_inputs = Op::kVariadic,
    .outputs = Op::kVariadic,
    .attributes = {{"outputs", 1}},
    .infer =
        [](InferContext& c) {
          expect_outputs(c, c.node().inputs.size() - 1);
          for (std::size_t i = 1; i < c.node().inputs.size(); ++i) {
            expect_product(c, i);
            c.set_output(i - 1, {DType::f32, {c.shape(0)[0], c.shape(i)[0]}});
          }
        },
    .reference =
        [](const Call& c) {
          for (std::size_t i = 1; i < c.node->inputs.size(); ++i)
            for (std::int64_t r = 0; r < c.in(0).dims[0]; ++r)
              multiply_row(c.in(0), r, c.in(i), c.out(i - 1).as<float>() + r * c.in(i).dims[0]);
        },
    .operations = linear_operations,
};

/// Rows of f32 as products take them, by `dtype`: a8, unsigned 8-bit integers with a scale and a zero point every 32 values, for integer
/// products; or bf16. Shapes: x, y [rows, width], width a multiple of 32 for a8. Accuracy: a8: |x - y| ≤ (max - min) / 508 in each block;
/// bf16: |x - y| ≤ |x| / 256.
const Op quantize_activations{
    .name = "quantize_activations",
    .attributes = {{"dtype", DType::a8}},
    .infer =
        [](InferContext& c) {
          expect_rank(c, 0, 2);
          expect_dtype(c, 0, DType::f32);
          if (c.node().dtype("dtype") == DType::f32) c.fail("dtype is f32 where a8 or bf16 is wanted");
          c.set_output(0, quantized_or_plain(c, c.shape(0)));
        },
    .reference =
        [](const Call& c) {
          const float* x = c.in(0).as<float>();
          store_floats(c.out(0), 0, std::vector<float>(x, x + c.in(0).elements()));
        },
    .operations = detail::per_output<4>,
};

/// y = f(gate) * up, element by element; f by `activation`: silu(x) = x * sigmoid(x), or gelu_tanh, which is
/// 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))). Shapes: gate, up, y alike, f32; y is a8 or bf16 where `dtype` says so:
/// as quantize_activations. Source: GLU variants, Shazeer 2020.
const Op glu{
    .name = "glu",
    .min_inputs = 2,
    .max_inputs = 2,
    .attributes = {{"activation", "silu"}, {"dtype", DType::f32}},
    .infer =
        [](InferContext& c) {
          expect_dtype(c, 0, DType::f32);
          expect_dtype(c, 1, DType::f32);
          if (c.shape(0) != c.shape(1)) c.fail("gate and up differ in shape: " + to_string(c.shape(0)) + " and " + to_string(c.shape(1)));
          expect_activation(c);
          c.set_output(0, quantized_or_plain(c, c.shape(0)));
        },
    .reference =
        [](const Call& c) {
          std::vector<float> y(static_cast<std::size_t>(c.in(0).elements()));
          for (std::size_t i = 0; i < y.size(); ++i) y[i] = float(activation(c, c.in(0).as<float>()[i]) * c.in(1).as<float>()[i]);
          store_floats(c.out(0), 0, y);
        },
    .traits = Trait::pure | Trait::elementwise | Trait::in_place,
    .operations = detail::per_output<5>,
};

/// y = f(x · gateᵀ) * (x · upᵀ), the products rounded to f32 before f: a linear and the glu of its two outputs, of which nothing is kept.
/// Shapes: x [rows, width]; gate, up [outs, width]; y [rows, outs]; types as those of linear and glu.
const Op linear_glu{
    .name = "linear_glu",
    .min_inputs = 3,
    .max_inputs = 3,
    .attributes = {{"activation", "silu"}, {"dtype", DType::f32}},
    .infer =
        [](InferContext& c) {
          expect_product(c, 1);
          expect_product(c, 2);
          expect_equal(c, c.shape(1)[0], c.shape(2)[0], "the heights of gate and up");
          expect_activation(c);
          c.set_output(0, quantized_or_plain(c, {c.shape(0)[0], c.shape(1)[0]}));
        },
    .reference =
        [](const Call& c) {
          const std::int64_t outs = c.in(1).dims[0];
          std::vector<float> gate(static_cast<std::size_t>(outs)), up(gate);
          for (std::int64_t r = 0; r < c.in(0).dims[0]; ++r) {
            multiply_row(c.in(0), r, c.in(1), gate.data());
            multiply_row(c.in(0), r, c.in(2), up.data());
            for (std::size_t i = 0; i < gate.size(); ++i) gate[i] = float(activation(c, gate[i]) * up[i]);
            store_floats(c.out(0), r * outs, gate);
          }
        },
    .operations = [](const Call& c) { return (4.0 * double(c.in(0).dims[1]) + 5) * double(c.out(0).elements()); },
};

}  // namespace quern::ops
