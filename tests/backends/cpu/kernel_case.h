#pragma once

// One node, alone in a graph, on its fast kernel and on its reference kernel: what the tests of single kernels share.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "ir/graph.h"
#include "ir/op.h"

namespace quern::cpu::test {

/// One operand of a node under test; values as bytes.
struct Operand {
  std::vector<std::int64_t> dims;
  std::vector<std::byte> bytes;
  bool constant = false;
  ir::DType dtype = ir::DType::f32;
  bool absent = false;
  std::int64_t stride = 0;  // of a state with gaps: bytes from one index of the first dimension to the next

  std::int64_t elements() const {
    std::int64_t n = 1;
    for (const std::int64_t d : dims) n *= d;
    return n;
  }
};

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto* p = reinterpret_cast<const std::byte*>(values.data());
  return {p, p + values.size() * sizeof(T)};
}

inline std::vector<float> as_floats(const std::vector<std::byte>& bytes) {
  std::vector<float> out(bytes.size() / sizeof(float));
  if (!out.empty()) std::memcpy(out.data(), bytes.data(), out.size() * sizeof(float));
  return out;
}

inline Operand floats_of(std::vector<std::int64_t> dims, const std::vector<float>& values, bool constant = false) {
  return {std::move(dims), bytes_of(values), constant};
}

inline Operand floats(std::vector<std::int64_t> dims, std::mt19937& random, bool constant = false, float low = -1, float high = 1) {
  std::uniform_real_distribution<float> value(low, high);
  Operand operand{std::move(dims), {}, constant};
  std::vector<float> values(static_cast<std::size_t>(operand.elements()));
  for (float& v : values) v = value(random);
  operand.bytes = bytes_of(values);
  return operand;
}

inline Operand integers_of(std::vector<std::int64_t> dims, const std::vector<std::int64_t>& values, bool constant = true) {
  return {std::move(dims), bytes_of(values), constant, ir::DType::i64};
}

/// The same operands with every float made positive: what tolerances are computed from.
inline std::vector<Operand> magnitudes(std::vector<Operand> operands) {
  for (Operand& operand : operands) {
    if (operand.dtype != ir::DType::f32) continue;
    std::vector<float> values = as_floats(operand.bytes);
    for (float& v : values) v = std::abs(v);
    operand.bytes = bytes_of(values);
  }
  return operands;
}

class KernelCase {
 public:
  KernelCase(const ir::Op& op, std::vector<Operand> operands, ir::Attributes attributes = {}) : operands_(std::move(operands)) {
    std::vector<ir::Value*> inputs;
    for (const Operand& operand : operands_) {
      const ir::Type type{operand.dtype, ir::Shape(operand.dims.begin(), operand.dims.end())};
      const std::string name = "x" + std::to_string(inputs.size());
      inputs.push_back(operand.absent     ? nullptr
                       : operand.constant ? graph_.add_constant(name, type, operand.bytes)
                                          : graph_.add_input(name, type));
    }
    node_ = graph_.append(op, inputs, std::move(attributes));
    kernel_ = backend_.lower(*node_);
    backend_.finish();
    second_ = kernel_->second();
  }

  bool is_fast() const { return std::string(kernel_->name()) != "reference"; }
  std::int64_t units() const { return kernel_->split(Arguments(*this).call).units; }

  /// The outputs by the kernel, `step` units at a time, the last first when `backwards`; empty when it wrote beside them.
  std::vector<std::byte> run(std::int64_t step = 1 << 30, bool backwards = false) const {
    const Arguments arguments(*this);
    run_all(arguments.call, step, backwards);
    return arguments.output();
  }
  std::vector<std::byte> reference() const {
    const Arguments arguments(*this);
    node_->op->reference(arguments.call);
    return arguments.output();
  }
  /// What the kernel says of data it cannot use; empty when all is well.
  std::string failure() const {
    const Arguments arguments(*this);
    run_all(arguments.call, 1 << 30, false);
    return arguments.said();
  }
  std::string reference_failure() const {
    const Arguments arguments(*this);
    node_->op->reference(arguments.call);
    return arguments.said();
  }

 private:
  void run_all(const ir::Call& call, std::int64_t step, bool backwards) const {
    for (const plan::Kernel* kernel : {kernel_.get(), second_.get()}) {
      if (kernel == nullptr) break;
      const std::int64_t units = kernel->split(call).units, pieces = (units + step - 1) / step;
      const auto scratch_bytes = static_cast<std::size_t>((kernel->scratch_bytes(call) + 127) / 64 * 64);
      const std::unique_ptr<std::byte, void (*)(void*)> scratch(static_cast<std::byte*>(std::aligned_alloc(64, scratch_bytes)), std::free);
      for (std::int64_t p = 0; p < pieces; ++p) {
        const std::int64_t begin = (backwards ? pieces - 1 - p : p) * step;
        std::memset(scratch.get(), 0xff, scratch_bytes);  // NaN: nothing may be read that was not written
        kernel->run(call, begin, std::min(units, begin + step), scratch.get());
      }
    }
  }

  /// The views of a call, with marked bytes around each output.
  struct Arguments {
    static constexpr std::size_t kGuard = 64;
    static constexpr std::byte kMark{0xa5};

    explicit Arguments(const KernelCase& of) {
      const ir::Node& node = *of.node_;
      views.reserve(node.inputs.size() + node.outputs.size());
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        pointers.push_back(node.inputs[i] == nullptr ? nullptr
                                                     : &add(*node.inputs[i], const_cast<std::byte*>(of.operands_[i].bytes.data())));
        if (pointers.back() != nullptr) views.back().gap_stride = of.operands_[i].stride;
      }
      for (const ir::Value* value : node.outputs) {
        ir::TensorView& view = add(*value, nullptr);
        memory.emplace_back(static_cast<std::size_t>(view.bytes()) + 2 * kGuard, kMark);
        view.data = memory.back().data() + kGuard;
        pointers.push_back(&view);
      }
      if (const std::int64_t bytes = of.kernel_->workspace_bytes().constant().value(); bytes > 0) {
        workspace.assign(static_cast<std::size_t>(bytes) + kGuard, std::byte{0xff});
        workspace_view.data = workspace.data() + (kGuard - reinterpret_cast<std::uintptr_t>(workspace.data()) % kGuard) % kGuard;
        workspace_view.dtype = ir::DType::u8;
        workspace_view.rank = 1;
        workspace_view.dims[0] = bytes;
        pointers.push_back(&workspace_view);
      }
      call = {&node, pointers.data(), pointers.data() + node.inputs.size(), &failed};
    }
    Arguments(const Arguments&) = delete;

    ir::TensorView& add(const ir::Value& value, std::byte* data) {
      ir::TensorView& view = views.emplace_back();
      view.data = data;
      view.dtype = value.type.dtype;
      view.rank = static_cast<std::int64_t>(value.type.shape.size());
      for (std::int64_t d = 0; d < view.rank; ++d) view.dims[d] = value.type.shape[static_cast<std::size_t>(d)].constant().value();
      return view;
    }
    std::vector<std::byte> output() const {
      std::vector<std::byte> all;
      for (const auto& bytes : memory) {
        const auto marked = [](auto begin) { return std::all_of(begin, begin + kGuard, [](std::byte b) { return b == kMark; }); };
        if (!marked(bytes.begin()) || !marked(bytes.end() - kGuard)) return {};
        all.insert(all.end(), bytes.begin() + kGuard, bytes.end() - kGuard);
      }
      return all;
    }

    std::string said() const { return failed.load() == nullptr ? "" : failed.load(); }

    std::atomic<const char*> failed{nullptr};
    std::vector<ir::TensorView> views;
    std::vector<const ir::TensorView*> pointers;
    std::vector<std::vector<std::byte>> memory;
    std::vector<std::byte> workspace;
    ir::TensorView workspace_view;
    ir::Call call{};
  };

  std::vector<Operand> operands_;
  ir::Graph graph_;
  ir::Node* node_ = nullptr;
  CpuBackend backend_;
  std::unique_ptr<plan::Kernel> kernel_, second_;
};

/// Whether other divisions of the work give other bits than `all`, the output made at once.
inline std::string differs_by_pieces(const KernelCase& node, const std::vector<std::byte>& all) {
  if (!node.is_fast()) return "no fast kernel took it";
  const std::int64_t units = node.units();
  for (const std::int64_t step : {std::int64_t(1), units / 2 + 1})
    for (const bool backwards : {false, true})
      if (node.run(step, backwards) != all)
        return "other bits with " + std::to_string(step) + " of " + std::to_string(units) + " units at a time";
  return {};
}

/// What is wrong with a kernel, or an empty text: |fast - reference| <= scale * size for the sizes given, one an element; NaN and
/// infinities must agree; and the bits must not depend on how the units are grouped.
inline std::string differs(const KernelCase& node, const std::vector<float>& sizes, double scale) {
  const std::vector<std::byte> all = node.run();
  const std::vector<float> fast = as_floats(all), expected = as_floats(node.reference());
  if (fast.size() != expected.size()) return "wrote outside its output";
  for (std::size_t i = 0; i < fast.size(); ++i) {
    const bool finite = std::isfinite(expected[i]), same = std::isnan(expected[i]) ? std::isnan(fast[i]) : fast[i] == expected[i];
    if (finite ? !(std::abs(double(fast[i]) - double(expected[i])) <= scale * std::abs(double(sizes[i])) + 1e-37) : !same)
      return "element " + std::to_string(i) + " is " + std::to_string(fast[i]) + " instead of " + std::to_string(expected[i]);
  }
  return differs_by_pieces(node, all);
}

/// The same for kernels that must have the reference's bits.
inline std::string differs_at_all(const KernelCase& node) {
  const std::vector<std::byte> all = node.run(), expected = node.reference();
  if (all.size() != expected.size()) return "wrote outside its output";
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i] != expected[i]) return "byte " + std::to_string(i) + " of " + std::to_string(all.size()) + " differs";
  return differs_by_pieces(node, all);
}

}  // namespace quern::cpu::test
