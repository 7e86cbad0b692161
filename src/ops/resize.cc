// Resampling. Canonical meaning: ONNX Resize-19 without tf_crop_and_resize, antialias and aspect-ratio policies.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/detail/elementwise.h"
#include "ops/registry.h"

namespace quern::ops {
namespace {
using namespace detail;
using ir::Call;
using ir::Op;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// floor(size * scale); of a size not known, when the scale is a fraction with a small denominator.
Dim scaled(const InferContext& c, const Dim& size, double scale) {
  if (!(scale > 0 && scale <= 1e6)) c.fail("a scale is " + std::to_string(scale));
  if (const auto n = size.constant()) {
    const float exact = std::floor(static_cast<float>(*n) * static_cast<float>(scale));  // f32, as ONNX has it
    if (!(exact < 1e15f)) c.fail("makes a size of " + std::to_string(exact));
    return static_cast<std::int64_t>(exact);
  }
  for (std::int64_t denominator = 1; denominator <= 1024; ++denominator) {
    const double numerator = scale * double(denominator);
    if (std::abs(numerator - std::round(numerator)) <= 1e-7 * numerator)
      return floor_div(size * Dim(static_cast<std::int64_t>(std::round(numerator))), denominator);
  }
  c.fail("the size " + size.to_string() + " cannot be scaled by " + std::to_string(scale) + " before it is known");
}

void check_choice(const InferContext& c, const char* attribute, std::initializer_list<std::string_view> choices) {
  const std::string& value = c.node().text(attribute);
  if (std::find(choices.begin(), choices.end(), value) == choices.end())
    c.fail(std::string(attribute) + " '" + value + "' is not supported");
}

void infer_resize(InferContext& c) {
  const ir::Node& n = c.node();
  check_dtype<decltype(Floats{} + Types<std::int8_t, std::uint8_t>{})>(c, 0);
  check_choice(c, "mode", {"nearest", "linear", "cubic"});
  check_choice(c, "coordinate_transformation_mode",
               {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"});
  check_choice(c, "nearest_mode", {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
  check_choice(c, "keep_aspect_ratio_policy", {"stretch"});
  if (n.integer("antialias") != 0) c.fail("antialias is not supported");
  const auto axes = n.integers("axes").empty() ? Ints{} : unique_axes(c, n.integers("axes"), c.rank(0));
  const std::size_t count = axes.empty() ? c.shape(0).size() : axes.size();
  const auto axis = [&](std::size_t i) { return axes.empty() ? i : at(axes[i]); };
  Shape shape = c.shape(0);
  if (c.has(3)) {
    const auto& sizes = c.required_contents(3);
    if (sizes.size() != count) c.fail("input 3 has " + std::to_string(sizes.size()) + " sizes for " + std::to_string(count) + " axes");
    for (std::size_t i = 0; i < count; ++i) shape[axis(i)] = sizes[i];
  } else {
    const auto scales = constant_numbers(c, 2);
    if (!scales) c.fail("the scales (input 2) must be known when the graph is compiled");
    if (scales->size() != count) c.fail("input 2 has " + std::to_string(scales->size()) + " scales for " + std::to_string(count) + " axes");
    for (std::size_t i = 0; i < count; ++i) shape[axis(i)] = scaled(c, shape[axis(i)], scales->at(i));
  }
  c.set_output(0, Type{c.dtype(0), std::move(shape)});
}

/// The input elements that an output coordinate reads along one axis, and their weights.
struct Taps {
  std::int64_t count = 1;
  std::int64_t index[4] = {};
  double weight[4] = {1};
};

struct Axis {
  std::int64_t in = 1, out = 1;
  float scale = 1;
};

/// f32, as the ONNX text and its implementations have it: which of two elements is nearest hangs on the rounding.
float source_position(const Axis& a, std::int64_t x, std::string_view mode) {
  const float half = (static_cast<float>(x) + 0.5f) / a.scale - 0.5f;
  if (mode == "asymmetric") return static_cast<float>(x) / a.scale;
  if (mode == "align_corners")
    return a.out == 1 ? 0.0f : static_cast<float>(x) * static_cast<float>(a.in - 1) / static_cast<float>(a.out - 1);
  if (mode == "pytorch_half_pixel") return a.out > 1 ? half : 0.0f;
  if (mode == "half_pixel_symmetric") {
    const float adjustment = static_cast<float>(a.out) / (a.scale * static_cast<float>(a.in));
    return static_cast<float>(a.in) / 2 * (1 - adjustment) + half;
  }
  return half;
}

Taps nearest(const Axis& a, float position, std::string_view mode) {
  float k = mode == "round_prefer_floor"  ? std::ceil(position - 0.5f)
            : mode == "round_prefer_ceil" ? std::floor(position + 0.5f)
            : mode == "floor"             ? std::floor(position)
                                          : std::ceil(position);
  k = std::clamp(k, 0.0f, static_cast<float>(a.in - 1));
  Taps t;
  t.index[0] = static_cast<std::int64_t>(k);
  return t;
}

Taps linear(const Axis& a, float position) {
  const float p = std::clamp(position, 0.0f, static_cast<float>(a.in - 1));
  Taps t;
  t.count = 2;
  t.index[0] = static_cast<std::int64_t>(p);
  t.index[1] = std::min(t.index[0] + 1, a.in - 1);
  t.weight[1] = double(p) - double(t.index[0]);
  t.weight[0] = 1 - t.weight[1];
  return t;
}

/// Keys' cubic with parameter `coefficient`.
Taps cubic(const Axis& a, float position, double coefficient, bool exclude_outside) {
  const double base = std::floor(double(position)), s = double(position) - base, c = coefficient;
  const double d[4] = {1 + s, s, 1 - s, 2 - s};
  Taps t;
  t.count = 4;
  double sum = 0;
  for (int i = 0; i < 4; ++i) {
    const double x = d[i];
    t.weight[i] = x <= 1 ? ((c + 2) * x - (c + 3)) * x * x + 1 : ((c * x - 5 * c) * x + 8 * c) * x - 4 * c;
    const auto k = static_cast<std::int64_t>(base) + i - 1;
    if (exclude_outside && (k < 0 || k >= a.in)) t.weight[i] = 0;
    t.index[i] = std::clamp<std::int64_t>(k, 0, a.in - 1);
    sum += t.weight[i];
  }
  if (exclude_outside)
    for (double& w : t.weight) w /= sum;
  return t;
}

void resize_reference(const Call& call) {
  const TensorView &x = call.in(0), &y = call.out(0);
  const ir::Node& n = *call.node;
  const std::string_view mode = n.text("mode"), coordinates = n.text("coordinate_transformation_mode"), rounding = n.text("nearest_mode");
  const double coefficient = n.number("cubic_coeff_a");
  const bool exclude_outside = n.integer("exclude_outside") != 0;
  if (x.elements() == 0) {
    std::fill_n(y.data, y.bytes(), std::byte{0});  // there is nothing to read
    return;
  }
  Axis axes[ir::kMaxRank];
  for (std::int64_t a = 0; a < x.rank; ++a) axes[a] = {x.dims[a], y.dims[a], static_cast<float>(y.dims[a]) / static_cast<float>(x.dims[a])};
  if (!call.has(3)) {
    const Ints& named = n.integers("axes");
    for (std::int64_t i = 0, count = call.in(2).elements(); i < count; ++i) {
      const std::int64_t a = named.empty() ? i : named[at(i)];
      axes[a < 0 ? a + x.rank : a].scale = static_cast<float>(number_at(call.in(2), i));
    }
  }
  const auto taps_of = [&](const Axis& a, std::int64_t k) {
    Taps same;
    same.index[0] = std::min(k, a.in - 1);
    if (a.scale == 1 && a.in == a.out) return same;
    const float position = source_position(a, k, coordinates);
    if (mode == "nearest") return nearest(a, position, rounding);
    return mode == "linear" ? linear(a, position) : cubic(a, position, coefficient, exclude_outside);
  };
  const Axes dense = strides_of(x);
  dispatch(decltype(Floats{} + Types<std::int8_t, std::uint8_t>{}){}, x.dtype, [&]<class T>() {
    walk_indices(Box(y), [&](std::int64_t i, const Axes& index) {
      Taps taps[ir::kMaxRank];
      Box box;
      for (std::int64_t a = 0; a < x.rank; ++a) {
        taps[a] = taps_of(axes[a], index[at(a)]);
        box.add(taps[a].count);
      }
      double sum = 0;
      walk_indices(box, [&](std::int64_t, const Axes& tap) {
        double weight = 1;
        std::int64_t from = 0;
        for (std::int64_t a = 0; a < x.rank; ++a) {
          weight *= taps[a].weight[tap[at(a)]];
          from += taps[a].index[tap[at(a)]] * dense[at(a)];
        }
        sum += weight * double(load<T>(x.data, from));
      });
      if constexpr (std::is_integral_v<T>) {
        const double low = double(std::numeric_limits<T>::min()), high = double(std::numeric_limits<T>::max());
        sum = std::clamp(std::trunc(sum), low, high);
      }
      store<T>(y.data, i, sum);
    });
  });
}

}  // namespace

const Op resize{
    .name = "resize",
    .max_inputs = 4,
    .attributes = {{"antialias", 0},
                   {"axes", Ints{}},
                   {"coordinate_transformation_mode", "half_pixel"},
                   {"cubic_coeff_a", -0.75},
                   {"exclude_outside", 0},
                   {"extrapolation_value", 0.0},
                   {"keep_aspect_ratio_policy", "stretch"},
                   {"mode", "nearest"},
                   {"nearest_mode", "round_prefer_floor"}},
    .infer = infer_resize,
    .reference = resize_reference,
};

}  // namespace quern::ops
