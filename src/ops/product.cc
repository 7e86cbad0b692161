// Matrix products. Canonical meaning: ONNX MatMul-13, Gemm-13, MatMulInteger-10.
#include "ops/detail/cost.h"
#include "ops/detail/elementwise.h"
#include "ops/registry.h"

namespace quern::ops {
namespace {
using namespace detail;
using ir::Call;
using ir::Op;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// A stack of matrix products C = A B with NumPy's promotion of vectors and broadcasting of the stacks; f(a, b, c) is called for every
/// product with the offsets of its matrices.
struct Product {
  std::int64_t m = 1, k = 1, n = 1;
  Box stack;
  std::array<Axes, 2> strides{};

  Product(const TensorView& a, const TensorView& b, const TensorView& y) {
    m = a.rank > 1 ? a.dims[a.rank - 2] : 1;
    k = a.dims[a.rank - 1];
    n = b.rank > 1 ? b.dims[b.rank - 1] : 1;
    const std::int64_t inner_axes = (a.rank > 1) + (b.rank > 1);
    for (std::int64_t i = 0; i + inner_axes < y.rank; ++i) stack.add(y.dims[i]);
    strides = {stack_strides(a), stack_strides(b)};
  }
  Axes stack_strides(const TensorView& v) const {
    TensorView outer = v;  // the stack's axes alone, whose elements are matrices
    outer.rank = std::max<std::int64_t>(0, v.rank - 2);
    Axes out = broadcast_strides(outer, stack);
    for (std::int64_t& s : out) s *= v.rank > 1 ? v.dims[v.rank - 2] * v.dims[v.rank - 1] : v.dims[0];
    return out;
  }
};

using ProductTypes = decltype(Floats{} + Types<std::int32_t, std::int64_t, std::uint32_t, std::uint64_t>{});

void infer_matmul(InferContext& c) {
  check_dtype<ProductTypes>(c, 0);
  check_same_dtype(c, {0, 1});
  c.set_output(0, Type{c.dtype(0), product_shape(c, c.shape(0), c.shape(1))});
}

void matmul_reference(const Call& call) {
  const TensorView &a = call.in(0), &b = call.in(1), &y = call.out(0);
  const Product p(a, b, y);
  const std::int64_t k_size = std::min(p.k, b.dims[b.rank > 1 ? b.rank - 2 : 0]);
  dispatch(ProductTypes{}, a.dtype, [&]<class T>() {
    using S = std::conditional_t<std::is_integral_v<Compute<T>>, std::uint64_t, double>;
    walk(p.stack, p.strides, [&](std::int64_t s, std::int64_t ia, std::int64_t ib) {
      for (std::int64_t i = 0; i < p.m; ++i)
        for (std::int64_t j = 0; j < p.n; ++j) {
          S sum = 0;
          for (std::int64_t k = 0; k < k_size; ++k)
            sum += static_cast<S>(load<T>(a.data, ia + i * p.k + k)) * static_cast<S>(load<T>(b.data, ib + k * p.n + j));
          store<T>(y.data, (s * p.m + i) * p.n + j, sum);
        }
    });
  });
}

// gemm: alpha * A' B' + beta * C

void infer_gemm(InferContext& c) {
  check_dtype<Floats>(c, 0);
  check_same_dtype(c, {0, 1, 2});
  check_rank(c, 0, 2, 2);
  check_rank(c, 1, 2, 2);
  const bool ta = c.node().integer("transA") != 0, tb = c.node().integer("transB") != 0;
  same_size(c, c.shape(0)[ta ? 0 : 1], c.shape(1)[tb ? 1 : 0]);
  Shape shape{c.shape(0)[ta ? 1 : 0], c.shape(1)[tb ? 0 : 1]};
  if (c.has(2)) check_broadcasts_to(c, c.shape(2), shape, 2);
  c.set_output(0, Type{c.dtype(0), std::move(shape)});
}

void gemm_reference(const Call& call) {
  const TensorView &a = call.in(0), &b = call.in(1), &y = call.out(0);
  const bool ta = call.node->integer("transA") != 0, tb = call.node->integer("transB") != 0;
  const double alpha = call.node->number("alpha"), beta = call.node->number("beta");
  const std::int64_t n = y.dims[1], k_size = std::min(a.dims[ta ? 0 : 1], b.dims[tb ? 1 : 0]);
  const Box box(y);
  const Axes c_strides = call.has(2) ? broadcast_strides(call.in(2), box) : Axes{};
  dispatch(Floats{}, a.dtype, [&]<class T>() {
    walk(box, std::array<Axes, 1>{c_strides}, [&](std::int64_t index, std::int64_t ic) {
      const std::int64_t i = index / n, j = index % n;
      double sum = 0;
      for (std::int64_t k = 0; k < k_size; ++k)
        sum += double(load<T>(a.data, ta ? k * a.dims[1] + i : i * a.dims[1] + k)) *
               double(load<T>(b.data, tb ? j * b.dims[1] + k : k * n + j));
      store<T>(y.data, index, alpha * sum + (call.has(2) ? beta * double(load<T>(call.in(2).data, ic)) : 0.0));
    });
  });
}

// matmul_integer: (A - a_zero) (B - b_zero) in i32; a zero point is one number, or one a row of A or a column of B

using Bytes = Types<std::int8_t, std::uint8_t>;

void check_zero_point(InferContext& c, std::size_t input, std::size_t of, std::int64_t axis_from_end) {
  if (!c.has(input)) return;
  check_same_dtype(c, {of, input});
  if (known_count(c, input) == 1) return;
  const Shape &zero = c.shape(input), &factor = c.shape(of);
  if (c.rank(of) < 2 || (c.rank(input) != 1 && c.rank(input) != c.rank(of)))
    c.fail("the zero point of input " + std::to_string(of) + " does not fit it");
  if (c.rank(input) == 1) {
    same_size(c, zero[0], factor[factor.size() - at(axis_from_end)]);
  } else {
    Shape wanted = factor;
    wanted[wanted.size() - at(3 - axis_from_end)] = 1;
    for (std::size_t i = 0; i < wanted.size(); ++i) same_size(c, zero[i], wanted[i]);
  }
}

void infer_matmul_integer(InferContext& c) {
  check_dtype<Bytes>(c, 0);
  check_dtype<Bytes>(c, 1);
  check_zero_point(c, 2, 0, 2);
  check_zero_point(c, 3, 1, 1);
  c.set_output(0, Type{DType::i32, product_shape(c, c.shape(0), c.shape(1))});
}

/// The zero point of a row of A (or a column of B): `line` counts it within its matrix of `lines`, `matrix` is the offset of that matrix.
std::int64_t zero_of(const Call& call, std::size_t input, std::int64_t matrix, std::int64_t matrix_elements, std::int64_t line,
                     std::int64_t lines) {
  if (!call.has(input)) return 0;
  const TensorView& zero = call.in(input);
  const std::int64_t n = zero.elements();
  if (n == 1) return integer_at(zero, 0);
  const std::int64_t i = zero.rank == 1 ? line : matrix / std::max<std::int64_t>(1, matrix_elements) * lines + line;
  return i < n ? integer_at(zero, i) : 0;
}

void matmul_integer_reference(const Call& call) {
  const TensorView &a = call.in(0), &b = call.in(1), &y = call.out(0);
  const Product p(a, b, y);
  const std::int64_t k_size = std::min(p.k, b.dims[b.rank > 1 ? b.rank - 2 : 0]);
  dispatch(Bytes{}, a.dtype, [&]<class A>() {
    dispatch(Bytes{}, b.dtype, [&]<class B>() {
      walk(p.stack, p.strides, [&](std::int64_t s, std::int64_t ia, std::int64_t ib) {
        for (std::int64_t i = 0; i < p.m; ++i) {
          const std::int64_t a_zero = zero_of(call, 2, ia, p.m * p.k, i, p.m);
          for (std::int64_t j = 0; j < p.n; ++j) {
            const std::int64_t b_zero = zero_of(call, 3, ib, p.k * p.n, j, p.n);
            std::int64_t sum = 0;
            for (std::int64_t k = 0; k < k_size; ++k)
              sum += (load<A>(a.data, ia + i * p.k + k) - a_zero) * (load<B>(b.data, ib + k * p.n + j) - b_zero);
            store<std::int32_t>(y.data, (s * p.m + i) * p.n + j, sum);
          }
        }
      });
    });
  });
}

double matmul_operations(const Call& call) {
  const TensorView& a = call.in(0);
  return 2.0 * double(a.dims[a.rank - 1]) * double(call.out(0).elements());
}
double gemm_operations(const Call& call) {
  const std::int64_t k = call.in(0).dims[call.node->integer("transA") != 0 ? 0 : 1];
  return 2.0 * double(k) * double(call.out(0).elements());
}

}  // namespace

const Op matmul{.name = "matmul",
                .min_inputs = 2,
                .max_inputs = 2,
                .infer = infer_matmul,
                .reference = matmul_reference,
                .operations = matmul_operations};
const Op gemm{.name = "gemm",
              .min_inputs = 2,
              .max_inputs = 3,
              .attributes = {{"alpha", 1.0}, {"beta", 1.0}, {"transA", 0}, {"transB", 0}},
              .infer = infer_gemm,
              .reference = gemm_reference,
              .operations = gemm_operations};
const Op matmul_integer{.name = "matmul_integer",
                        .min_inputs = 2,
                        .max_inputs = 4,
                        .infer = infer_matmul_integer,
                        .reference = matmul_integer_reference,
                        .operations = matmul_operations};

}  // namespace quern::ops
