#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "tokenizers/detail/byte_level.h"
#include "tokenizers/detail/word_model.h"

namespace quern::tokenizers::detail {

WordModel::~WordModel() = default;

Vocabulary::Vocabulary(std::span<const std::string_view> tokens, std::vector<bool> present, bool indexed)
    : present_(std::move(present)), index_(0) {
  std::size_t bytes = 0;
  for (const std::string_view token : tokens) bytes += token.size();
  if (bytes > std::numeric_limits<std::uint32_t>::max())
    throw Error(Code::resource_exhausted, "the texts of the vocabulary are more than 4 GiB");
  texts_.reserve(tokens.size(), bytes);
  for (const std::string_view token : tokens) texts_.add(token);
  count_ = static_cast<std::size_t>(std::count(present_.begin(), present_.end(), true));
  if (indexed) index();
}

void Vocabulary::index() {
  index_ = TokenIndex(size());
  index_.add_all(texts_, present_);
}

bool Vocabulary::to_bytes() {
  Strings spelled{PageString(texts_.bytes.size(), '\0'), PageVector<std::uint32_t>(size())};
  std::size_t end = 0;
  for (std::size_t id = 0; id < size(); ++id) {
    const std::size_t count = spelled_bytes(texts_[id], spelled.bytes.data() + end);
    if (count == kNotSpelled) return false;
    spelled.ends[id] = static_cast<std::uint32_t>(end += count);
  }
  spelled.bytes.resize(end);
  texts_ = std::move(spelled);
  index();
  return true;
}

}  // namespace quern::tokenizers::detail
