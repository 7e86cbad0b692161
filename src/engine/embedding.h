#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/request.h"
#include "formats/gguf/file.h"

namespace quern::engine {

/// By what an embedding is divided: nothing, its largest absolute value, the sum of absolute values, its Euclidean length, or a p-norm with
/// p above 2. max_abs scales to ±32760, as llama.cpp's does. A vector of zeros stays as it is.
struct Norm {
  enum class Kind : std::uint8_t { none, max_abs, p } kind = Kind::p;
  std::int32_t p = 2;
};

/// Keeps the first `dimensions` numbers (0: all) and divides by their norm; models trained so keep their meaning (Kusupati et al. 2022,
/// "Matryoshka representation learning"). Errors: invalid_argument when there are not so many.
void cut_and_normalize(std::vector<float>& embedding, std::int64_t dimensions, const Norm& norm = {});

/// What the file says its embeddings are pooled by; `last` where it says nothing: the one token of a causal model that has seen them all.
/// Errors: unsupported (an encoder's ranking head).
Pooling pooling_of(const gguf::File& file);
/// "last", "cls" or "first", "mean". Errors: invalid_argument.
Pooling pooling_named(std::string_view name);

}  // namespace quern::engine
