#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizers/tokenizer.h"

namespace quern::tokenizers::detail {

/// What files beside the vocabulary say of a tokenizer.
struct TokenizerSettings {
  /// Texts of the tokens with a role; empty: not said.
  std::string bos = {}, eos = {}, unk = {}, sep = {}, pad = {}, mask = {};
  std::optional<bool> add_bos = {}, add_eos = {};
  std::vector<std::int64_t> end_ids = {};
  std::vector<std::pair<std::int64_t, std::string>> added = {};  ///< Special tokens by id, of a file that has none of its own.
};

/// A tokenizer.json. `json` is needed during the call only. Errors: data_corrupt, unsupported (a step that Quern does not know).
std::unique_ptr<Tokenizer> read_tokenizer_json(std::string_view json, const TokenizerSettings& settings);

}  // namespace quern::tokenizers::detail
