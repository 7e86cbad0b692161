#include "engine/draft.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace quern::engine {

std::int64_t common_vocabulary(const tokenizers::Tokenizer& model, const tokenizers::Tokenizer& draft) {
  const auto refuse = [](const std::string& why) {
    throw Error(Code::invalid_argument, "the draft model has another vocabulary: " + why)
        .hint("a draft model is a smaller one of the same family, with the same tokenizer");
  };
  const std::size_t common = std::min(model.size(), draft.size());
  for (std::size_t i = 0; i < common; ++i) {
    const auto id = static_cast<tokenizers::Id>(i);
    if (model.token_text(id) != draft.token_text(id))
      refuse(fmt::format("token {} is '{}' to it and '{}' to the model", id, draft.token_text(id), model.token_text(id)));
  }
  const bool longer = draft.size() > common;
  const tokenizers::Tokenizer& more = longer ? draft : model;
  for (std::size_t i = common; i < more.size(); ++i) {
    const auto id = static_cast<tokenizers::Id>(i);
    if (more.type(id) != tokenizers::TokenType::unused)
      refuse(fmt::format("it has {} tokens and the model {}; {} knows token {} as '{}'", draft.size(), model.size(),
                         longer ? "it alone" : "the model alone", id, more.token_text(id)));
  }
  return static_cast<std::int64_t>(common);
}

}  // namespace quern::engine
