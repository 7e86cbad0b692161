// Kernel of the op `conv` in f32 over one or two spatial axes, with constant weights.
//
// A convolution is a product: weights [channels out, channels in x kernel] times the image's patches [channels in x kernel, pixels]. A unit
// is a block of channels and of pixels of one image and group; it gathers its patches a piece of the depth at a time. Where every group has
// one channel (depthwise) there is nothing to share, and each row of pixels is summed directly. Every element is one chain in the order
// channel, kernel row, kernel column, beginning with the bias.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "backends/cpu/function_kernel.h"
#include "backends/cpu/kernels/product/packed.h"
#include "backends/cpu/kernels/product/product.h"
#include "backends/cpu/kernels/taps.h"
#include "backends/cpu/kernels/window.h"

namespace quern::cpu {
namespace {

constexpr std::int64_t kPieceDepth = 256;  // 256 x 256 patches are 256 KiB: they stay in the second-level cache while the weights pass
constexpr std::int64_t kPixelBlock = 256;  // at most
// Gathering 16 patches costs a few cycles, multiplying them by 192 rows a hundred.
constexpr std::int64_t kChannelBlock = 192;
static_assert(kChannelBlock % kPackedRows == 0);

struct ConvShape {
  Window2d window;
  std::int64_t images, groups, channels, outputs;  // channels in and out are those of one group
  std::int64_t depth;                              // channels x kernel
  std::int64_t height, width, out_height, out_width;

  std::int64_t pixels() const { return out_height * out_width; }
  std::int64_t channel_blocks() const { return (outputs + kChannelBlock - 1) / kChannelBlock; }
  /// Pixels a unit, whole panels, evenly divided.
  std::int64_t block_pixels() const {
    const std::int64_t blocks = std::max<std::int64_t>(1, (pixels() + kPixelBlock - 1) / kPixelBlock);
    return std::max<std::int64_t>(1, panel_count((pixels() + blocks - 1) / blocks)) * kPanelColumns;
  }
  std::int64_t pixel_blocks() const { return (pixels() + block_pixels() - 1) / block_pixels(); }
  /// Whether the patches are the image itself.
  bool is_pointwise() const {
    return window.rows.kernel == 1 && window.columns.kernel == 1 && window.rows.stride == 1 && window.columns.stride == 1 &&
           out_height == height && out_width == width && window.rows.begin_pad == 0 && window.columns.begin_pad == 0;
  }
};

void copy_floats(float* to, const float* from, std::int64_t n) {
  for (; n >= 4; n -= 4, to += 4, from += 4) std::memcpy(to, from, 16);
  for (; n > 0; --n) *to++ = *from++;
}

/// What kernel position (ky, kx) sees of one channel at pixels [first, first + count): out[i] is 0 in the padding.
void gather_pixels(const ConvShape& s, const float* channel, std::int64_t ky, std::int64_t kx, std::int64_t first, std::int64_t count,
                   float* out) {
  const auto [x_begin, x_end] = s.window.columns.inside(kx, s.width, s.out_width);
  const std::int64_t stride = s.window.columns.stride;
  for (std::int64_t y = first / s.out_width, x = first % s.out_width; count > 0; ++y, x = 0) {
    const std::int64_t n = std::min(count, s.out_width - x), row = s.window.rows.position(y, ky);
    const bool inside = row >= 0 && row < s.height;
    const std::int64_t begin = inside ? std::clamp(x_begin, x, x + n) : x + n, end = inside ? std::clamp(x_end, begin, x + n) : x + n;
    const float* from = channel + row * s.width + s.window.columns.position(begin, kx);
    std::fill(out, out + (begin - x), 0.0f);
    if (stride == 1)
      copy_floats(out + (begin - x), from, end - begin);
    else
      for (std::int64_t i = begin; i < end; ++i) out[i - x] = from[(i - begin) * stride];
    std::fill(out + (end - x), out + n, 0.0f);
    out += n;
    count -= n;
  }
}

/// Patches of pixels [first, first + count) at depths [k, k + depth), as panels.
void gather_patches(const ConvShape& s, const float* image, std::int64_t k, std::int64_t depth, std::int64_t first, std::int64_t count,
                    float* row, float* panels) {
  const std::int64_t kernel = s.window.rows.kernel * s.window.columns.kernel, panel_floats = depth * kPanelColumns;
  const std::int64_t full = count / kPanelColumns, rest = count % kPanelColumns;
  const bool pointwise = s.is_pointwise();
  if (rest > 0) std::fill(row + count, row + (full + 1) * kPanelColumns, 0.0f);
  for (std::int64_t i = 0; i < depth; ++i) {
    const std::int64_t c = (k + i) / kernel, position = (k + i) % kernel;
    const float* channel = image + c * s.height * s.width;
    const float* from = row;
    if (pointwise) {
      from = channel + first;
      if (rest > 0) copy_floats(row + full * kPanelColumns, from + full * kPanelColumns, rest);
    } else {
      gather_pixels(s, channel, position / s.window.columns.kernel, position % s.window.columns.kernel, first, count, row);
    }
    float* to = panels + i * kPanelColumns;
    for (std::int64_t p = 0; p < full; ++p, to += panel_floats) std::memcpy(to, from + p * kPanelColumns, kPanelColumns * sizeof(float));
    if (rest > 0) std::memcpy(to, row + full * kPanelColumns, kPanelColumns * sizeof(float));
  }
}

class ConvKernel final : public plan::Kernel {
 public:
  /// Precondition: w is a constant [outputs, channels, kernel …] with no empty axis.
  explicit ConvKernel(const ir::Node& node) {
    const ir::Shape& w = node.inputs[1]->type.shape;
    base_.window = Window2d(node, *w[w.size() - 1].constant(), w.size() == 4 ? *w[2].constant() : 1);
    base_.groups = node.integer("group");
    base_.channels = *w[1].constant();
    base_.outputs = *w[0].constant() / base_.groups;
    base_.depth = base_.channels * base_.window.rows.kernel * base_.window.columns.kernel;
    depthwise_ = base_.channels == 1 && base_.groups > 1;
    const std::vector<float> source = aligned_copy(*node.inputs[1]);
    if (depthwise_) {
      weights_ = allocate_floats(static_cast<std::int64_t>(source.size()));
      std::copy(source.begin(), source.end(), weights_.get());
      return;
    }
    weights_ = allocate_floats(base_.groups * group_floats());
    for (std::int64_t g = 0; g < base_.groups; ++g)
      pack_rows(source.data() + g * base_.outputs * base_.depth, base_.depth, base_.outputs, base_.depth,
                weights_.get() + g * group_floats());
  }

  plan::Split split(const ir::Call& call) const override {
    const ConvShape s = shape(call);
    if (depthwise_) return {s.images * s.groups * s.outputs, 50 + 0.1 * double(s.pixels() * s.depth)};
    return {s.images * s.groups * s.channel_blocks() * s.pixel_blocks(),
            100 + 0.02 * double(std::min(s.outputs, kChannelBlock) * s.depth) * double(s.block_pixels())};
  }
  std::int64_t scratch_bytes(const ir::Call&) const override {
    return depthwise_ ? 0 : (kPieceDepth + 1) * kPixelBlock * std::int64_t(sizeof(float));
  }
  const char* name() const override { return depthwise_ ? "conv f32 depthwise" : "conv f32"; }

  void run(const ir::Call& call, std::int64_t begin, std::int64_t end, std::byte* scratch) const noexcept override {
    const ConvShape s = shape(call);
    for (std::int64_t unit = begin; unit < end; ++unit)
      depthwise_ ? run_channel(call, s, unit) : run_block(call, s, unit, reinterpret_cast<float*>(scratch));
  }

 private:
  std::int64_t group_floats() const { return packed_row_floats(base_.outputs, base_.depth); }

  ConvShape shape(const ir::Call& call) const {
    const ir::TensorView &x = call.in(0), &y = call.out(0);
    ConvShape s = base_;
    s.images = x.dims[0];
    s.width = x.dims[x.rank - 1];
    s.out_width = y.dims[y.rank - 1];
    s.height = x.rank == 4 ? x.dims[2] : 1;
    s.out_height = y.rank == 4 ? y.dims[2] : 1;
    s.window.place(s.height, s.out_height, s.width, s.out_width);
    return s;
  }

  void run_block(const ir::Call& call, const ConvShape& s, std::int64_t unit, float* scratch) const {
    const std::int64_t first = unit % s.pixel_blocks() * s.block_pixels();
    unit /= s.pixel_blocks();
    const std::int64_t row = unit % s.channel_blocks() * kChannelBlock, group = unit / s.channel_blocks() % s.groups,
                       image = unit / s.channel_blocks() / s.groups;
    const float* x = call.in(0).as<float>() + (image * s.groups + group) * s.channels * s.height * s.width;
    Product p{};
    p.m = std::min(kChannelBlock, s.outputs - row);
    p.n = std::min(s.block_pixels(), s.pixels() - first);
    p.y = call.out(0).as<float>() + ((image * s.groups + group) * s.outputs + row) * s.pixels() + first;
    p.y_row = s.pixels();
    p.row_bias = call.has(2) ? call.in(2).as<float>() + group * s.outputs + row : nullptr;
    p.a = weights_.get() + group * group_floats() + row * s.depth;
    p.a_tile = kPackedRows * s.depth;
    p.panels = scratch + kPixelBlock;
    for (std::int64_t k = 0; k < s.depth; k += kPieceDepth) {
      p.k = std::min(kPieceDepth, s.depth - k);
      p.panel_stride = p.k * kPanelColumns;
      gather_patches(s, x, k, p.k, first, p.n, scratch, scratch + kPixelBlock);
      multiply(p);
      p.add = true;
      p.a += p.k * kPackedRows;
    }
  }

  /// One channel of a depthwise convolution.
  void run_channel(const ir::Call& call, const ConvShape& s, std::int64_t unit) const {
    const std::int64_t output = unit % (s.groups * s.outputs), image = unit / (s.groups * s.outputs), w_row = s.window.columns.kernel;
    const float* x = call.in(0).as<float>() + (image * s.groups + output / s.outputs) * s.height * s.width;
    const float* w = weights_.get() + output * s.depth;
    const float bias = call.has(2) ? call.in(2).as<float>()[output] : 0.0f;
    float* y = call.out(0).as<float>() + unit * s.pixels();
    for (std::int64_t oy = 0; oy < s.out_height; ++oy, y += s.out_width)
      for_window_runs(s.window, x, s.height, s.width, oy, s.out_width,
                      [&](const Taps& taps, std::int64_t ky, std::int64_t kx, std::int64_t begin, std::int64_t end) {
                        weighted_taps(taps, w + ky * w_row + kx, w_row, bias, y + begin, end - begin);
                      });
  }

  ConvShape base_{};  // what does not depend on the call
  bool depthwise_ = false;
  PackedFloats weights_;
};

}  // namespace

std::unique_ptr<plan::Kernel> lower_conv(const ir::Node& node) {
  const ir::Value &x = *node.inputs[0], &w = *node.inputs[1];
  const std::size_t rank = x.type.shape.size();
  if (x.type.dtype != ir::DType::f32 || w.constant == nullptr || (rank != 3 && rank != 4)) return nullptr;
  for (const ir::Dim& d : w.type.shape)
    if (d.constant().value_or(0) < 1) return nullptr;
  return std::make_unique<ConvKernel>(node);
}

}  // namespace quern::cpu
