#include "tokenizers/detail/added_tokens.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "tokenizers/detail/hugging_face.h"
#include "tokenizers/detail/unicode.h"
#include "tokenizers/detail/utf8.h"

namespace quern::tokenizers::detail {
namespace {

std::uint32_t code_before(std::string_view text, std::size_t at, std::size_t& begin) {
  begin = at - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  return code_point(text.data() + begin);
}

}  // namespace

void AddedTokens::add(Token token) {
  if (token.text.empty() || token.text.size() > kMaxBytes) return;
  order_.push_back(tokens_.size());
  tokens_.push_back(std::move(token));
}

void AddedTokens::finish() {
  std::sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(std::string_view(tokens_[a].text), a) < std::pair(std::string_view(tokens_[b].text), b);
  });
  std::vector<Token> unique;
  for (const std::size_t i : order_) {
    if (!unique.empty() && unique.back().text == tokens_[i].text) unique.pop_back();
    unique.push_back(std::move(tokens_[i]));
  }
  tokens_ = std::move(unique);
  order_ = {};
  first_.fill(0);
  for (const Token& token : tokens_) ++first_[static_cast<unsigned char>(token.text[0]) + 1u];
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
}

const AddedTokens::Token* AddedTokens::longest(std::string_view text) const {
  const auto byte = static_cast<unsigned char>(text[0]);
  auto low = tokens_.begin() + first_[byte], high = tokens_.begin() + first_[byte + 1u];
  const Token* best = nullptr;
  // Narrow the range of tokens that begin with the text's first `length` bytes, one byte at a time.
  for (std::size_t length = 1; low != high; ++length) {
    if (low->text.size() == length) best = &*low++;
    if (length == text.size()) break;
    const auto next = static_cast<unsigned char>(text[length]);
    const auto at = [=](const Token& t) { return static_cast<unsigned char>(t.text[length]); };
    low = std::lower_bound(low, high, next, [&](const Token& t, unsigned char b) { return at(t) < b; });
    high = std::upper_bound(low, high, next, [&](unsigned char b, const Token& t) { return b < at(t); });
  }
  return best;
}

bool AddedTokens::touches_word(std::string_view text, std::size_t begin, std::size_t end) {
  std::size_t unused = 0;
  if (begin > 0 && (hugging_face_class(code_before(text, begin, unused)) & kWordCharacter)) return true;
  return end < text.size() && (hugging_face_class(code_point(text.data() + end)) & kWordCharacter);
}

std::size_t AddedTokens::white_before(std::string_view text, std::size_t at) {
  std::size_t begin = at;
  while (at > 0 && (char_table()[code_before(text, at, begin)] & kSpace)) at = begin;
  return at;
}

std::size_t AddedTokens::white_after(std::string_view text, std::size_t at) {
  while (at < text.size() && (char_table()[code_point(text.data() + at)] & kSpace)) at += character_length(text[at]);
  return at;
}

}  // namespace quern::tokenizers::detail
