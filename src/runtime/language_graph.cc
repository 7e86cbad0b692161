#include "runtime/detail/language_graph.h"

#include "backends/cpu/kernels/attention.h"
#include "backends/cpu/kernels/linear/linear.h"
#include "passes/passes.h"

namespace quern::runtime {

models::LanguageModel language_graph(const std::shared_ptr<const gguf::File>& file, const LanguageOptions& options) {
  const bool exact = options.precision == Precision::exact;
  models::GraphOptions graph_options;
  graph_options.kv_dtype = options.kv_dtype.value_or(exact ? ir::DType::f32 : cpu::best_attention_cache());
  graph_options.kv_block_tokens = options.kv_block_tokens;
  models::LanguageModel built = models::build(*models::gguf_checkpoint(file), graph_options);
  if (!exact) {
    passes::quantize_activations(*built.graph, cpu::best_activations);
    passes::shorten_attention(*built.graph, cpu::best_attention_products);
  }
  passes::merge_linears(*built.graph);
  passes::fuse_residuals(*built.graph);
  passes::fuse_quantization(*built.graph);
  passes::fuse_gates(*built.graph);
  return built;
}

}  // namespace quern::runtime
