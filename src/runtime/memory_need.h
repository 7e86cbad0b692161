#pragma once

#include <cstdint>
#include <memory>

#include "formats/gguf/file.h"
#include "runtime/language_model.h"

namespace quern::runtime {

/// The memory that a language model will take, told from its graph alone: nothing is packed and no tensor is read.
struct MemoryNeed {
  std::int64_t packed_weights = 0;   // bytes of weights rearranged for the kernels
  std::int64_t mapped_weights = 0;   // bytes of weights that are read where they lie in the file
  std::int64_t cache_per_token = 0;  // bytes of keys and values, of layers that see all tokens
  std::int64_t window = 0;           // tokens that other layers see; 0: there are none, or no others
  std::int64_t cache_of_window = 0;  // bytes of their keys and values, for one sequence of context_length
  std::int64_t context_length = 0;   // tokens of the longest sequence that the model was trained for
  std::int64_t step_tokens = 0;
  std::int64_t activations = 0;  // bytes of the arena in a step of step_tokens, one of whose logits are wanted
};

/// Errors: those of LanguageModel::load for a file that it could not load.
MemoryNeed memory_need(const std::shared_ptr<const gguf::File>& file, const LanguageOptions& options, std::int64_t step_tokens);

}  // namespace quern::runtime
