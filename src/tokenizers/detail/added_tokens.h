#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quern::tokenizers::detail {

/// Finds the tokens that are cut out of a text before anything else, with the rules of tokenizer.json's added_tokens: the leftmost, of
/// those the longest, none overlapping.
class AddedTokens {
 public:
  struct Token {
    std::string text = {};
    std::int32_t id = -1;
    bool single_word = false, lstrip = false, rstrip = false, special = false;
  };

  /// Of several with one text the last is found. Longer ones than kMaxBytes are not looked for, so that looking stays linear.
  static constexpr std::size_t kMaxBytes = 512;
  void add(Token token);
  /// After the last add().
  void finish();
  bool empty() const { return tokens_.empty(); }

  /// Calls part(id, begin, end) for every token and, with id -1, for what lies between. `may(begin, end)` says whether a special token may
  /// be taken there; if not its text stays text.
  template <class May, class Part>
  void split(std::string_view text, May may, Part part) const {
    std::size_t done = 0;
    for (std::size_t i = 0; i < text.size();) {
      const auto byte = static_cast<unsigned char>(text[i]);
      if (first_[byte] == first_[byte + 1u]) {
        ++i;
        continue;
      }
      const Token* token = longest(text.substr(i));
      if (token == nullptr) {
        ++i;
        continue;
      }
      std::size_t begin = i, end = i + token->text.size();
      i = end;
      if ((token->special && !may(begin, end)) || (token->single_word && touches_word(text, begin, end))) continue;
      if (token->lstrip) begin = std::max(white_before(text, begin), done);
      if (token->rstrip) end = white_after(text, end);
      if (done < begin) part(std::int32_t{-1}, done, begin);
      part(token->id, begin, end);
      done = end;
    }
    if (done < text.size()) part(std::int32_t{-1}, done, text.size());
  }

 private:
  const Token* longest(std::string_view text) const;
  static bool touches_word(std::string_view text, std::size_t begin, std::size_t end);
  static std::size_t white_before(std::string_view text, std::size_t at);
  static std::size_t white_after(std::string_view text, std::size_t at);

  std::vector<Token> tokens_;               // sorted by text after finish()
  std::vector<std::size_t> order_;          // until finish()
  std::array<std::uint32_t, 257> first_{};  // first index into tokens_ of each first byte
};

}  // namespace quern::tokenizers::detail
