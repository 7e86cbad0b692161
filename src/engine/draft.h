#pragma once

#include <cstdint>

#include "tokenizers/tokenizer.h"

namespace quern::engine {

/// How many leading tokens mean the same to a model and to its draft model. One vocabulary may go on where the other ends, with unused
/// tokens only: files of a family are padded to different sizes. Errors: invalid_argument, naming the first difference.
std::int64_t common_vocabulary(const tokenizers::Tokenizer& model, const tokenizers::Tokenizer& draft);

}  // namespace quern::engine
