// Kernels that take rows from where an index says: embedding, take_rows; and rope, which turns rows in place.
#include <algorithm>
#include <cstring>

#include "backends/cpu/function_kernel.h"
#include "backends/cpu/weight_store.h"
#include "dtypes/dequantize.h"

namespace quern::cpu {
namespace {

std::int64_t row_bytes(const ir::TensorView& t) { return t.columns() / ir::block_elements(t.dtype) * ir::block_bytes(t.dtype); }

/// Rows of a table, out of its packed form where a product has one, so that the table need not be in memory twice.
class EmbeddingKernel final : public plan::Kernel {
 public:
  explicit EmbeddingKernel(WeightStore::Lookup table) : table_(std::move(table)) {}
  plan::Split split(const ir::Call& call) const override { return {call.out(0).rows(), 1.0 * double(call.out(0).columns())}; }
  void run(const ir::Call& call, std::int64_t begin, std::int64_t end, std::byte*) const noexcept override {
    const std::int64_t width = call.out(0).columns(), bytes = row_bytes(call.in(0)), rows = call.in(0).dims[0];
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t id = call.in(1).as<std::int32_t>()[t];
      if (id < 0 || id >= rows) return call.fail("an id is outside the table");
      float* y = call.out(0).as<float>() + t * width;
      if (table_ != nullptr && *table_)
        (*table_)->unpack_row(id, y);
      else
        dtypes::dequantize(call.in(0).dtype, call.in(0).data + id * bytes, y, width);
    }
  }
  const char* name() const override { return "embedding"; }

 private:
  WeightStore::Lookup table_;  // null: no constant
};

constexpr KernelFunctions kTakeRows{
    "take_rows", [](const ir::Call& call) { return plan::Split{call.out(0).rows(), 20 + 0.1 * double(row_bytes(call.out(0)))}; },
    [](const ir::Call& call, std::int64_t begin, std::int64_t end, std::byte*) noexcept {
      const std::int64_t bytes = row_bytes(call.out(0)), rows = call.in(0).dims[0];
      for (std::int64_t r = begin; r < end; ++r) {
        const std::int64_t from = call.in(1).as<std::int32_t>()[r];
        if (from < 0 || from >= rows) return call.fail("a row is outside the input");
        std::memcpy(call.out(0).data + r * bytes, call.in(0).data + from * bytes, static_cast<std::size_t>(bytes));
      }
    }};

/// Each element is two multiplications and an addition, in that order, whatever the vector width: the compiler may vectorise it freely.
constexpr KernelFunctions kRope{
    "rope", [](const ir::Call& call) { return plan::Split{call.in(0).dims[0], 1.0 * double(call.in(0).dims[1] * call.in(0).dims[2])}; },
    [](const ir::Call& call, std::int64_t begin, std::int64_t end, std::byte*) noexcept {
      const auto &x = call.in(0), &table = call.in(1), &y = call.out(0);
      const std::int64_t heads = x.dims[1], dim = x.dims[2], pairs = table.dims[2];
      const bool interleaved = call.node->integer("interleaved") != 0;
      for (std::int64_t t = begin; t < end; ++t) {
        const float* cosine = table.as<float>() + t * 2 * pairs;
        const float* sine = cosine + pairs;
        for (std::int64_t h = 0; h < heads; ++h) {
          const float* in = x.as<float>() + (t * heads + h) * dim;
          float* out = y.as<float>() + (t * heads + h) * dim;
          if (in != out) std::copy(in + 2 * pairs, in + dim, out + 2 * pairs);
          if (interleaved) {
            for (std::int64_t i = 0; i < pairs; ++i) {
              const float a = in[2 * i], b = in[2 * i + 1];
              out[2 * i] = a * cosine[i] - b * sine[i];
              out[2 * i + 1] = a * sine[i] + b * cosine[i];
            }
          } else {
            for (std::int64_t i = 0; i < pairs; ++i) {
              const float a = in[i], b = in[i + pairs];
              out[i] = a * cosine[i] - b * sine[i];
              out[i + pairs] = a * sine[i] + b * cosine[i];
            }
          }
        }
      }
    }};

}  // namespace

std::unique_ptr<plan::Kernel> lower_embedding(const ir::Node& node, WeightStore& store) {
  return std::make_unique<EmbeddingKernel>(node.inputs[0]->constant == nullptr ? nullptr : store.lookup(*node.inputs[0]));
}
std::unique_ptr<plan::Kernel> lower_take_rows(const ir::Node&) { return make_kernel(kTakeRows); }
std::unique_ptr<plan::Kernel> lower_rope(const ir::Node&) { return make_kernel(kRope); }

}  // namespace quern::cpu
