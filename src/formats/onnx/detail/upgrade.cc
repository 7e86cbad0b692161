#include "formats/onnx/detail/upgrade.h"

#include <algorithm>
#include <limits>

// Each rule brings one operator from the sets before `before` one step nearer to today's form; a node passes all rules of its operator in
// the order of the table. Source: the changelog of the operators in the ONNX specification.
namespace quern::onnx {
namespace {

using ir::Value;
using Integers = std::vector<std::int64_t>;
using Numbers = std::vector<double>;

std::int64_t rank(const Value* v) { return static_cast<std::int64_t>(v->type.shape.size()); }

Value* required(const Draft& d, std::size_t i) {
  if (d.input(i) == nullptr) throw Error(Code::data_corrupt, "input " + std::to_string(i) + " is missing");
  return d.input(i);
}

std::int64_t axis_of(const Draft& d, const Value* x, std::int64_t fallback) {
  const std::int64_t axis = d.integer("axis", fallback);
  if (axis < -rank(x) || axis > rank(x))
    throw Error(Code::invalid_argument, "axis " + std::to_string(axis) + " is outside a tensor of rank " + std::to_string(rank(x)));
  return axis < 0 ? axis + rank(x) : axis;
}

/// An attribute of integers that has become input `i`.
void integers_to_input(Builder& b, Draft& d, std::string_view name, std::size_t i) {
  if (const auto values = d.take<Integers>(name)) d.set_input(i, b.integers(*values));
}

void axes_to_input(Builder& b, Draft& d) { integers_to_input(b, d, "axes", 1); }
void split_to_input(Builder& b, Draft& d) { integers_to_input(b, d, "split", 1); }
void shape_to_input(Builder& b, Draft& d) { integers_to_input(b, d, "shape", 1); }

void slice(Builder& b, Draft& d) {
  integers_to_input(b, d, "starts", 1);
  integers_to_input(b, d, "ends", 2);
  integers_to_input(b, d, "axes", 3);
}

void top_k(Builder& b, Draft& d) {
  if (const auto k = d.take<std::int64_t>("k")) d.set_input(1, b.integers({*k}));
}

void pad_names(Builder&, Draft& d) {
  if (auto pads = d.take<Integers>("paddings")) d.attributes["pads"] = std::move(*pads);
}
void pad(Builder& b, Draft& d) {
  integers_to_input(b, d, "pads", 1);
  if (const auto value = d.take<double>("value")) d.set_input(2, b.scalar(required(d, 0)->type.dtype, *value));
}

void clip(Builder& b, Draft& d) {
  if (const auto low = d.take<double>("min")) d.set_input(1, b.scalar(required(d, 0)->type.dtype, *low));
  if (const auto high = d.take<double>("max")) d.set_input(2, b.scalar(required(d, 0)->type.dtype, *high));
}

/// Until set 6 the second operand was laid along the first one's dimensions from `axis` on; today shapes are aligned at their ends.
void old_broadcast(Builder& b, Draft& d) {
  const bool broadcast = d.take<std::int64_t>("broadcast").value_or(0) != 0;
  const bool has_axis = d.attributes.contains("axis");
  if (broadcast && has_axis) {
    Value* left = required(d, 0);
    Value* right = required(d, 1);
    Integers axes;
    for (std::int64_t i = axis_of(d, left, 0) + rank(right); i < rank(left); ++i)
      axes.push_back(rank(right) + static_cast<std::int64_t>(axes.size()));
    if (!axes.empty()) d.inputs[1] = b.emit("unsqueeze", {right, b.integers(axes)});
  }
  d.attributes.erase("axis");
}

/// Until set 6 a slope a channel was a plain vector along dimension 1.
void old_prelu(Builder& b, Draft& d) {
  const Value* x = required(d, 0);
  Value* slope = required(d, 1);
  if (rank(slope) != 1 || rank(x) < 3 || slope->type.shape[0] == ir::Dim(1)) return;
  Integers axes;
  for (std::int64_t i = 2; i < rank(x); ++i) axes.push_back(i - 1);
  d.inputs[1] = b.emit("unsqueeze", {slope, b.integers(axes)});
}

/// Until set 12 softmax saw its input as a matrix, cut before `axis`.
void softmax_of_matrix(Builder& b, Draft& d) {
  Value* x = required(d, 0);
  const std::int64_t axis = axis_of(d, x, 1);
  d.attributes["axis"] = std::int64_t{-1};
  if (axis + 1 == rank(x)) return;
  Value* flat = b.emit("flatten", {x}, {{"axis", axis}});
  const std::string_view op = d.op == "Softmax" ? "softmax" : d.op == "LogSoftmax" ? "log_softmax" : "hardmax";
  Value* y = b.emit(op, {flat}, {{"axis", std::int64_t{-1}}});
  d.results = {b.emit("reshape", {y, b.emit("shape", {x})})};
}

void upsample_scales(Builder&, Draft& d) {
  const auto height = d.take<double>("height_scale"), width = d.take<double>("width_scale");
  if (height && width) d.attributes["scales"] = Numbers{1, 1, *height, *width};
}
void upsample(Builder& b, Draft& d) {
  if (const auto scales = d.take<Numbers>("scales")) d.set_input(1, b.floats(*scales));
  if (const auto mode = d.take<std::string>("mode")) d.attributes["mode"] = *mode == "bilinear" ? std::string("linear") : *mode;
}
/// Upsample and the first Resize: scales as the second input, output pixel i from input pixel floor(i / scale).
void resize_from_scales(Builder&, Draft& d) {
  Value* scales = required(d, 1);
  d.inputs = {required(d, 0), nullptr, scales};
  d.attributes["coordinate_transformation_mode"] = std::string("asymmetric");
  d.attributes["nearest_mode"] = std::string("floor");
}

/// Inference only: the input passes, whatever the ratio.
void dropout(Builder&, Draft& d) {
  if (const Value* training = d.input(2)) {
    const bool known_off = training->constant && training->constant->bytes == 1 && training->constant->data[0] == std::byte{0};
    if (!known_off) Draft::unsupported("Dropout in training mode");
  }
  d.results = {required(d, 0)};
}

void batch_normalization(Builder&, Draft& d) {
  if (d.take<std::int64_t>("training_mode").value_or(0) != 0) Draft::unsupported("BatchNormalization in training mode");
  if (d.take<std::int64_t>("spatial").value_or(1) == 0) Draft::unsupported("BatchNormalization with statistics per element (spatial = 0)");
}

void cast_names(Builder&, Draft& d) {
  auto name = d.take<std::string>("to");
  if (!name) return;
  std::transform(name->begin(), name->end(), name->begin(),
                 [](unsigned char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : static_cast<char>(c); });
  for (std::int64_t type = 1; data_type_name(type) != "unknown"; ++type)
    if (data_type_name(type) == *name) d.attributes["to"] = type;
}

void concat_axis(Builder&, Draft& d) { d.attributes.try_emplace("axis", std::int64_t{1}); }

void grid_sample_modes(Builder&, Draft& d) {
  const auto mode = d.take<std::string>("mode");
  d.attributes["mode"] = !mode || *mode == "bilinear" ? std::string("linear") : *mode == "bicubic" ? std::string("cubic") : *mode;
}

void group_normalization(Builder&, Draft&) {
  Draft::unsupported("GroupNormalization with scale and bias per group (before operator set 21)");
}

void identity(Builder&, Draft& d) { d.results = {required(d, 0)}; }

void constant(Builder& b, Draft& d) {
  if (const auto found = d.tensors.find("value"); found != d.tensors.end()) {
    d.results = {b.tensor(found->second)};
  } else if (const auto integer = d.take<std::int64_t>("value_int")) {
    d.results = {b.integers({*integer}, true)};
  } else if (const auto integers = d.take<Integers>("value_ints")) {
    d.results = {b.integers(*integers)};
  } else if (const auto number = d.take<double>("value_float")) {
    d.results = {b.floats({*number}, true)};
  } else if (const auto numbers = d.take<Numbers>("value_floats")) {
    d.results = {b.floats(*numbers)};
  } else {
    Draft::unsupported("a Constant that is neither a tensor nor numbers");
  }
}

/// The element that fills the result is an input in the IR, which has no attributes that are tensors.
void constant_of_shape(Builder& b, Draft& d) {
  if (const auto found = d.tensors.find("value"); found != d.tensors.end()) d.set_input(1, b.tensor(found->second));
}

constexpr std::int64_t kAlways = std::numeric_limits<std::int64_t>::max();

struct Rule {
  std::string_view op;
  std::int64_t before;
  void (*apply)(Builder&, Draft&);
};

const Rule kRules[] = {
    {"Add", 7, old_broadcast},
    {"Sub", 7, old_broadcast},
    {"Mul", 7, old_broadcast},
    {"Div", 7, old_broadcast},
    {"Pow", 7, old_broadcast},
    {"And", 7, old_broadcast},
    {"Or", 7, old_broadcast},
    {"Xor", 7, old_broadcast},
    {"Equal", 7, old_broadcast},
    {"Less", 7, old_broadcast},
    {"Greater", 7, old_broadcast},
    {"PRelu", 7, old_prelu},
    {"BatchNormalization", kAlways, batch_normalization},
    {"Cast", 6, cast_names},
    {"Clip", 11, clip},
    {"Concat", 4, concat_axis},
    {"Constant", kAlways, constant},
    {"ConstantOfShape", kAlways, constant_of_shape},
    {"Dropout", kAlways, dropout},
    {"GridSample", 20, grid_sample_modes},
    {"GroupNormalization", 21, group_normalization},
    {"Identity", kAlways, identity},
    {"Pad", 2, pad_names},
    {"Pad", 11, pad},
    {"ReduceL1", 18, axes_to_input},
    {"ReduceL2", 18, axes_to_input},
    {"ReduceLogSum", 18, axes_to_input},
    {"ReduceLogSumExp", 18, axes_to_input},
    {"ReduceMax", 18, axes_to_input},
    {"ReduceMean", 18, axes_to_input},
    {"ReduceMin", 18, axes_to_input},
    {"ReduceProd", 18, axes_to_input},
    {"ReduceSum", 13, axes_to_input},
    {"ReduceSumSquare", 18, axes_to_input},
    {"Reshape", 5, shape_to_input},
    {"Resize", 11, resize_from_scales},
    {"Slice", 10, slice},
    {"Softmax", 13, softmax_of_matrix},
    {"LogSoftmax", 13, softmax_of_matrix},
    {"Hardmax", 13, softmax_of_matrix},
    {"Split", 13, split_to_input},
    {"Squeeze", 13, axes_to_input},
    {"Unsqueeze", 13, axes_to_input},
    {"TopK", 10, top_k},
    {"Upsample", 7, upsample_scales},
    {"Upsample", kAlways, upsample},
    {"Upsample", kAlways, resize_from_scales},
};

}  // namespace

void upgrade(Builder& builder, Draft& draft, std::int64_t opset) {
  for (const Rule& rule : kRules)
    if (rule.op == draft.op && opset < rule.before && draft.results.empty()) rule.apply(builder, draft);
}

}  // namespace quern::onnx
