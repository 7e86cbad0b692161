#pragma once

#include <memory>
#include <string_view>

#include "tokenizers/detail/tokenizer_json.h"
#include "tokenizers/tokenizer.h"

namespace quern::tokenizers::detail {

/// A tiktoken rank file: "base64 rank" a line. Which pattern and special tokens belong to it is told by its size, and by the settings'
/// added tokens. Errors: data_corrupt, unsupported (a vocabulary that is not known).
std::unique_ptr<Tokenizer> read_tiktoken(std::string_view text, const TokenizerSettings& settings);

/// Mistral's tekken.json. Errors: data_corrupt, unsupported.
std::unique_ptr<Tokenizer> read_tekken(std::string_view json, const TokenizerSettings& settings);

/// Appends the bytes; false, with some appended, where the text is not base64.
bool append_base64(std::string_view text, std::string& out);

}  // namespace quern::tokenizers::detail
