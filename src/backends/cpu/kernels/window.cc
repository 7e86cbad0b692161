#include "backends/cpu/kernels/window.h"

#include <algorithm>

namespace quern::cpu {

std::pair<std::int64_t, std::int64_t> WindowAxis::inside(std::int64_t k, std::int64_t size, std::int64_t outputs) const {
  const std::int64_t first = begin_pad - k * dilation;  // position(i, k) >= 0 from i * stride >= first on
  const std::int64_t begin = first <= 0 ? 0 : (first + stride - 1) / stride;
  const std::int64_t end = size + first <= 0 ? 0 : (size + first + stride - 1) / stride;
  return {std::min(begin, outputs), std::clamp(end, std::min(begin, outputs), outputs)};
}

std::pair<std::int64_t, std::int64_t> WindowAxis::taps(std::int64_t i, std::int64_t size) const {
  const std::int64_t first = begin_pad - i * stride;  // position(i, k) >= 0 from k * dilation >= first on
  const std::int64_t begin = first <= 0 ? 0 : std::min(kernel, (first + dilation - 1) / dilation);
  const std::int64_t end = size + first <= 0 ? 0 : std::min(kernel, (size + first + dilation - 1) / dilation);
  return {begin, std::max(begin, end)};
}

Window2d::Window2d(const ir::Node& node, std::int64_t kernel_columns, std::int64_t kernel_rows) {
  rows.kernel = kernel_rows;
  columns.kernel = kernel_columns;
  // Lists of one axis speak of columns. An absent list means 1, or no padding.
  const auto numbers = [&](std::string_view name) -> const std::vector<std::int64_t>& {
    static const std::vector<std::int64_t> kNone;
    return node.attributes.contains(name) ? node.integers(name) : kNone;
  };
  const auto &strides = numbers("strides"), &dilations = numbers("dilations"), &pads = numbers("pads");
  if (!strides.empty()) columns.stride = strides.back();
  if (!dilations.empty()) columns.dilation = dilations.back();
  if (strides.size() == 2) rows.stride = strides[0];
  if (dilations.size() == 2) rows.dilation = dilations[0];
  if (pads.size() == 2) columns.begin_pad = pads[0], columns.end_pad = pads[1];
  if (pads.size() == 4) rows.begin_pad = pads[0], columns.begin_pad = pads[1], rows.end_pad = pads[2], columns.end_pad = pads[3];
  const std::string& pad = node.text("auto_pad");
  pad_ = pad == "VALID" ? Pad::valid : pad == "SAME_UPPER" ? Pad::same_upper : pad == "SAME_LOWER" ? Pad::same_lower : Pad::given;
}

void Window2d::place_axis(WindowAxis& axis, std::int64_t input, std::int64_t output) const {
  if (pad_ == Pad::given) return;
  const std::int64_t missing = (output - 1) * axis.stride + (axis.kernel - 1) * axis.dilation + 1 - input;
  const std::int64_t total = pad_ == Pad::valid ? 0 : std::max<std::int64_t>(0, missing);
  axis.begin_pad = pad_ == Pad::same_lower ? total - total / 2 : total / 2;
  axis.end_pad = total - axis.begin_pad;
}

void Window2d::place(std::int64_t height, std::int64_t out_height, std::int64_t width, std::int64_t out_width) {
  place_axis(rows, height, out_height);
  place_axis(columns, width, out_width);
}

}  // namespace quern::cpu
