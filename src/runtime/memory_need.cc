#include "runtime/memory_need.h"

#include <algorithm>
#include <map>

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/kernels/linear/linear.h"
#include "plan/program.h"
#include "runtime/detail/language_graph.h"

namespace quern::runtime {
namespace {

/// A kernel that is never run.
class Planned final : public plan::Kernel {
 public:
  plan::Split split(const ir::Call&) const override { return {}; }
  void run(const ir::Call&, std::int64_t, std::int64_t, std::byte*) const noexcept override {}
  const char* name() const override { return "planned"; }
};

/// Takes every node as the CPU backend would, and adds up what it would keep.
class PlanningBackend final : public plan::Backend {
 public:
  explicit PlanningBackend(bool pack) : pack_(pack) {}
  std::string_view name() const override { return "planning"; }

  std::unique_ptr<plan::Kernel> lower(const ir::Node& node) override {
    // Without constants there is nothing to keep, and the kernel itself can say what its workspace is.
    if (std::none_of(node.inputs.begin(), node.inputs.end(), [](const ir::Value* v) { return v != nullptr && v->constant != nullptr; }))
      return cpu_.lower(node);
    for (const ir::Value* input : node.inputs) {
      if (input == nullptr || input->constant == nullptr) continue;
      if (const std::int64_t packed = pack_ ? packed_bytes(node, *input) : 0; packed > 0)
        packed_[input->constant->data] = packed;
      else
        read_[input->constant->data] = static_cast<std::int64_t>(input->constant->bytes);
    }
    return std::make_unique<Planned>();
  }

  std::int64_t packed() const {
    std::int64_t sum = 0;
    for (const auto& [data, bytes] : packed_) sum += bytes;
    return sum;
  }
  /// Tables whose rows are looked up are read out of their packed form where a product has one.
  std::int64_t mapped() const {
    std::int64_t sum = 0;
    for (const auto& [data, bytes] : read_)
      if (!packed_.contains(data)) sum += bytes;
    return sum;
  }

 private:
  /// What the kernel of this node keeps of the constant; 0 when it reads the constant itself.
  static std::int64_t packed_bytes(const ir::Node& node, const ir::Value& constant) {
    if (node.op->name != "linear" || node.inputs[0] == &constant) return 0;
    const auto n = constant.type.shape[0].constant(), k = constant.type.shape[1].constant();
    if (!n || !k || *n < 1 || *k < 1) return 0;
    const ir::DType type = constant.type.dtype;
    // Memory that is reserved here is given back untouched.
    const ir::DType x = node.inputs[0]->type.dtype;
    return cpu::PackedWeights::can_pack(x, type, *k) ? cpu::PackedWeights::reserve(x, type, *n, *k).bytes() : 0;
  }

  bool pack_;
  cpu::CpuBackend cpu_;
  std::map<const std::byte*, std::int64_t> packed_, read_;  // bytes, by where the constant lies
};

}  // namespace

MemoryNeed memory_need(const std::shared_ptr<const gguf::File>& file, const LanguageOptions& options, std::int64_t step_tokens) {
  const models::LanguageModel built = language_graph(file, options);
  PlanningBackend backend(options.pack);
  plan::Backend* const backends[] = {&backend};
  const auto program = plan::Program::compile(*built.graph, backends);

  MemoryNeed need;
  need.packed_weights = backend.packed();
  need.mapped_weights = backend.mapped();
  need.context_length = built.context_length;
  const std::int64_t blocks = (built.context_length + options.kv_block_tokens - 1) / options.kv_block_tokens;
  need.window = built.window;
  const std::int64_t of_window = window_blocks_for(need.window, options.kv_block_tokens, blocks, 1, step_tokens);
  for (const int state : program->states()) {
    const ir::Dim bytes = byte_size(program->slots()[static_cast<std::size_t>(state)].type);
    need.cache_per_token += bytes.evaluate({{"blocks", 1}, {models::kWindowBlocks, 0}});
    need.cache_of_window += bytes.evaluate({{"blocks", 0}, {models::kWindowBlocks, of_window}});
  }
  need.cache_per_token /= options.kv_block_tokens;
  need.step_tokens = step_tokens;
  need.activations = program->memory().total().evaluate({{"tokens", step_tokens},
                                                         {"rows", 1},
                                                         {"hidden_rows", 0},
                                                         {"sequences", 1},
                                                         {"blocks_per_sequence", blocks},
                                                         {"blocks", blocks},
                                                         {models::kWindowBlocks, of_window}});
  return need;
}

}  // namespace quern::runtime
