// New keys and values into the cache.
#include <algorithm>
#include <cstring>

#include "backends/cpu/function_kernel.h"
#include "backends/cpu/kernels/halves.h"
#include "ops/kv_layout.h"

namespace quern::cpu {
namespace {

/// KvLayout::store of a cache of f16 or bf16.
void store_halves(const ops::KvLayout& layout, std::byte* piece, std::int64_t token, const float* x) {
  constexpr std::int64_t kMost = 256;
  std::uint16_t halves[kMost];
  auto* to = reinterpret_cast<std::uint16_t*>(piece);
  for (std::int64_t first = 0; first < layout.dim; first += kMost) {
    const std::int64_t n = std::min(kMost, layout.dim - first);
    (layout.dtype == ir::DType::f16 ? to_f16 : to_bf16)(x + first, halves, n);
    if (!layout.transposed) {
      std::memcpy(to + token * layout.dim + first, halves, static_cast<std::size_t>(n) * sizeof *halves);
      continue;
    }
    for (std::int64_t i = 0; i < n; ++i) to[(first + i) * layout.tokens + token] = halves[i];
  }
}

constexpr KernelFunctions kKvWrite{
    "kv_write", [](const ir::Call& call) { return plan::Split{call.in(1).dims[0], 0.5 * double(call.in(1).dims[1] * call.in(1).dims[2])}; },
    [](const ir::Call& call, std::int64_t begin, std::int64_t end, std::byte*) noexcept {
      const auto &cache = call.out(0), &x = call.in(1);
      const ops::KvLayout layout = ops::kv_layout(cache, call.node->integer("transposed") != 0);
      const std::int64_t heads = x.dims[1], bytes = layout.bytes(), stride = cache.outer_stride();
      for (std::int64_t t = begin; t < end; ++t) {
        const std::int64_t slot = call.in(2).as<std::int32_t>()[t], block = slot / layout.tokens;
        if (slot < 0) continue;
        if (block >= cache.dims[0]) return call.fail("a slot is outside the cache");
        for (std::int64_t h = 0; h < heads; ++h) {
          std::byte* piece = cache.data + block * stride + h * bytes;
          const float* row = x.as<float>() + (t * heads + h) * layout.dim;
          if (layout.dtype == ir::DType::f16 || layout.dtype == ir::DType::bf16)
            store_halves(layout, piece, slot % layout.tokens, row);
          else
            layout.store(piece, slot % layout.tokens, row);
        }
      }
    }};

}  // namespace

std::unique_ptr<plan::Kernel> lower_kv_write(const ir::Node&) { return make_kernel(kKvWrite); }

}  // namespace quern::cpu
