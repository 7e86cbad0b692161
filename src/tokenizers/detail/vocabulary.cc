#include <array>
#include <limits>

#include "base/error.h"
#include "tokenizers/detail/byte_level.h"
#include "tokenizers/detail/word_model.h"

namespace quern::tokenizers::detail {

WordModel::~WordModel() = default;

Vocabulary::Vocabulary(std::span<const std::string_view> tokens, const std::vector<bool>& present) : present_(present), index_(0) {
  std::size_t bytes = 0;
  for (const std::string_view token : tokens) bytes += token.size();
  if (bytes > std::numeric_limits<std::uint32_t>::max())
    throw Error(Code::resource_exhausted, "the texts of the vocabulary are more than 4 GiB");
  bytes_.reserve(bytes);
  ends_.reserve(tokens.size());
  for (const std::string_view token : tokens) {
    bytes_ += token;
    ends_.push_back(static_cast<std::uint32_t>(bytes_.size()));
  }
  index();
}

void Vocabulary::index() {
  index_ = TokenIndex(size());
  count_ = 0;
  constexpr std::size_t kAhead = 16;  // what is added soon is fetched already
  std::array<std::size_t, kAhead> hashes{};
  for (std::size_t id = 0; id < size() + kAhead; ++id) {
    std::size_t& hash = hashes[id % kAhead];
    if (const std::size_t now = id - kAhead; id >= kAhead && present_[now]) {
      index_.add((*this)[now], hash, static_cast<std::int32_t>(now), *this);
      ++count_;
    }
    if (id < size()) hash = prefetch((*this)[id]);
  }
}

bool Vocabulary::spells_bytes() const {
  std::string bytes;
  for (std::size_t id = 0; id < size(); ++id) {
    bytes.clear();
    if (!append_spelled_bytes((*this)[id], bytes)) return false;
  }
  return true;
}

void Vocabulary::to_bytes() {
  std::string bytes;
  bytes.reserve(bytes_.size());
  std::vector<std::uint32_t> ends;
  ends.reserve(size());
  for (std::size_t id = 0; id < size(); ++id) {
    append_spelled_bytes((*this)[id], bytes);
    ends.push_back(static_cast<std::uint32_t>(bytes.size()));
  }
  bytes_ = std::move(bytes);
  ends_ = std::move(ends);
  index();
}

}  // namespace quern::tokenizers::detail
