#pragma once

#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "small_vocabulary.h"
#include "tokenizers/tokenizer.h"

namespace quern::tokenizers {

inline std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) bytes += static_cast<char>(std::strtol(hex.substr(i, 2).c_str(), nullptr, 16));
  return bytes;
}

/// A model of data/sentence_piece.* (see make_sentence_piece.py); owns the texts that spec() refers to.
class SentencePieceVocabulary {
 public:
  explicit SentencePieceVocabulary(const std::string& name) {
    for (const std::string& line : data_lines("sentence_piece." + name + ".vocabulary")) {
      std::istringstream in(line);
      std::string hex;
      in >> types_.emplace_back() >> scores_.emplace_back() >> hex;
      tokens_.push_back(from_hex(hex));
    }
  }

  Spec spec() const {
    Spec spec{.model = "llama", .types = {types_.begin(), types_.end()}, .scores = {scores_.begin(), scores_.end()}};
    spec.tokens.assign(tokens_.begin(), tokens_.end());
    return spec;
  }

 private:
  std::vector<std::string> tokens_;
  std::vector<std::int32_t> types_;
  std::vector<float> scores_;
};

/// "llama", "gemma" or "squeezing".
inline std::unique_ptr<Tokenizer> make_sentence_piece(const std::string& name) {
  const SentencePieceVocabulary vocabulary(name);
  Spec spec = vocabulary.spec();
  if (name == "gemma") spec.add_space_prefix = false;
  spec.remove_extra_whitespaces = name == "squeezing";
  return make_tokenizer(spec);
}

}  // namespace quern::tokenizers
