#include "tiled_backend.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "ir/op.h"
#include "ops/registry.h"

namespace quern::plan::testing {
namespace {

using ir::TensorView;

/// Sometimes lets another thread go first.
void take_time(std::int64_t unit, const void* salt) {
  static std::atomic<std::uint32_t> count{0};
  const std::uint32_t n = count.fetch_add(1, std::memory_order_relaxed) * 2654435761u + static_cast<std::uint32_t>(unit) +
                          static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(salt) >> 6);
  if (n % 7 == 0) std::this_thread::yield();
}

/// What a unit claims to cost. Half the nodes claim next to nothing, so that they are joined with a neighbour, and take their time all the
/// same.
double claimed_nanoseconds(const ir::Call& call) {
  const void* first_output = call.outputs[0];
  return (reinterpret_cast<std::uintptr_t>(first_output) / sizeof(TensorView)) % 2 == 0 ? 1e6 : 1;
}

bool same_shape(const TensorView& a, const TensorView& b) {
  return std::equal(a.shape().begin(), a.shape().end(), b.shape().begin(), b.shape().end());
}

TensorView rows_of(const TensorView& v, std::int64_t begin, std::int64_t end) {
  TensorView part = v;
  part.dims[0] = end - begin;
  part.data = v.data + begin * (v.dims[0] == 0 ? 0 : v.bytes() / v.dims[0]);
  return part;
}

TensorView elements_of(const TensorView& v, std::int64_t begin, std::int64_t end) {
  TensorView part = v;
  part.rank = 1;
  part.dims[0] = end - begin;
  part.data = v.data + begin * ir::block_bytes(v.dtype);
  return part;
}

class Whole : public Kernel {
 public:
  explicit Whole(const ir::Op& op) : op_(op) {}
  Split split(const ir::Call& call) const override { return {1, claimed_nanoseconds(call)}; }
  void run(const ir::Call& call, std::int64_t, std::int64_t, std::byte*) const noexcept override {
    take_time(0, call.node);
    op_.reference(call);
  }
  const char* name() const override { return "whole"; }

 protected:
  const ir::Op& op_;
};

/// Element by element where the inputs are alike, else whole.
class Elementwise final : public Whole {
 public:
  using Whole::Whole;
  Split split(const ir::Call& call) const override {
    return {alike(call) ? (call.out(0).elements() + kUnit - 1) / kUnit : 1, claimed_nanoseconds(call)};
  }
  std::int64_t scratch_bytes(const ir::Call&) const override { return kScratch; }
  void run(const ir::Call& call, std::int64_t begin, std::int64_t end, std::byte* scratch) const noexcept override {
    std::fill_n(scratch, kScratch, std::byte{0xff});  // its own, or a data race
    if (!alike(call)) return Whole::run(call, begin, end, scratch);
    for (std::int64_t u = begin; u < end; ++u) {
      const std::int64_t first = u * kUnit, last = std::min(first + kUnit, call.out(0).elements());
      TensorView views[8];
      const TensorView* pointers[8];
      for (std::size_t i = 0; i < call.node->inputs.size(); ++i) pointers[i] = &(views[i] = elements_of(call.in(i), first, last));
      views[7] = elements_of(call.out(0), first, last);
      pointers[7] = &views[7];
      take_time(u, call.node);
      op_.reference(ir::Call{call.node, pointers, pointers + 7, call.failure});
    }
  }

 private:
  static constexpr std::int64_t kUnit = 5, kScratch = 100;
  static bool alike(const ir::Call& call) {
    if (call.node->inputs.size() > 7) return false;
    for (std::size_t i = 0; i < call.node->inputs.size(); ++i)
      if (call.inputs[i] == nullptr || !same_shape(call.in(i), call.out(0))) return false;
    return true;
  }
};

/// Ops that compute row r of output 0 from row r of input 0 (and all of the others).
class Rows final : public Whole {
 public:
  using Whole::Whole;
  Split split(const ir::Call& call) const override { return {call.out(0).dims[0], claimed_nanoseconds(call)}; }
  void run(const ir::Call& call, std::int64_t begin, std::int64_t end, std::byte*) const noexcept override {
    for (std::int64_t r = begin; r < end; ++r) {
      const TensorView in = rows_of(call.in(0), r, r + 1), out = rows_of(call.out(0), r, r + 1);
      const TensorView* pointers[] = {&in, call.inputs[1], &out};
      take_time(r, call.node);
      op_.reference(ir::Call{call.node, pointers, pointers + 2, call.failure});
    }
  }
};

}  // namespace

std::unique_ptr<Kernel> TiledBackend::lower(const ir::Node& node) {
  if (node.op->reference == nullptr) return nullptr;
  if (node.op == &ops::linear || node.op == &ops::rms_norm) return std::make_unique<Rows>(*node.op);
  if (has(node.op->traits, ir::Trait::elementwise)) return std::make_unique<Elementwise>(*node.op);
  return std::make_unique<Whole>(*node.op);
}

}  // namespace quern::plan::testing
