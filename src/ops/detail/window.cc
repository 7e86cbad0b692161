#include "ops/detail/window.h"

#include <algorithm>

namespace quern::ops::detail {

constexpr std::int64_t kLimit = std::int64_t(1) << 40;  // far past any real window, and no sum of such numbers overflows

Ints list_or(const ir::Node& node, std::string_view attribute, std::size_t n, std::int64_t fallback) {
  const auto found = node.attributes.find(attribute);
  if (found != node.attributes.end())
    if (const auto* list = std::get_if<Ints>(&found->second); list != nullptr && !list->empty()) return *list;
  return Ints(n, fallback);
}

Window::Window(const ir::Node& node, std::size_t spatial)
    : strides(list_or(node, "strides", spatial, 1)),
      dilations(list_or(node, "dilations", spatial, 1)),
      pads(list_or(node, "pads", 2 * spatial, 0)),
      auto_pad(node.text("auto_pad")) {
  if (node.attributes.contains("ceil_mode")) ceil = node.integer("ceil_mode") != 0;
}

void Window::check(const InferContext& c, std::size_t spatial) const {
  if (strides.size() != spatial || dilations.size() != spatial || pads.size() != 2 * spatial)
    c.fail("strides, dilations or pads do not have " + std::to_string(spatial) + " axes");
  const auto within = [](const Ints& v, std::int64_t low) {
    return std::all_of(v.begin(), v.end(), [&](auto x) { return x >= low && x <= kLimit; });
  };
  if (!within(strides, 1) || !within(dilations, 1) || !within(pads, 0)) c.fail("strides, dilations or pads are out of range");
  if (auto_pad != "NOTSET" && auto_pad != "VALID" && auto_pad != "SAME_UPPER" && auto_pad != "SAME_LOWER")
    c.fail("auto_pad '" + std::string(auto_pad) + "' does not exist");
}

Dim Window::output_size(std::size_t axis, const Dim& input, const Dim& kernel) const {
  const std::int64_t stride = strides[axis];
  if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") return ceil_div(input, stride);
  const std::int64_t half = static_cast<std::int64_t>(pads.size() / 2);
  const bool valid = auto_pad == "VALID";
  const std::int64_t before = valid ? 0 : pads[axis], after = valid ? 0 : pads[axis + static_cast<std::size_t>(half)];
  const Dim room = input + before + after - ((kernel - 1) * Dim(dilations[axis]) + 1);
  if (!ceil) return floor_div(room, stride) + 1;
  return smaller(ceil_div(room, stride) + 1, ceil_div(input + before, stride));  // no window starts in the padding at the end
}

std::int64_t Window::same_pad(std::size_t axis, std::int64_t input, std::int64_t kernel, std::int64_t output) const {
  return std::max<std::int64_t>(0, (output - 1) * strides[axis] + (kernel - 1) * dilations[axis] + 1 - input);
}

std::int64_t Window::begin_pad(std::size_t axis, std::int64_t input, std::int64_t kernel, std::int64_t output) const {
  if (auto_pad == "NOTSET") return pads[axis];
  if (auto_pad == "VALID") return 0;
  const std::int64_t total = same_pad(axis, input, kernel, output);
  return auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
}

std::int64_t Window::end_pad(std::size_t axis, std::int64_t input, std::int64_t kernel, std::int64_t output) const {
  if (auto_pad == "NOTSET") return pads[axis + pads.size() / 2];
  if (auto_pad == "VALID") return 0;
  return same_pad(axis, input, kernel, output) - begin_pad(axis, input, kernel, output);
}

void check_kernel_shape(const InferContext& c, std::size_t weights) {
  const Shape& w = c.shape(weights);
  const Ints& kernel = c.node().integers("kernel_shape");
  if (kernel.empty()) return;
  if (kernel.size() + 2 != w.size()) c.fail("kernel_shape has " + std::to_string(kernel.size()) + " axes for weights " + ir::to_string(w));
  for (std::size_t i = 0; i < kernel.size(); ++i) same_size(c, kernel[i], w[i + 2]);
}

}  // namespace quern::ops::detail
