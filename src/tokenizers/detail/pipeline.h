#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tokenizers/detail/added_tokens.h"
#include "tokenizers/detail/decoder.h"
#include "tokenizers/detail/normalizer.h"
#include "tokenizers/detail/piece_cutter.h"
#include "tokenizers/detail/word_model.h"
#include "tokenizers/tokenizer.h"

namespace quern::tokenizers::detail {

/// A tokenizer as tokenizer.json describes it: added tokens are cut out, the rest is normalised, cut into words, and each word turned into
/// tokens by the model.
struct Pipeline {
  /// A token of the vocabulary that is cut out of the text first.
  struct Added {
    AddedTokens::Token token;
    bool normalized = false;  ///< Looked for in the normalised text.
  };

  std::vector<Added> added = {};
  Normalizer normalizer = {};
  PieceCutter cutter = {};
  /// Called once the texts of the tokens have been copied; may change the cutter.
  std::function<std::unique_ptr<WordModel>(PieceCutter&)> make_model = {};
  Decoder decoder = {};
  /// Ids around a text, where the file says so.
  std::optional<std::pair<std::vector<Id>, std::vector<Id>>> frame = {};
  std::vector<std::pair<Id, std::string>> shown_as = {};  ///< Tokens that are decoded as another text.
  std::vector<std::string> notes = {};
};

/// `spec`: tokens by id with their types, and the special ids; its model is not looked at. Errors: data_corrupt.
std::unique_ptr<Tokenizer> make_pipeline_tokenizer(const Spec& spec, Pipeline pipeline);

}  // namespace quern::tokenizers::detail
