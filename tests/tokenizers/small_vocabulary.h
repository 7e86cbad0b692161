#pragma once

#include <cstdlib>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "tokenizers/tokenizer.h"

namespace quern::tokenizers {

inline std::vector<std::string> data_lines(const std::string& name) {
  const std::string path = QUERN_SOURCE_DIR "/tests/tokenizers/data/" + name;
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

/// The vocabulary of data/ (see make_oracle.py); owns the texts that spec() refers to.
class SmallVocabulary {
 public:
  SmallVocabulary() {
    for (const std::string& line : data_lines("vocabulary.txt")) {
      types_.push_back(std::atoi(line.c_str()));
      tokens_.push_back(line.substr(line.find(' ') + 1));
    }
    merges_ = data_lines("merges.txt");
  }

  Spec spec(std::string pre_tokenizer) const {
    Spec spec{.model = "gpt2", .pre_tokenizer = std::move(pre_tokenizer), .types = {types_.begin(), types_.end()}};
    spec.tokens.assign(tokens_.begin(), tokens_.end());
    spec.merges.assign(merges_.begin(), merges_.end());
    spec.special = {.bos = 1, .eos = 2, .unk = 0, .pad = 4};
    return spec;
  }
  std::unique_ptr<Tokenizer> make(std::string pre_tokenizer) const { return make_tokenizer(spec(std::move(pre_tokenizer))); }

 private:
  std::vector<std::string> tokens_, merges_;
  std::vector<std::int32_t> types_;
};

}  // namespace quern::tokenizers
