#pragma once

#include <string>

#include "ops/detail/infer.h"
#include "ops/detail/walk.h"

namespace quern::ops::detail {

/// The sliding window of convolutions and pools, along each spatial axis.
struct Window {
  Ints strides, dilations, pads;  // pads: begins, then ends
  std::string_view auto_pad;
  bool ceil = false;

  /// Reads strides, dilations, pads, auto_pad and, where the op has it, ceil_mode. An empty list means the default.
  Window(const ir::Node& node, std::size_t spatial);
  /// Errors: lists of a wrong length, numbers out of range.
  void check(const InferContext& c, std::size_t spatial) const;
  Dim output_size(std::size_t axis, const Dim& input, const Dim& kernel) const;
  /// Padding before the first element, once the sizes are known.
  std::int64_t begin_pad(std::size_t axis, std::int64_t input, std::int64_t kernel, std::int64_t output) const;
  std::int64_t end_pad(std::size_t axis, std::int64_t input, std::int64_t kernel, std::int64_t output) const;

 private:
  std::int64_t same_pad(std::size_t axis, std::int64_t input, std::int64_t kernel, std::int64_t output) const;
};

/// A list attribute, or `n` times `fallback` when it is empty.
Ints list_or(const ir::Node& node, std::string_view attribute, std::size_t n, std::int64_t fallback);

/// Errors unless `kernel_shape`, when given, is the weights' spatial shape.
void check_kernel_shape(const InferContext& c, std::size_t weights);

}  // namespace quern::ops::detail
