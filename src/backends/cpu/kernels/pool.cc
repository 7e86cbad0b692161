// Kernels of max_pool and average_pool in f32 over one or two spatial axes. A unit is one channel of one image.
#include <algorithm>

#include "backends/cpu/function_kernel.h"
#include "backends/cpu/kernels/taps.h"
#include "backends/cpu/kernels/window.h"

namespace quern::cpu {
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
    for (std::int64_t oy = 0; oy < p.out_height; ++oy, y += p.out_width) {
      for_window_runs(p.window, x, p.height, p.width, oy, p.out_width,
                      [&](const Taps& taps, std::int64_t, std::int64_t, std::int64_t begin, std::int64_t end) {
                        max_ ? maximum_taps(taps, y + begin, end - begin) : sum_taps(taps, y + begin, end - begin);
                      });
      if (max_) continue;
      const std::int64_t counted_rows = counted(p.window.rows, oy, p.height);
      for (std::int64_t ox = 0; ox < p.out_width; ++ox) y[ox] /= static_cast<float>(counted_rows * counted(p.window.columns, ox, p.width));
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
