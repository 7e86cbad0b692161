#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizers/tokenizer.h"

namespace quern::engine::testing {

/// A tokenizer whose tokens 0 … 255 are the bytes of these numbers, 256 … the given words of ASCII, and the last one the end token.
struct ByteTokens {
  explicit ByteTokens(std::vector<std::string> more) : words(std::move(more)) {
    std::vector<std::string> spelled;
    const auto character = [](int code) {
      return code < 128 ? std::string(1, static_cast<char>(code))
                        : std::string{static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 63))};
    };
    int next = 256;  // GPT-2's stand-ins for bytes that do not print
    const auto prints = [](int b) { return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174; };
    std::vector<std::string> of_byte;
    for (int b = 0; b < 256; ++b) of_byte.push_back(character(prints(b) ? b : next++));
    spelled = of_byte;
    for (const std::string& word : words) {
      spelled.emplace_back();
      for (const char c : word) spelled.back() += of_byte[static_cast<unsigned char>(c)];
    }
    spelled.push_back("<|im_end|>");
    tokenizers::Spec spec{.model = "gpt2", .pre_tokenizer = "smollm"};
    spec.tokens.assign(spelled.begin(), spelled.end());
    spec.types.assign(spelled.size(), 1);
    spec.types.back() = 3;
    end = static_cast<std::int32_t>(spelled.size()) - 1;
    spec.special.eos = end;
    tokenizer = tokenizers::make_tokenizer(spec);
  }

  /// The token of this very text, or else one token a byte.
  void append(const std::string& text, std::vector<std::int32_t>& ids) const {
    const auto found = std::find(words.begin(), words.end(), text);
    if (found != words.end()) {
      ids.push_back(256 + static_cast<std::int32_t>(found - words.begin()));
    } else {
      for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    }
  }

  std::vector<std::string> words;
  std::shared_ptr<const tokenizers::Tokenizer> tokenizer;
  std::int32_t end = 0;
};

}  // namespace quern::engine::testing
