// A chain of element-wise nodes, a piece that stays in the first-level cache at a time.
#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_map>
#include <vector>

#include "backends/cpu/function_kernel.h"
#include "backends/cpu/kernels/broadcast.h"
#include "backends/cpu/kernels/elementwise/element_loop.h"

namespace quern::cpu {
namespace {

constexpr std::int64_t kChunk = 4096;  // elements a unit
constexpr std::int64_t kPiece = 512;   // 2 KiB of each value
constexpr std::size_t kMostInputs = 8;

/// What a step reads: an input of the node, a number, or what an earlier step made.
struct Operand {
  enum class Kind { input, number, place } kind;
  std::size_t index = 0;
  float value = 0;
};
struct Step {
  ElementLoop loop;
  Operand a, b;
  std::size_t place;  // where the result lies in scratch; of the last step: nowhere, it is y
};

class FusedKernel final : public plan::Kernel {
 public:
  FusedKernel(std::vector<Step> steps, std::size_t places) : steps_(std::move(steps)), places_(places) {}

  plan::Split split(const ir::Call& call) const override {
    double nanoseconds = 0;
    for (const Step& step : steps_) nanoseconds += step.loop.nanoseconds;
    return {(call.out(0).elements() + kChunk - 1) / kChunk, kChunk * nanoseconds};
  }
  std::int64_t scratch_bytes(const ir::Call&) const override {
    return static_cast<std::int64_t>(places_) * kPiece * std::int64_t{sizeof(float)};
  }

  void run(const ir::Call& call, std::int64_t begin, std::int64_t end, std::byte* scratch) const noexcept override {
    const ir::TensorView& y = call.out(0);
    const std::size_t inputs = call.node->inputs.size();
    std::array<ir::TensorView, kMostInputs> views;
    for (std::size_t i = 0; i < inputs; ++i) views[i] = call.in(i);
    const Loop<kMostInputs> walk(y, views);
    const auto strides = walk.inner_strides();
    walk.runs(begin * kChunk, std::min(end * kChunk, y.elements()), [&](std::int64_t first, std::int64_t count, const auto& at) {
      for (std::int64_t done = 0; done < count; done += kPiece) {
        Row rows[kMostInputs];
        for (std::size_t i = 0; i < inputs; ++i) rows[i] = {views[i].as<float>() + at[i] + done * strides[i], strides[i]};
        piece(rows, reinterpret_cast<float*>(scratch), y.as<float>() + first + done, std::min(kPiece, count - done));
      }
    });
  }
  const char* name() const override { return "fused f32"; }

 private:
  struct Row {
    const float* data;
    std::int64_t stride;  // 0: one element for all
  };

  /// n elements of y, at most kPiece.
  void piece(const Row* inputs, float* scratch, float* y, std::int64_t n) const {
    const auto row = [&](const Operand& operand) -> Row {
      switch (operand.kind) {
        case Operand::Kind::input: return inputs[operand.index];
        case Operand::Kind::number: return {&operand.value, 0};
        case Operand::Kind::place: break;
      }
      return {scratch + operand.index * kPiece, 1};
    };
    for (const Step& step : steps_) {
      const Row a = row(step.a), b = row(step.b);
      run_element_loop(step.loop, a.data, a.stride, b.data, b.stride, &step == &steps_.back() ? y : scratch + step.place * kPiece, n);
    }
  }

  std::vector<Step> steps_;
  std::size_t places_;
};

}  // namespace

std::unique_ptr<plan::Kernel> lower_fused(const ir::Node& node) {
  const ir::Graph& body = *node.regions[0];
  if (node.inputs.size() > kMostInputs || body.nodes().back()->outputs[0] != body.outputs()[0]) return nullptr;
  std::unordered_map<const ir::Value*, Operand> operands;
  std::unordered_map<const ir::Value*, std::size_t> last_reader;
  for (std::size_t i = 0; i < body.inputs().size(); ++i) operands[body.inputs()[i]] = {Operand::Kind::input, i};
  for (std::size_t s = 0; s < body.nodes().size(); ++s)
    for (const ir::Value* value : body.nodes()[s]->inputs) last_reader[value] = s;

  std::vector<Step> steps;
  std::vector<std::size_t> free_places;
  std::size_t places = 0;
  for (std::size_t s = 0; s < body.nodes().size(); ++s) {
    const ir::Node& inner = *body.nodes()[s];
    const auto loop = element_loop(inner);
    if (!loop) return nullptr;
    Operand read[2] = {{Operand::Kind::number}, {Operand::Kind::number}};
    for (int i = 0; i < loop->operands; ++i) {
      const ir::Value* value = inner.inputs[static_cast<std::size_t>(i)];
      if (value->constant != nullptr) {
        if (!(ir::element_count(value->type.shape) == ir::Dim(1))) return nullptr;
        std::memcpy(&read[i].value, value->constant->data, sizeof(float));
      } else {
        read[i] = operands.at(value);
      }
    }
    // Loops may write over what they read, so a place that is read for the last time is free for the result.
    for (int i = 0; i < loop->operands; ++i)
      if (read[i].kind == Operand::Kind::place && last_reader[inner.inputs[static_cast<std::size_t>(i)]] == s &&
          std::find(free_places.begin(), free_places.end(), read[i].index) == free_places.end())
        free_places.push_back(read[i].index);
    if (free_places.empty()) free_places.push_back(places++);
    operands[inner.outputs[0]] = {Operand::Kind::place, free_places.back()};
    steps.push_back({*loop, read[0], read[1], free_places.back()});
    free_places.pop_back();
  }
  return std::make_unique<FusedKernel>(std::move(steps), places);
}

}  // namespace quern::cpu
