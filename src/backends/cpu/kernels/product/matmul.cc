// Kernels of the ops `matmul` and `gemm` in f32.
#include <algorithm>
#include <vector>

#include "backends/cpu/function_kernel.h"
#include "backends/cpu/kernels/broadcast.h"
#include "backends/cpu/kernels/product/packed.h"
#include "backends/cpu/kernels/product/product.h"

namespace quern::cpu {
namespace {

// A unit computes so many rows and columns at most: large enough to be worth a task and to reuse what it packs, and its rows of A (some
// hundred KiB) stay in the second-level cache while the columns pass.
constexpr std::int64_t kRowBlock = 192, kColumnBlock = 128;
// Columns of B that no one packed before are packed by the unit, a piece of the depth at a time.
constexpr std::int64_t kPieceDepth = 256;

/// What one call multiplies: a stack of products, the stack's axes broadcast.
struct Shapes {
  std::int64_t m = 1, n = 1, k = 1;
  std::int64_t a_row = 1, a_column = 1, b_row = 1, b_column = 1;
  Loop<2> stack;  // over matrices: elements of A and of B from one to the next

  std::int64_t row_blocks() const { return (m + kRowBlock - 1) / kRowBlock; }
  std::int64_t column_blocks() const { return (n + kColumnBlock - 1) / kColumnBlock; }
  std::int64_t units() const { return stack.elements() * row_blocks() * column_blocks(); }
};

/// Axes before the last `inner`, each counting matrices of `matrix` elements.
ir::TensorView outer_axes(const ir::TensorView& view, std::int64_t inner) {
  ir::TensorView outer = view;
  outer.rank = std::max<std::int64_t>(0, view.rank - inner);
  return outer;
}

Shapes matmul_shapes(const ir::Call& call) {
  const ir::TensorView &a = call.in(0), &b = call.in(1), &y = call.out(0);
  Shapes s;
  s.k = std::min(a.columns(), b.rank > 1 ? b.dims[b.rank - 2] : b.dims[0]);
  s.n = b.rank > 1 ? b.columns() : 1;
  s.a_row = a.columns();
  s.b_row = s.n;
  if (b.rank <= 2) {  // one matrix B: the rows of all matrices A are rows of one
    s.m = a.rows();
    return s;
  }
  s.m = a.rank > 1 ? a.dims[a.rank - 2] : 1;
  const ir::TensorView outer = outer_axes(y, a.rank > 1 ? 2 : 1);
  s.stack = Loop<2>(outer, {outer_axes(a, 2), outer_axes(b, 2)});
  for (std::int64_t i = 0; i < s.stack.rank; ++i) {
    s.stack.strides[i][0] *= s.m * s.a_row;
    s.stack.strides[i][1] *= b.dims[b.rank - 2] * s.n;
  }
  return s;
}

Shapes gemm_shapes(const ir::Call& call) {
  const ir::TensorView &a = call.in(0), &b = call.in(1), &y = call.out(0);
  const bool ta = call.node->integer("transA") != 0, tb = call.node->integer("transB") != 0;
  Shapes s;
  s.m = y.dims[0];
  s.n = y.dims[1];
  s.k = std::min(a.dims[ta ? 0 : 1], b.dims[tb ? 1 : 0]);
  s.a_row = ta ? 1 : a.dims[1];
  s.a_column = ta ? a.dims[1] : 1;
  s.b_row = tb ? 1 : b.dims[1];
  s.b_column = tb ? b.dims[1] : 1;
  return s;
}

/// y = alpha * y + beta * C over the elements that a unit computed.
void finish_gemm(const ir::Call& call, std::int64_t row, std::int64_t row_end, std::int64_t column, std::int64_t column_end) noexcept {
  const float alpha = static_cast<float>(call.node->number("alpha")), beta = static_cast<float>(call.node->number("beta"));
  const ir::TensorView& y = call.out(0);
  if (alpha != 1.0f)
    for (std::int64_t i = row; i < row_end; ++i)
      for (std::int64_t j = column; j < column_end; ++j) y.as<float>()[i * y.dims[1] + j] *= alpha;
  if (!call.has(2)) return;
  const ir::TensorView& c = call.in(2);
  const std::int64_t across = c.columns() == y.dims[1] ? 1 : 0, down = c.rank == 2 && c.dims[0] == y.dims[0] ? c.dims[1] : 0;
  for (std::int64_t i = row; i < row_end; ++i) {
    const float* from = c.as<float>() + i * down;
    float* to = y.as<float>() + i * y.dims[1];
    for (std::int64_t j = column; j < column_end; ++j) to[j] += beta * from[j * across];
  }
}

class MatmulKernel final : public plan::Kernel {
 public:
  /// `panels`: B packed, or nothing when it is not a constant.
  MatmulKernel(bool gemm, PackedFloats panels) : gemm_(gemm), panels_(std::move(panels)) {}

  plan::Split split(const ir::Call& call) const override {
    const Shapes s = shapes(call);
    return {s.units(), 100 + 0.03 * double(std::min(s.m, kRowBlock) * std::min(s.n, kColumnBlock)) * double(s.k)};
  }
  std::int64_t scratch_bytes(const ir::Call&) const override {
    return panels_ ? 0 : kPieceDepth * kColumnBlock * std::int64_t(sizeof(float));
  }
  const char* name() const override { return panels_ ? "matmul f32 packed" : "matmul f32"; }

  void run(const ir::Call& call, std::int64_t begin, std::int64_t end, std::byte* scratch) const noexcept override {
    const Shapes s = shapes(call);
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t column = unit % s.column_blocks() * kColumnBlock, block = unit / s.column_blocks();
      const std::int64_t row = block % s.row_blocks() * kRowBlock, matrix = block / s.row_blocks();
      const auto [at_a, at_b] = s.stack.offsets(matrix);
      Product p{};
      p.a = call.in(0).as<float>() + at_a + row * s.a_row;
      p.a_row = s.a_row;
      p.a_column = s.a_column;
      p.m = std::min(kRowBlock, s.m - row);
      p.n = std::min(kColumnBlock, s.n - column);
      p.y = call.out(0).as<float>() + (matrix * s.m + row) * s.n + column;
      p.y_row = s.n;
      if (panels_) {
        p.k = s.k;
        p.panels = panels_.get() + column * s.k;
        p.panel_stride = s.k * kPanelColumns;
        multiply(p);
      } else {
        multiply_unpacked(s, p, call.in(1).as<float>() + at_b, column, reinterpret_cast<float*>(scratch));
      }
      if (gemm_) finish_gemm(call, row, row + p.m, column, column + p.n);
    }
  }

 private:
  Shapes shapes(const ir::Call& call) const { return gemm_ ? gemm_shapes(call) : matmul_shapes(call); }

  static void multiply_unpacked(const Shapes& s, Product p, const float* b, std::int64_t column, float* panels) {
    std::int64_t k = 0;
    do {
      p.k = std::min(kPieceDepth, s.k - k);
      pack_panels(b + k * s.b_row, s.b_row, s.b_column, p.k, column, p.n, panels);
      p.panels = panels;
      p.panel_stride = p.k * kPanelColumns;
      multiply(p);
      p.add = true;
      p.a += p.k * s.a_column;
      k += kPieceDepth;
    } while (k < s.k);
  }

  bool gemm_;
  PackedFloats panels_;
};

PackedFloats pack_constant(const ir::Value& b, bool transposed) {
  if (b.constant == nullptr || b.type.shape.size() != 2) return nullptr;
  const auto rows = b.type.shape[0].constant(), columns = b.type.shape[1].constant();
  if (!rows || !columns || *rows < 1 || *columns < 1) return nullptr;
  const std::int64_t k = transposed ? *columns : *rows, n = transposed ? *rows : *columns;
  PackedFloats panels = allocate_floats(panel_count(n) * kPanelColumns * k);
  pack_panels(aligned_copy(b).data(), transposed ? 1 : n, transposed ? k : 1, k, 0, n, panels.get());
  return panels;
}

std::unique_ptr<plan::Kernel> lower_product(const ir::Node& node, bool gemm) {
  const ir::Value &a = *node.inputs[0], &b = *node.inputs[1];
  if (a.type.dtype != ir::DType::f32 || a.type.shape.empty() || b.type.shape.empty()) return nullptr;
  return std::make_unique<MatmulKernel>(gemm, pack_constant(b, gemm && node.integer("transB") != 0));
}

}  // namespace

std::unique_ptr<plan::Kernel> lower_matmul(const ir::Node& node) { return lower_product(node, false); }
std::unique_ptr<plan::Kernel> lower_gemm(const ir::Node& node) { return lower_product(node, true); }

}  // namespace quern::cpu
