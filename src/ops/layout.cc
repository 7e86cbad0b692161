// Ops that move elements by a rule of their indices. Canonical meaning: ONNX Transpose-21, Concat-13, Split-18, Slice-13, Pad-21, Tile-13,
// DepthToSpace-13, SpaceToDepth-13, Trilu-14.
#include <cstring>
#include <limits>

#include "ops/detail/cost.h"
#include "ops/detail/elementwise.h"
#include "ops/registry.h"

namespace quern::ops {
namespace {
using namespace detail;
using ir::Call;
using ir::Op;
using ir::Trait;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// transpose

/// `perm`, or the axes reversed when it is empty.
std::int64_t source_axis(const ir::Node& n, std::int64_t rank, std::int64_t i) {
  const auto& perm = n.integers("perm");
  return perm.empty() ? rank - 1 - i : perm[at(i)];
}

void infer_transpose(InferContext& c) {
  check_dtype<Plain>(c, 0);
  const auto& perm = c.node().integers("perm");
  const std::int64_t rank = c.rank(0);
  if (!perm.empty()) {
    for (const std::int64_t axis : perm)
      if (axis < 0) c.fail("perm has a negative axis");
    if (static_cast<std::int64_t>(unique_axes(c, perm, rank).size()) != rank) c.fail("perm does not name every axis");
  }
  Shape shape;
  for (std::int64_t i = 0; i < rank; ++i) shape.push_back(c.shape(0)[at(source_axis(c.node(), rank, i))]);
  c.set_output(0, Type{c.dtype(0), std::move(shape)});
  if (rank <= 1) keep_contents(c);
}

void transpose_reference(const Call& call) {
  const TensorView &x = call.in(0), &y = call.out(0);
  const Axes from = strides_of(x);
  Axes strides{};
  for (std::int64_t i = 0; i < x.rank; ++i) strides[at(i)] = from[at(source_axis(*call.node, x.rank, i))];
  const std::int64_t size = element_bytes(x);
  walk(Box(y), std::array<Axes, 1>{strides}, [&](std::int64_t i, std::int64_t ix) { copy_element(y.data, i, x.data, ix, size); });
}

// concat and split

void infer_concat(InferContext& c) {
  check_dtype<Plain>(c, 0);
  Shape shape = c.shape(0);
  const auto axis = at(c.axis(c.node().integer("axis"), c.rank(0)));
  for (std::size_t i = 1; i < c.inputs(); ++i) {
    check_same_dtype(c, {0, i});
    check_rank(c, i, c.rank(0), c.rank(0));
    for (std::size_t k = 0; k < shape.size(); ++k) shape[k] = k == axis ? shape[k] + c.shape(i)[k] : same_size(c, shape[k], c.shape(i)[k]);
  }
  const Type type{c.dtype(0), std::move(shape)};
  c.set_output(0, type);
  if (!may_have_contents(type)) return;
  std::vector<Dim> contents;
  for (std::size_t i = 0; i < c.inputs(); ++i) {
    const auto* part = c.contents(i);
    if (part == nullptr) return;
    contents.insert(contents.end(), part->begin(), part->end());
  }
  c.set_contents(0, std::move(contents));
}

/// Copies `rows` runs of `bytes` each from one pitch to another.
void copy_rows(std::byte* to, std::int64_t to_pitch, const std::byte* from, std::int64_t from_pitch, std::int64_t rows,
               std::int64_t bytes) {
  if (bytes <= 0) return;
  for (std::int64_t i = 0; i < rows; ++i) std::memcpy(to + i * to_pitch, from + i * from_pitch, static_cast<std::size_t>(bytes));
}

void concat_reference(const Call& call) {
  const TensorView& y = call.out(0);
  const std::int64_t axis = call.node->integer("axis");
  const Split3 whole = split_at(y, axis);
  const std::int64_t unit = whole.inner * element_bytes(y);
  std::int64_t done = 0;
  for (std::size_t k = 0; k < call.node->inputs.size(); ++k) {
    const std::int64_t size = std::min(split_at(call.in(k), axis).size, whole.size - done);
    copy_rows(y.data + done * unit, whole.size * unit, call.in(k).data, size * unit, whole.outer, size * unit);
    done += size;
  }
}

void infer_split(InferContext& c) {
  check_dtype<Plain>(c, 0);
  const auto axis = at(c.axis(c.node().integer("axis"), c.rank(0)));
  const std::size_t parts = c.node().outputs.size();
  std::vector<Dim> sizes;
  if (c.has(1)) {
    sizes = c.required_contents(1);
    if (sizes.size() != parts) c.fail("input 1 has " + std::to_string(sizes.size()) + " sizes for " + std::to_string(parts) + " outputs");
    Dim sum = 0;
    for (const Dim& d : sizes) sum = sum + d;
    same_size(c, sum, c.shape(0)[axis]);
  } else {
    const Dim total = c.shape(0)[axis], each = ceil_div(total, static_cast<std::int64_t>(parts));  // the last may be smaller
    sizes.assign(parts - 1, each);
    sizes.push_back(total - each * Dim(static_cast<std::int64_t>(parts) - 1));
  }
  const auto* contents = c.contents(0);
  std::size_t begin = 0;
  for (std::size_t i = 0; i < parts; ++i) {
    Shape shape = c.shape(0);
    shape[axis] = sizes[i];
    const Type type{c.dtype(0), std::move(shape)};
    c.set_output(i, type);
    const auto count = sizes[i].constant();
    if (contents == nullptr || !may_have_contents(type)) continue;
    if (!count || *count < 0 || begin + at(*count) > contents->size()) {
      contents = nullptr;  // from here on no one knows where a part begins
      continue;
    }
    c.set_contents(
        i, {contents->begin() + static_cast<std::ptrdiff_t>(begin), contents->begin() + static_cast<std::ptrdiff_t>(begin + at(*count))});
    begin += at(*count);
  }
}

void split_reference(const Call& call) {
  const TensorView& x = call.in(0);
  const std::int64_t axis = call.node->integer("axis");
  const Split3 whole = split_at(x, axis);
  const std::int64_t unit = whole.inner * element_bytes(x);
  std::int64_t done = 0;
  for (std::size_t k = 0; k < call.node->outputs.size(); ++k) {
    const std::int64_t size = std::min(split_at(call.out(k), axis).size, whole.size - done);
    copy_rows(call.out(k).data, size * unit, x.data + done * unit, whole.size * unit, whole.outer, size * unit);
    done += size;
  }
}

// slice

constexpr std::int64_t kEnd = std::numeric_limits<std::int32_t>::max();  // this and anything larger means "to the end"

/// A start or end brought into [low, high] of an axis of the given size, as Python does.
Dim clamp_index(const Dim& v, const Dim& size, const Dim& low, const Dim& high) {
  if (const auto value = v.constant()) {
    if (*value >= kEnd) return high;
    if (*value <= -kEnd) return low;
  }
  Dim index = v;
  if (v.upper_bound().value_or(0) < 0)
    index = v + size;
  else if (v.lower_bound().value_or(-1) < 0)
    index = v + size * smaller(1, larger(0, Dim(0) - v));  // + size when negative, in one formula
  return larger(low, smaller(index, high));
}

void infer_slice(InferContext& c) {
  check_dtype<Plain>(c, 0);
  const auto &starts = c.required_contents(1), &ends = c.required_contents(2);
  Ints axes, steps(starts.size(), 1);
  for (std::size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  if (c.has(3)) axes = required_numbers(c, 3);
  if (c.has(4)) steps = required_numbers(c, 4);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    c.fail("starts, ends, axes and steps differ in length");
  axes = unique_axes(c, axes, c.rank(0));
  Shape shape = c.shape(0);
  std::vector<Dim> first = std::vector<Dim>(shape.size(), 0);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const Dim size = shape[at(axes[i])];
    if (steps[i] == 0 || steps[i] == std::numeric_limits<std::int64_t>::min()) c.fail("a step is " + std::to_string(steps[i]));
    if (steps[i] > 0) {
      const Dim begin = clamp_index(starts[i], size, 0, size), end = clamp_index(ends[i], size, 0, size);
      shape[at(axes[i])] = larger(0, steps[i] >= kEnd ? smaller(1, end - begin) : ceil_div(end - begin, steps[i]));
      first[at(axes[i])] = begin;
    } else {
      const Dim begin = clamp_index(starts[i], size, 0, size - 1), end = clamp_index(ends[i], size, -1, size - 1);
      shape[at(axes[i])] = larger(0, steps[i] <= -kEnd ? smaller(1, begin - end) : ceil_div(begin - end, -steps[i]));
      first[at(axes[i])] = begin;
    }
  }
  const Type type{c.dtype(0), shape};
  c.set_output(0, type);
  const auto* contents = c.contents(0);
  if (contents == nullptr || !may_have_contents(type) || shape.size() != 1) return;
  const auto count = shape[0].constant(), begin = first[0].constant();
  if (!count || !begin) return;
  std::vector<Dim> out;
  for (std::int64_t i = 0; i < *count; ++i) out.push_back(contents->at(at(*begin + i * (steps.empty() ? 1 : steps[0]))));
  c.set_contents(0, std::move(out));
}

void slice_reference(const Call& call) {
  const TensorView &x = call.in(0), &y = call.out(0);
  Axes first{}, step{};
  step.fill(1);
  for (std::int64_t i = 0, n = call.in(1).elements(); i < n; ++i) {
    std::int64_t axis = call.has(3) ? integer_at(call.in(3), i) : i;
    if (axis < 0) axis += x.rank;
    const std::int64_t size = x.dims[axis];
    std::int64_t start = integer_at(call.in(1), i);
    step[at(axis)] = call.has(4) ? integer_at(call.in(4), i) : 1;
    if (start < 0) start = start < -size ? -1 : start + size;  // -1: before the first, wherever that clamps to
    first[at(axis)] = std::clamp<std::int64_t>(start, 0, std::max<std::int64_t>(0, step[at(axis)] > 0 ? size : size - 1));
  }
  const Axes dense = strides_of(x);
  const std::int64_t size = element_bytes(x);
  walk_indices(Box(y), [&](std::int64_t i, const Axes& index) {
    std::int64_t from = 0;
    for (std::int64_t a = 0; a < x.rank; ++a) {
      // The clamp never acts when the output has the size that inference gave it.
      const std::int64_t k = index[at(a)] == 0 ? first[at(a)] : first[at(a)] + index[at(a)] * step[at(a)];
      from += std::clamp<std::int64_t>(k, 0, x.dims[a] - 1) * dense[at(a)];
    }
    if (x.elements() > 0) copy_element(y.data, i, x.data, from, size);
  });
}

// pad

void infer_pad(InferContext& c) {
  const std::string& mode = c.node().text("mode");
  if (mode != "constant" && mode != "edge" && mode != "reflect" && mode != "wrap") c.fail("the mode '" + mode + "' does not exist");
  check_dtype<Plain>(c, 0);
  if (c.has(2)) {
    check_same_dtype(c, {0, 2});
    if (known_count(c, 2) != 1) c.fail("input 2 must be a scalar");
  }
  Ints axes;
  if (c.has(3))
    axes = required_numbers(c, 3);
  else
    for (std::int64_t i = 0; i < c.rank(0); ++i) axes.push_back(i);
  axes = unique_axes(c, axes, c.rank(0));
  const auto& pads = c.required_contents(1);
  if (pads.size() != 2 * axes.size())
    c.fail("input 1 has " + std::to_string(pads.size()) + " numbers for " + std::to_string(axes.size()) + " axes");
  Shape shape = c.shape(0);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    Dim& d = shape[at(axes[i])];
    if (mode != "constant" && d == Dim(0) && !(pads[i] + pads[i + axes.size()] == Dim(0)))
      c.fail("an empty axis cannot be padded by its own elements");
    d = d + pads[i] + pads[i + axes.size()];
  }
  c.set_output(0, Type{c.dtype(0), std::move(shape)});
}

enum class PadMode { constant, edge, reflect, wrap };

/// Where index i of a padded axis comes from in [0, size); -1 where it is padding by a constant.
std::int64_t pad_source(std::int64_t i, std::int64_t size, PadMode mode) {
  if (i >= 0 && i < size) return i;
  if (mode == PadMode::constant || size <= 0) return -1;
  if (mode == PadMode::edge) return i < 0 ? 0 : size - 1;
  const std::int64_t period = mode == PadMode::wrap ? size : std::max<std::int64_t>(1, 2 * (size - 1));
  const std::int64_t k = ((i % period) + period) % period;
  return k < size ? k : period - k;
}

void pad_reference(const Call& call) {
  const TensorView &x = call.in(0), &y = call.out(0);
  const std::string& name = call.node->text("mode");
  const PadMode mode = name == "constant" ? PadMode::constant
                       : name == "edge"   ? PadMode::edge
                       : name == "wrap"   ? PadMode::wrap
                                          : PadMode::reflect;
  Axes before{};
  const std::int64_t padded = call.in(1).elements() / 2;
  for (std::int64_t i = 0; i < padded; ++i) {
    std::int64_t axis = call.has(3) ? integer_at(call.in(3), i) : i;
    if (axis < 0) axis += x.rank;
    before[at(axis)] = integer_at(call.in(1), i);
  }
  static constexpr std::byte kZero[8] = {};
  const Axes dense = strides_of(x);
  const std::int64_t size = element_bytes(x);
  walk_indices(Box(y), [&](std::int64_t i, const Axes& index) {
    std::int64_t from = 0;
    bool padding = false;
    for (std::int64_t a = 0; a < x.rank; ++a) {
      const std::int64_t k = pad_source(index[at(a)] - before[at(a)], x.dims[a], mode);
      padding = padding || k < 0;
      from += k * dense[at(a)];
    }
    if (padding)
      copy_element(y.data, i, call.has(2) ? call.in(2).data : kZero, 0, size);
    else
      copy_element(y.data, i, x.data, from, size);
  });
}

// tile

void infer_tile(InferContext& c) {
  check_dtype<Plain>(c, 0);
  const auto& repeats = c.required_contents(1);
  if (static_cast<std::int64_t>(repeats.size()) != c.rank(0)) c.fail("input 1 must have one number for each axis of input 0");
  Shape shape = c.shape(0);
  for (std::size_t i = 0; i < shape.size(); ++i) shape[i] = shape[i] * repeats[i];
  c.set_output(0, Type{c.dtype(0), shape});
  const auto* contents = c.contents(0);
  const auto times = shape.size() == 1 ? repeats[0].constant() : std::nullopt;
  if (contents == nullptr || !times || *times > 64 || !may_have_contents(c.node().outputs[0]->type) ||
      *times * static_cast<std::int64_t>(contents->size()) > 64)
    return;
  std::vector<Dim> out;
  for (std::int64_t i = 0; i < *times; ++i) out.insert(out.end(), contents->begin(), contents->end());
  c.set_contents(0, std::move(out));
}

void tile_reference(const Call& call) {
  const TensorView &x = call.in(0), &y = call.out(0);
  const Axes dense = strides_of(x);
  const std::int64_t size = element_bytes(x);
  walk_indices(Box(y), [&](std::int64_t i, const Axes& index) {
    std::int64_t from = 0;
    for (std::int64_t a = 0; a < x.rank; ++a) from += index[at(a)] % x.dims[a] * dense[at(a)];
    copy_element(y.data, i, x.data, from, size);
  });
}

// depth_to_space and space_to_depth

void infer_blocks(InferContext& c, bool to_space) {
  check_dtype<Plain>(c, 0);
  check_rank(c, 0, 4, 4);
  const std::int64_t b = c.node().integer("blocksize");
  if (b < 1 || b > 65536) c.fail("blocksize is " + std::to_string(b));
  const Shape& s = c.shape(0);
  const auto part = [&](const Dim& d, std::int64_t n) {
    if (const auto v = d.constant(); v && *v % n != 0) c.fail("a size of " + d.to_string() + " is no multiple of " + std::to_string(n));
    return floor_div(d, n);
  };
  c.set_output(0, Type{c.dtype(0), to_space ? Shape{s[0], part(s[1], b * b), s[2] * Dim(b), s[3] * Dim(b)}
                                            : Shape{s[0], s[1] * Dim(b * b), part(s[2], b), part(s[3], b)}});
}

void depth_to_space_reference(const Call& call) {
  const TensorView &x = call.in(0), &y = call.out(0);
  const std::int64_t b = call.node->integer("blocksize"), depth = y.dims[1], size = element_bytes(x);
  const bool column_first = call.node->text("mode") == "CRD";
  const Axes dense = strides_of(x);
  walk_indices(Box(y), [&](std::int64_t i, const Axes& p) {
    const std::int64_t cell = p[2] % b * b + p[3] % b, channel = column_first ? p[1] * b * b + cell : cell * depth + p[1];
    copy_element(y.data, i, x.data, p[0] * dense[0] + channel * dense[1] + p[2] / b * dense[2] + p[3] / b, size);
  });
}

void space_to_depth_reference(const Call& call) {
  const TensorView &x = call.in(0), &y = call.out(0);
  const std::int64_t b = call.node->integer("blocksize"), depth = x.dims[1], size = element_bytes(x);
  const Axes dense = strides_of(x);
  walk_indices(Box(y), [&](std::int64_t i, const Axes& p) {
    const std::int64_t cell = p[1] / depth, row = p[2] * b + cell / b, column = p[3] * b + cell % b;
    copy_element(y.data, i, x.data, p[0] * dense[0] + p[1] % depth * dense[1] + row * dense[2] + column, size);
  });
}

// trilu

void infer_trilu(InferContext& c) {
  check_rank(c, 0, 2, ir::kMaxRank);
  if (c.has(1) && known_count(c, 1) != 1) c.fail("input 1 must be a scalar");
  infer_same_of<Plain>(c);
}

void trilu_reference(const Call& call) {
  const TensorView &x = call.in(0), &y = call.out(0);
  const bool upper = call.node->integer("upper") != 0;
  const std::int64_t k = call.has(1) ? integer_at(call.in(1), 0) : 0, size = element_bytes(x);
  static constexpr std::byte kZero[8] = {};
  walk_indices(Box(y), [&](std::int64_t i, const Axes& index) {
    const std::int64_t row = index[at(x.rank - 2)], column = index[at(x.rank - 1)];
    const bool keep = upper ? column - row >= k : column - row <= k;
    copy_element(y.data, i, keep ? x.data : kZero, keep ? i : 0, size);
  });
}

}  // namespace

const Op transpose{.name = "transpose", .attributes = {{"perm", Ints{}}}, .infer = infer_transpose, .reference = transpose_reference};
const Op concat{
    .name = "concat", .max_inputs = Op::kVariadic, .attributes = {{"axis", {}}}, .infer = infer_concat, .reference = concat_reference};
/// `outputs` is the number of parts (ONNX num_outputs, or the length of its `split`).
const Op split{.name = "split",
               .max_inputs = 2,
               .outputs = Op::kVariadic,
               .attributes = {{"axis", 0}, {"outputs", {}}},
               .infer = infer_split,
               .reference = split_reference};
const Op slice{
    .name = "slice", .min_inputs = 3, .max_inputs = 5, .infer = infer_slice, .reference = slice_reference, .touched_bytes = picked_bytes};
const Op pad{
    .name = "pad", .min_inputs = 2, .max_inputs = 4, .attributes = {{"mode", "constant"}}, .infer = infer_pad, .reference = pad_reference};
const Op tile{.name = "tile", .min_inputs = 2, .max_inputs = 2, .infer = infer_tile, .reference = tile_reference};
const Op depth_to_space{.name = "depth_to_space",
                        .attributes = {{"blocksize", {}}, {"mode", "DCR"}},
                        .infer = [](InferContext& c) { infer_blocks(c, true); },
                        .reference = depth_to_space_reference};
const Op space_to_depth{.name = "space_to_depth",
                        .attributes = {{"blocksize", {}}},
                        .infer = [](InferContext& c) { infer_blocks(c, false); },
                        .reference = space_to_depth_reference};
const Op trilu{.name = "trilu", .max_inputs = 2, .attributes = {{"upper", 1}}, .infer = infer_trilu, .reference = trilu_reference};

}  // namespace quern::ops
