// Kernels that move elements and change none: transpose, expand, slice, concat, split, pad, gather. Any type; elements are bytes here.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cpu/function_kernel.h"
#include "backends/cpu/kernels/broadcast.h"
#include "base/unaligned.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/layout.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace quern::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// y[r * y_row + c] = x[r + c * x_column] for elements of 4 bytes, four by four in registers.
void TransposeWords(const std::uint32_t* x, std::int64_t x_column, std::uint32_t* y, std::int64_t y_row, std::int64_t rows,
                    std::int64_t columns) {
  const hn::CappedTag<std::uint32_t, 4> d;
  const hn::Repartition<std::uint64_t, decltype(d)> d2;
  std::int64_t c = 0;
  if (hn::Lanes(d) == 4)
    for (; c + 4 <= columns; c += 4) {
      std::int64_t r = 0;
      for (; r + 4 <= rows; r += 4) {
        const std::uint32_t* from = x + r + c * x_column;
        const auto a = hn::LoadU(d, from), b = hn::LoadU(d, from + x_column), e = hn::LoadU(d, from + 2 * x_column),
                   f = hn::LoadU(d, from + 3 * x_column);
        const auto ab = hn::BitCast(d2, hn::InterleaveLower(d, a, b)), ef = hn::BitCast(d2, hn::InterleaveLower(d, e, f));
        const auto ab_high = hn::BitCast(d2, hn::InterleaveUpper(d, a, b)), ef_high = hn::BitCast(d2, hn::InterleaveUpper(d, e, f));
        std::uint32_t* to = y + r * y_row + c;
        hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d2, ab, ef)), d, to);
        hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d2, ab, ef)), d, to + y_row);
        hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d2, ab_high, ef_high)), d, to + 2 * y_row);
        hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d2, ab_high, ef_high)), d, to + 3 * y_row);
      }
      for (; r < rows; ++r)
        for (std::int64_t k = c; k < c + 4; ++k) y[r * y_row + k] = x[r + k * x_column];
    }
  for (; c < columns; ++c)
    for (std::int64_t r = 0; r < rows; ++r) y[r * y_row + c] = x[r + c * x_column];
}

}  // namespace quern::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quern::cpu {
HWY_EXPORT(TransposeWords);

namespace {

using ir::Call;
using ir::TensorView;

constexpr std::int64_t kChunk = 4096;  // elements a unit where runs are walked

std::int64_t element_bytes(const TensorView& view) { return ir::block_bytes(view.dtype); }

/// Elements between neighbours along each axis of a dense tensor.
std::array<std::int64_t, ir::kMaxRank> dense_strides(const TensorView& view) {
  std::array<std::int64_t, ir::kMaxRank> strides{};
  std::int64_t stride = 1;
  for (std::int64_t i = view.rank; i-- > 0; stride *= view.dims[i]) strides[static_cast<std::size_t>(i)] = stride;
  return strides;
}

void copy_bytes(std::byte* to, const std::byte* from, std::int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

/// f.operator()<T>() with an integer of the element's size.
template <class F>
void with_word(std::int64_t bytes, F&& f) {
  switch (bytes) {
    case 1: return f.template operator()<std::uint8_t>();
    case 2: return f.template operator()<std::uint16_t>();
    case 4: return f.template operator()<std::uint32_t>();
    default: return f.template operator()<std::uint64_t>();
  }
}

bool is_plain(ir::DType type) { return ir::block_elements(type) == 1; }

/// Elements [begin, end) of y, read from x along the strides of the loop.
void copy_strided(const Loop<1>& loop, const TensorView& y, const std::byte* x, std::int64_t begin, std::int64_t end) {
  const std::int64_t size = element_bytes(y), stride = loop.inner_strides()[0];
  with_word(size, [&]<class T>() {
    loop.runs(begin, end, [&](std::int64_t i, std::int64_t n, const auto& at) {
      const T* from = reinterpret_cast<const T*>(x) + at[0];
      T* to = y.as<T>() + i;
      if (stride == 1)
        copy_bytes(reinterpret_cast<std::byte*>(to), reinterpret_cast<const std::byte*>(from), n * size);
      else if (stride == 0)
        std::fill(to, to + n, *from);
      else
        for (std::int64_t k = 0; k < n; ++k) to[k] = from[k * stride];
    });
  });
}

plan::Split split_chunks(const Call& call) { return {(call.out(0).elements() + kChunk - 1) / kChunk, 1500}; }

constexpr KernelFunctions kExpand{"expand", split_chunks, [](const Call& call, std::int64_t begin, std::int64_t end, std::byte*) noexcept {
                                    const TensorView& y = call.out(0);
                                    copy_strided(Loop<1>(y, {call.in(0)}), y, call.in(0).data, begin * kChunk,
                                                 std::min(end * kChunk, y.elements()));
                                  }};

// transpose

/// A transpose either keeps runs of elements together (`tiled` false), or swaps the axis that neighbours lie along in x with the last axis
/// of y: then a unit is a band of rows of one such matrix.
struct Transpose {
  static constexpr std::int64_t kBand = 64;

  Loop<1> loop;
  bool tiled = false;
  std::int64_t axis = 0;  // of the loop: the one with stride 1
  std::int64_t rows = 1, y_row = 1, columns = 1, x_column = 1, matrices = 1;

  explicit Transpose(const Call& call) {
    const TensorView &x = call.in(0), &y = call.out(0);
    const auto& perm = call.node->integers("perm");
    const auto dense = dense_strides(x);
    std::int64_t strides[ir::kMaxRank] = {};
    for (std::int64_t i = 0; i < y.rank; ++i)
      strides[i] = dense[static_cast<std::size_t>(perm.empty() ? y.rank - 1 - i : perm[static_cast<std::size_t>(i)])];
    loop = Loop<1>(y, strides);
    for (std::int64_t i = 0; i + 1 < loop.rank; ++i)
      if (loop.strides[i][0] == 1) axis = i, tiled = true;
    if (!tiled) return;
    rows = loop.dims[axis];
    columns = loop.inner();
    x_column = loop.inner_strides()[0];
    for (std::int64_t i = axis + 1; i < loop.rank; ++i) y_row *= loop.dims[i];
    for (std::int64_t i = 0; i + 1 < loop.rank; ++i)
      if (i != axis) matrices *= loop.dims[i];
  }
  std::int64_t bands() const { return (rows + kBand - 1) / kBand; }
  std::int64_t units() const { return tiled ? matrices * bands() : (loop.elements() + kChunk - 1) / kChunk; }

  void run(const Call& call, std::int64_t unit) const {
    const std::int64_t row = unit % bands() * kBand, size = element_bytes(call.out(0));
    std::int64_t x_at = row, y_at = row * y_row, rest = unit / bands(), y_stride = 1;
    for (std::int64_t i = loop.rank; i-- > 0; y_stride *= loop.dims[i]) {
      if (i == axis || i + 1 == loop.rank) continue;
      x_at += rest % loop.dims[i] * loop.strides[i][0];
      y_at += rest % loop.dims[i] * y_stride;
      rest /= loop.dims[i];
    }
    const std::int64_t count = std::min(kBand, rows - row);
    with_word(size, [&]<class T>() {
      const T* x = call.in(0).as<T>() + x_at;
      T* y = call.out(0).as<T>() + y_at;
      if constexpr (sizeof(T) == 4) {
        HWY_DYNAMIC_DISPATCH(TransposeWords)(x, x_column, y, y_row, count, columns);
      } else {
        for (std::int64_t c = 0; c < columns; ++c)
          for (std::int64_t r = 0; r < count; ++r) y[r * y_row + c] = x[r + c * x_column];
      }
    });
  }
};

constexpr KernelFunctions kTranspose{
    "transpose",
    [](const Call& call) {
      const Transpose t(call);
      return plan::Split{t.units(), t.tiled ? 20 + 0.5 * double(std::min(t.rows, Transpose::kBand) * t.columns) : 1500};
    },
    [](const Call& call, std::int64_t begin, std::int64_t end, std::byte*) noexcept {
      const Transpose t(call);
      const TensorView& y = call.out(0);
      if (!t.tiled) return copy_strided(t.loop, y, call.in(0).data, begin * kChunk, std::min(end * kChunk, y.elements()));
      for (std::int64_t unit = begin; unit < end; ++unit) t.run(call, unit);
    }};

// slice

std::int64_t integer_at(const TensorView& view, std::int64_t i) {
  if (view.dtype == ir::DType::i32) return load<std::int32_t>(view.data + i * 4);
  return load<std::int64_t>(view.data + i * 8);
}

constexpr KernelFunctions kSlice{
    "slice", split_chunks, [](const Call& call, std::int64_t begin, std::int64_t end, std::byte*) noexcept {
      const TensorView &x = call.in(0), &y = call.out(0);
      const auto dense = dense_strides(x);
      std::int64_t first[ir::kMaxRank] = {}, step[ir::kMaxRank];
      std::fill(step, step + ir::kMaxRank, 1);
      for (std::int64_t i = 0, n = call.in(1).elements(); i < n; ++i) {
        std::int64_t axis = call.has(3) ? integer_at(call.in(3), i) : i;
        if (axis < 0) axis += x.rank;
        const std::int64_t size = x.dims[axis];
        std::int64_t start = integer_at(call.in(1), i);
        step[axis] = call.has(4) ? integer_at(call.in(4), i) : 1;
        if (start < 0) start = start < -size ? -1 : start + size;  // -1: before the first, wherever that clamps to
        first[axis] = std::clamp<std::int64_t>(start, 0, std::max<std::int64_t>(0, step[axis] > 0 ? size : size - 1));
      }
      std::int64_t offset = 0, strides[ir::kMaxRank] = {};
      for (std::int64_t a = 0; a < x.rank; ++a) {
        const std::int64_t last = y.dims[a] > 1 ? first[a] + (y.dims[a] - 1) * step[a] : first[a];
        // Sizes agree with the numbers that they were inferred from; a kernel that trusts them would still read what is not its own.
        if (y.dims[a] > 0 && (last < 0 || last >= x.dims[a])) return call.fail("the slice lies outside its input");
        offset += first[a] * dense[static_cast<std::size_t>(a)];
        strides[a] = y.dims[a] > 1 ? step[a] * dense[static_cast<std::size_t>(a)] : 0;
      }
      copy_strided(Loop<1>(y, strides), y, x.data + offset * element_bytes(x), begin * kChunk, std::min(end * kChunk, y.elements()));
    }};

// concat and split: rows of the one tensor are rows of the others, end to end

std::int64_t product(const TensorView& view, std::int64_t begin, std::int64_t end) {
  std::int64_t n = 1;
  for (std::int64_t i = begin; i < end; ++i) n *= view.dims[i];
  return n;
}
std::int64_t axis_of(const Call& call, const TensorView& view) {
  const std::int64_t axis = call.node->integer("axis");
  return axis < 0 ? axis + view.rank : axis;
}
std::int64_t row_bytes(const TensorView& view, std::int64_t axis) { return product(view, axis, view.rank) * element_bytes(view); }

plan::Split split_rows(const Call& call, const TensorView& whole) {
  const std::int64_t axis = axis_of(call, whole);
  return {product(whole, 0, axis), 20 + 0.1 * double(row_bytes(whole, axis))};
}

/// Copies rows [begin, end) between `whole` and `parts`, `to_parts` or from them.
void copy_parts(const Call& call, const TensorView& whole, const TensorView* const* parts, std::size_t count, bool to_parts,
                std::int64_t begin, std::int64_t end) {
  const std::int64_t axis = axis_of(call, whole), pitch = row_bytes(whole, axis);
  std::int64_t done = 0;
  for (std::size_t k = 0; k < count; ++k) {
    const std::int64_t bytes = std::min(row_bytes(*parts[k], axis), pitch - done);
    for (std::int64_t row = begin; row < end; ++row) {
      std::byte *inside = whole.data + row * pitch + done, *part = parts[k]->data + row * bytes;
      copy_bytes(to_parts ? part : inside, to_parts ? inside : part, bytes);
    }
    done += bytes;
  }
}

constexpr KernelFunctions kConcat{"concat", [](const Call& call) { return split_rows(call, call.out(0)); },
                                  [](const Call& call, std::int64_t begin, std::int64_t end, std::byte*) noexcept {
                                    copy_parts(call, call.out(0), call.inputs, call.node->inputs.size(), false, begin, end);
                                  }};
constexpr KernelFunctions kSplit{"split", [](const Call& call) { return split_rows(call, call.in(0)); },
                                 [](const Call& call, std::int64_t begin, std::int64_t end, std::byte*) noexcept {
                                   copy_parts(call, call.in(0), call.outputs, call.node->outputs.size(), true, begin, end);
                                 }};

// pad by a constant or by the elements at the edge

struct Pad {
  std::int64_t before[ir::kMaxRank] = {};
  std::int64_t axis = 0;   // the last that is padded; y is rows of this axis and those after it
  std::int64_t inner = 1;  // elements of the axes after it

  explicit Pad(const Call& call) {
    const TensorView &x = call.in(0), &y = call.out(0);
    for (std::int64_t i = 0, n = call.in(1).elements() / 2; i < n; ++i) {
      const std::int64_t a = call.has(3) ? integer_at(call.in(3), i) : i;
      before[a < 0 ? a + x.rank : a] = integer_at(call.in(1), i);
    }
    axis = y.rank - 1;
    while (axis > 0 && before[axis] == 0 && x.dims[axis] == y.dims[axis]) inner *= y.dims[axis--];
  }
};

constexpr KernelFunctions kPad{
    "pad", split_chunks, [](const Call& call, std::int64_t begin, std::int64_t end, std::byte*) noexcept {
      const TensorView &x = call.in(0), &y = call.out(0);
      const Pad pad(call);
      const auto dense = dense_strides(x);
      const bool edge = call.node->text("mode") == "edge" && x.elements() > 0;
      const std::int64_t axis = pad.axis, inner = pad.inner, length = y.dims[axis] * inner, x_length = x.dims[axis] * inner;
      const std::int64_t last = std::min(end * kChunk, y.elements());
      with_word(element_bytes(y), [&]<class T>() {
        const T fill = call.has(2) ? *call.in(2).as<T>() : T(0);
        for (std::int64_t at = begin * kChunk; at < last;) {
          const std::int64_t row = at / length, row_begin = at - row * length, row_end = std::min(length, last - row * length);
          at = row * length + row_end;
          std::int64_t from = 0;
          bool inside = true;
          for (std::int64_t a = axis, rest = row; a-- > 0; rest /= y.dims[a]) {
            std::int64_t k = rest % y.dims[a] - pad.before[a];
            if (edge) k = std::clamp<std::int64_t>(k, 0, x.dims[a] - 1);
            inside = inside && k >= 0 && k < x.dims[a];
            from += k * dense[static_cast<std::size_t>(a)];
          }
          T* to = y.as<T>() + row * length;
          if (!inside) {
            std::fill(to + row_begin, to + row_end, fill);
            continue;
          }
          const T* source = x.as<T>() + from;
          const std::int64_t shift = pad.before[axis] * inner;
          const std::int64_t low = std::clamp(shift, row_begin, row_end), high = std::clamp(shift + x_length, low, row_end);
          for (std::int64_t i = row_begin; i < low; ++i) to[i] = edge ? source[i % inner] : fill;
          copy_bytes(reinterpret_cast<std::byte*>(to + low), reinterpret_cast<const std::byte*>(source + low - shift),
                     (high - low) * std::int64_t(sizeof(T)));
          for (std::int64_t i = high; i < row_end; ++i) to[i] = edge ? source[x_length - inner + i % inner] : fill;
        }
      });
    }};

// gather: a unit is one slice, named by one index

constexpr KernelFunctions kGather{
    "gather",
    [](const Call& call) {
      const std::int64_t axis = axis_of(call, call.in(0));
      return plan::Split{product(call.in(0), 0, axis) * call.in(1).elements(), 10 + 0.1 * double(row_bytes(call.in(0), axis + 1))};
    },
    [](const Call& call, std::int64_t begin, std::int64_t end, std::byte*) noexcept {
      const TensorView &x = call.in(0), &y = call.out(0);
      const std::int64_t axis = axis_of(call, x), size = x.dims[axis], n = call.in(1).elements(), bytes = row_bytes(x, axis + 1);
      for (std::int64_t unit = begin; unit < end; ++unit) {
        std::int64_t i = integer_at(call.in(1), unit % n);
        if (i < 0) i += size;
        if (i >= 0 && i < size) {
          copy_bytes(y.data + unit * bytes, x.data + (unit / n * size + i) * bytes, bytes);
        } else if (bytes > 0) {  // zeros, so that what comes after in this failed run is the same every time
          std::memset(y.data + unit * bytes, 0, static_cast<std::size_t>(bytes));
          call.fail("an index is outside its axis");
        }
      }
    }};

std::unique_ptr<plan::Kernel> for_plain(const ir::Node& node, const KernelFunctions& functions) {
  return is_plain(node.inputs[0]->type.dtype) && !node.inputs[0]->type.shape.empty() ? make_kernel(functions) : nullptr;
}

}  // namespace

std::unique_ptr<plan::Kernel> lower_transpose(const ir::Node& node) { return for_plain(node, kTranspose); }
std::unique_ptr<plan::Kernel> lower_concat(const ir::Node& node) { return for_plain(node, kConcat); }
std::unique_ptr<plan::Kernel> lower_split(const ir::Node& node) { return for_plain(node, kSplit); }
std::unique_ptr<plan::Kernel> lower_gather(const ir::Node& node) { return for_plain(node, kGather); }
std::unique_ptr<plan::Kernel> lower_slice(const ir::Node& node) { return for_plain(node, kSlice); }
std::unique_ptr<plan::Kernel> lower_expand(const ir::Node& node) {
  return is_plain(node.inputs[0]->type.dtype) ? make_kernel(kExpand) : nullptr;
}
std::unique_ptr<plan::Kernel> lower_pad(const ir::Node& node) {
  return node.text("mode") == "constant" || node.text("mode") == "edge" ? for_plain(node, kPad) : nullptr;
}

}  // namespace quern::cpu
#endif  // HWY_ONCE
