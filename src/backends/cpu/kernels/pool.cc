// Kernels of max_pool and average_pool in f32 over one or two spatial axes. A unit is one channel of one image; each row of outputs takes
// the rows of its window in turn.
#include <algorithm>
#include <limits>

#include "backends/cpu/function_kernel.h"
#include "backends/cpu/kernels/window.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/pool.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace quern::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// y[i] = f(y[i], x[i * stride])
template <class F>
HWY_INLINE void PoolRow(const float* x, std::int64_t stride, float* y, std::int64_t n, F f) {
  const hn::CappedTag<float, 16> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  HWY_ALIGN float values[16] = {}, results[16] = {};
  for (std::int64_t i = 0; i < n; i += lanes) {
    const std::int64_t count = std::min(lanes, n - i);
    if (count == lanes && stride == 1) {
      hn::StoreU(f(hn::LoadU(d, y + i), hn::LoadU(d, x + i)), d, y + i);
      continue;
    }
    for (std::int64_t k = 0; k < count; ++k) values[k] = x[(i + k) * stride], results[k] = y[i + k];
    hn::Store(f(hn::Load(d, results), hn::Load(d, values)), d, results);
    std::copy(results, results + count, y + i);
  }
}

void PoolMax(const float* x, std::int64_t stride, float* y, std::int64_t n) {
  PoolRow(x, stride, y, n, [](auto best, auto v) HWY_ATTR { return hn::IfThenElse(hn::Or(hn::Gt(v, best), hn::IsNaN(v)), v, best); });
}
void PoolSum(const float* x, std::int64_t stride, float* y, std::int64_t n) {
  PoolRow(x, stride, y, n, [](auto sum, auto v) HWY_ATTR { return hn::Add(sum, v); });
}

}  // namespace quern::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quern::cpu {
HWY_EXPORT(PoolMax);
HWY_EXPORT(PoolSum);

namespace {

using ir::Call;
using ir::TensorView;

class PoolKernel final : public plan::Kernel {
 public:
  explicit PoolKernel(const ir::Node& node)
      : max_(node.op->name == "max_pool"), count_padding_(!max_ && node.integer("count_include_pad") != 0) {
    const auto& kernel = node.integers("kernel_shape");
    window_ = Window2d(node, kernel.back(), kernel.size() == 2 ? kernel[0] : 1);
  }

  plan::Split split(const Call& call) const override {
    const Plane p = plane(call);
    return {call.out(0).dims[0] * call.out(0).dims[1],
            50 + 0.3 * double(p.out_height * p.out_width * p.window.rows.kernel * p.window.columns.kernel)};
  }
  void run(const Call& call, std::int64_t begin, std::int64_t end, std::byte*) const noexcept override {
    const Plane p = plane(call);
    for (std::int64_t unit = begin; unit < end; ++unit)
      run_plane(p, call.in(0).as<float>() + unit * p.height * p.width, call.out(0).as<float>() + unit * p.out_height * p.out_width);
  }
  const char* name() const override { return max_ ? "max_pool f32" : "average_pool f32"; }

 private:
  struct Plane {
    Window2d window;
    std::int64_t height, width, out_height, out_width;
  };
  Plane plane(const Call& call) const {
    const TensorView &x = call.in(0), &y = call.out(0);
    Plane p{window_, x.rank == 4 ? x.dims[2] : 1, x.dims[x.rank - 1], y.rank == 4 ? y.dims[2] : 1, y.dims[y.rank - 1]};
    p.window.place(p.height, p.out_height, p.width, p.out_width);
    return p;
  }

  void run_plane(const Plane& p, const float* x, float* y) const {
    const auto combine = max_ ? HWY_DYNAMIC_DISPATCH(PoolMax) : HWY_DYNAMIC_DISPATCH(PoolSum);
    const WindowAxis &rows = p.window.rows, &columns = p.window.columns;
    for (std::int64_t oy = 0; oy < p.out_height; ++oy, y += p.out_width) {
      std::fill(y, y + p.out_width, max_ ? -std::numeric_limits<float>::infinity() : 0.0f);
      for (std::int64_t ky = 0; ky < rows.kernel; ++ky) {
        const std::int64_t row = rows.position(oy, ky);
        if (row < 0 || row >= p.height) continue;
        for (std::int64_t kx = 0; kx < columns.kernel; ++kx) {
          const auto [begin, end] = columns.inside(kx, p.width, p.out_width);
          if (begin < end) combine(x + row * p.width + columns.position(begin, kx), columns.stride, y + begin, end - begin);
        }
      }
      if (max_) continue;
      const std::int64_t counted_rows = counted(rows, oy, p.height);
      for (std::int64_t ox = 0; ox < p.out_width; ++ox) y[ox] /= static_cast<float>(counted_rows * counted(columns, ox, p.width));
    }
  }

  /// How many positions of the window of output i an average divides by.
  std::int64_t counted(const WindowAxis& axis, std::int64_t i, std::int64_t size) const {
    std::int64_t n = 0;
    for (std::int64_t k = 0; k < axis.kernel; ++k) {
      const std::int64_t at = axis.position(i, k);
      n += count_padding_ ? at < size + axis.end_pad : at >= 0 && at < size;
    }
    return n;
  }

  Window2d window_;
  bool max_, count_padding_;
};

}  // namespace

std::unique_ptr<plan::Kernel> lower_pool(const ir::Node& node) {
  const std::size_t rank = node.inputs[0]->type.shape.size();
  if (node.inputs[0]->type.dtype != ir::DType::f32 || node.outputs.size() != 1 || (rank != 3 && rank != 4)) return nullptr;
  return std::make_unique<PoolKernel>(node);
}

}  // namespace quern::cpu
#endif  // HWY_ONCE
