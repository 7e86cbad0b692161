#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "ir/graph.h"

namespace quern::cpu {

/// The sliding window of convolutions and pools along one axis.
struct WindowAxis {
  std::int64_t kernel = 1, stride = 1, dilation = 1;
  std::int64_t begin_pad = 0, end_pad = 0;

  /// Where position k of the window of output i lies in the input; outside it: padding.
  std::int64_t position(std::int64_t i, std::int64_t k) const { return i * stride + k * dilation - begin_pad; }
  /// The outputs [begin, end) for which position k of the window lies inside an input of `size`; clipped to `outputs`.
  std::pair<std::int64_t, std::int64_t> inside(std::int64_t k, std::int64_t size, std::int64_t outputs) const;
  /// The positions [begin, end) of the window of output i that lie inside an input of `size`.
  std::pair<std::int64_t, std::int64_t> taps(std::int64_t i, std::int64_t size) const;
};

/// Windows over two axes; where an op has one, it is `columns` and there is one row.
struct Window2d {
  WindowAxis rows, columns;

  Window2d() = default;
  /// Reads strides, dilations, pads and auto_pad; their lengths say how many axes there are.
  Window2d(const ir::Node& node, std::int64_t kernel_columns, std::int64_t kernel_rows);
  /// Settles the padding that auto_pad asks for, once the sizes of input and output are known.
  void place(std::int64_t height, std::int64_t out_height, std::int64_t width, std::int64_t out_width);

 private:
  enum class Pad { given, valid, same_upper, same_lower } pad_ = Pad::given;
  void place_axis(WindowAxis& axis, std::int64_t input, std::int64_t output) const;
};

}  // namespace quern::cpu
