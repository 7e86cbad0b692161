// Comparisons, truth values, choice and changes of type: loops plain enough for the compiler to vectorize.
#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <string_view>
#include <type_traits>

#include "backends/cpu/function_kernel.h"
#include "backends/cpu/kernels/broadcast.h"

namespace quern::cpu {
namespace {

using ir::Call;
using ir::DType;

constexpr std::int64_t kChunk = 4096;  // elements a unit

plan::Split split_chunks(const Call& call) { return {(call.out(0).elements() + kChunk - 1) / kChunk, 2000}; }

/// f(first, last): the elements of units [begin, end).
template <class F>
void for_chunks(const Call& call, std::int64_t begin, std::int64_t end, F&& f) {
  f(begin * kChunk, std::min(end * kChunk, call.out(0).elements()));
}

// relations: y[i] = f(a[i], b[i]) with broadcasting

template <class T, class F>
void relation(const Call& call, std::int64_t begin, std::int64_t end, std::byte*) noexcept {
  const Loop<2> loop(call.out(0), {call.in(0), call.in(1)});
  const auto strides = loop.inner_strides();
  for_chunks(call, begin, end, [&](std::int64_t first, std::int64_t last) {
    loop.runs(first, last, [&](std::int64_t index, std::int64_t n, const auto& at) {
      const T *a = call.in(0).as<T>() + at[0], *b = call.in(1).as<T>() + at[1];
      bool* y = call.out(0).as<bool>() + index;
      if (strides[0] == 1 && strides[1] == 1)
        for (std::int64_t i = 0; i < n; ++i) y[i] = F{}(a[i], b[i]);
      else if (strides[0] == 1)
        for (std::int64_t i = 0; i < n; ++i) y[i] = F{}(a[i], *b);
      else if (strides[1] == 1)
        for (std::int64_t i = 0; i < n; ++i) y[i] = F{}(*a, b[i]);
      else
        std::fill(y, y + n, F{}(*a, *b));
    });
  });
}

template <class T, class F>
constexpr KernelFunctions kRelation{"relation", split_chunks, relation<T, F>};

template <class F>
std::unique_ptr<plan::Kernel> lower_relation_of(DType type) {
  switch (type) {
    case DType::f32: return make_kernel(kRelation<float, F>);
    case DType::i32: return make_kernel(kRelation<std::int32_t, F>);
    case DType::i64: return make_kernel(kRelation<std::int64_t, F>);
    case DType::boolean: return make_kernel(kRelation<std::uint8_t, F>);  // 0 and 1
    default: return nullptr;
  }
}

// where: y[i] = c[i] ? a[i] : b[i]

template <class T>
void choose(const Call& call, std::int64_t begin, std::int64_t end, std::byte*) noexcept {
  const Loop<3> loop(call.out(0), {call.in(0), call.in(1), call.in(2)});
  const auto strides = loop.inner_strides();
  for_chunks(call, begin, end, [&](std::int64_t first, std::int64_t last) {
    loop.runs(first, last, [&](std::int64_t index, std::int64_t n, const auto& at) {
      const std::uint8_t* c = call.in(0).as<std::uint8_t>() + at[0];
      const T *a = call.in(1).as<T>() + at[1], *b = call.in(2).as<T>() + at[2];
      T* y = call.out(0).as<T>() + index;
      const auto run = [&](auto c_stride, auto a_stride, auto b_stride) {
        for (std::int64_t i = 0; i < n; ++i) {
          const T yes = a[i * a_stride], no = b[i * b_stride];  // both are read, so that there is nothing to branch on
          y[i] = c[i * c_stride] != 0 ? yes : no;
        }
      };
      constexpr std::integral_constant<std::int64_t, 0> k0{};
      constexpr std::integral_constant<std::int64_t, 1> k1{};
      if (strides[0] == 1 && strides[1] == 1 && strides[2] == 1)
        run(k1, k1, k1);
      else if (strides[0] == 1 && strides[1] == 0 && strides[2] == 1)
        run(k1, k0, k1);
      else if (strides[0] == 1 && strides[1] == 1 && strides[2] == 0)
        run(k1, k1, k0);
      else
        run(strides[0], strides[1], strides[2]);
    });
  });
}

template <class T>
constexpr KernelFunctions kChoose{"where", split_chunks, choose<T>};

constexpr KernelFunctions kIsNan{"isnan f32", split_chunks,
                                 [](const Call& call, std::int64_t begin, std::int64_t end, std::byte*) noexcept {
                                   for_chunks(call, begin, end, [&](std::int64_t first, std::int64_t last) {
                                     const float* x = call.in(0).as<float>();
                                     bool* y = call.out(0).as<bool>();
                                     for (std::int64_t i = first; i < last; ++i) y[i] = x[i] != x[i];
                                   });
                                 }};

// cast

/// A float rounds toward zero to the nearest integer that there is, NaN to 0.
template <class To, class From>
To converted(From v) {
  if constexpr (std::is_same_v<To, bool>) {
    return v != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (v != v) return 0;
    if (v <= From(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    if (v >= From(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
    return static_cast<To>(v);
  } else {
    return static_cast<To>(v);
  }
}

template <class From, class To>
constexpr KernelFunctions kCast{"cast", split_chunks, [](const Call& call, std::int64_t begin, std::int64_t end, std::byte*) noexcept {
                                  for_chunks(call, begin, end, [&](std::int64_t first, std::int64_t last) {
                                    const From* x = call.in(0).as<From>();
                                    To* y = call.out(0).as<To>();
                                    for (std::int64_t i = first; i < last; ++i) y[i] = converted<To>(x[i]);
                                  });
                                }};

/// f.operator()<T>() for the element types that casts between are common.
template <class F>
std::unique_ptr<plan::Kernel> with_type(DType type, F&& f) {
  switch (type) {
    case DType::f32: return f.template operator()<float>();
    case DType::i32: return f.template operator()<std::int32_t>();
    case DType::i64: return f.template operator()<std::int64_t>();
    case DType::boolean: return f.template operator()<bool>();
    case DType::i8: return f.template operator()<std::int8_t>();
    case DType::u8: return f.template operator()<std::uint8_t>();
    default: return nullptr;
  }
}

}  // namespace

std::unique_ptr<plan::Kernel> lower_relation(const ir::Node& node) {
  const std::string_view op = node.op->name;
  const DType type = node.inputs[0]->type.dtype;
  if (op == "equal") return lower_relation_of<std::equal_to<>>(type);
  if (op == "less") return lower_relation_of<std::less<>>(type);
  if (op == "less_or_equal") return lower_relation_of<std::less_equal<>>(type);
  if (op == "greater") return lower_relation_of<std::greater<>>(type);
  if (op == "greater_or_equal") return lower_relation_of<std::greater_equal<>>(type);
  if (op == "and") return lower_relation_of<std::logical_and<>>(type);
  if (op == "or") return lower_relation_of<std::logical_or<>>(type);
  return lower_relation_of<std::not_equal_to<>>(type);  // xor
}

std::unique_ptr<plan::Kernel> lower_where(const ir::Node& node) {
  switch (ir::block_bytes(node.outputs[0]->type.dtype)) {
    case 4: return make_kernel(kChoose<std::uint32_t>);
    case 8: return make_kernel(kChoose<std::uint64_t>);
    default: return nullptr;
  }
}

std::unique_ptr<plan::Kernel> lower_isnan(const ir::Node& node) {
  return node.inputs[0]->type.dtype == DType::f32 ? make_kernel(kIsNan) : nullptr;
}

std::unique_ptr<plan::Kernel> lower_cast(const ir::Node& node) {
  return with_type(node.inputs[0]->type.dtype, [&]<class From>() {
    return with_type(node.outputs[0]->type.dtype, [&]<class To>() { return make_kernel(kCast<From, To>); });
  });
}

}  // namespace quern::cpu
