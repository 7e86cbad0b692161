#pragma once

#include <memory>
#include <string>

#include "tokenizers/tokenizer.h"

namespace quern::tokenizers {

/// A tokenizer from a file of its own, recognised by its contents: tokenizer.json (Hugging Face), a model of
/// SentencePiece, a rank file of tiktoken, tekken.json (Mistral). Files beside it (tokenizer_config.json,
/// special_tokens_map.json, generation_config.json) say which tokens begin and end a text. `path` may be their folder.
/// Errors: not_found, unsupported (a file of another kind), data_corrupt, resource_exhausted.
std::unique_ptr<Tokenizer> load(const std::string& path);

}  // namespace quern::tokenizers
