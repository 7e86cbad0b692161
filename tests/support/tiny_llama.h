#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "formats/gguf/writer.h"
#include "ir/dtype.h"

namespace quern::testing {

/// A language model of random weights in a file of some 100 KB, with real proportions: what tests load where a real model would be too
/// large. A llama, or with another architecture's name and tensors one of that family.
struct TinyLlama {
  std::string architecture = "llama";
  std::int64_t layers = 2, width = 64, heads = 4, kv_heads = 2, head_dim = 16, ffn_width = 96, vocabulary = 288, context_length = 512;
  ir::DType weights = ir::DType::q8_0;  // of the matrices: f32, f16, q4_0, q4_1 or q8_0
  bool tied = true;                     // no head of its own
  bool biases = false;                  // of queries, keys, values and the attention's output
  bool head_norms = false;              // of each query and key, as Qwen3 and Gemma 3 have them
  bool outer_norms = false;             // behind attention and feed-forward, as Gemma 3 has them
  unsigned seed = 1;
  /// Hyper-parameters that are not to be written, to be written otherwise in `more`.
  std::function<bool(std::string_view key)> without = [](std::string_view) { return false; };
  /// Further metadata and tensors. Bytes of tensors must outlive the call of write_tiny_llama.
  std::function<void(gguf::Writer&)> more = [](gguf::Writer&) {};
};

/// Writes the model, with a byte-level vocabulary: tokens 0 … 255 are the bytes, the rest are control tokens "<|256|>" …; the last ends a
/// text.
void write_tiny_llama(const std::string& path, const TinyLlama& model = {});

}  // namespace quern::testing
