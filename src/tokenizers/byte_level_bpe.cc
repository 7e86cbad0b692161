#include <array>

#include "tokenizers/detail/byte_level.h"
#include "tokenizers/detail/ranked_bpe.h"
#include "tokenizers/models.h"

namespace quern::tokenizers {
namespace {

class ByteLevelBpe final : public detail::RankedBpe {
 public:
  ByteLevelBpe(const Spec& spec, const detail::PreTokenizerRow& row) : RankedBpe(spec, row) {
    read_merges(spec, read_tokens());
    parallel_ = true;
  }

 private:
  // Returns which tokens are found by the bytes they stand for.
  std::vector<bool> read_tokens() {
    byte_ids_.fill(-1);
    std::array<Id, 256> fallback;
    fallback.fill(-1);
    token_bytes_.bytes.reserve(texts_.bytes.size());
    token_bytes_.ends.reserve(size());
    std::vector<bool> found(size());
    std::string bytes;
    for (std::size_t i = 0; i < size(); ++i) {
      const std::string_view text = texts_[i];
      bytes.clear();
      if (types_[i] == TokenType::byte) {
        const unsigned char value = detail::byte_token_value(i, text);
        fallback[value] = static_cast<Id>(i);
        token_bytes_.add(std::string_view(reinterpret_cast<const char*>(&value), 1));
        continue;
      }
      // A control token's bytes are its text, and no merge may ever lead to it: then text cannot forge it.
      const bool plain = types_[i] != TokenType::control && types_[i] != TokenType::unknown;
      found[i] = plain && !text.empty() && append_bytes(text, bytes);
      if (types_[i] == TokenType::user_defined && bytes != text) found[i] = false;  // added as text, not in the spelling of bytes
      token_bytes_.add(found[i] ? std::string_view(bytes) : text);
    }
    index_tokens(found);
    for (std::size_t b = 0; b < 256; ++b) {
      const char byte = static_cast<char>(b);
      byte_ids_[b] = find(std::string_view(&byte, 1));
      if (byte_ids_[b] < 0) byte_ids_[b] = fallback[b];
    }
    return found;
  }

  bool append_bytes(std::string_view text, std::string& out) const override { return detail::append_spelled_bytes(text, out); }

  void begin_word(std::string_view word, std::vector<Symbol>& symbols) const override {
    for (const char c : word) {  // a byte that the vocabulary lacks is left out, as the reference does
      if (const Id id = byte_ids_[static_cast<unsigned char>(c)]; id >= 0) symbols.push_back(id);
    }
  }
  void end_word(const std::vector<Symbol>& symbols, std::vector<Id>& ids) const override {
    ids.insert(ids.end(), symbols.begin(), symbols.end());
  }

  std::array<Id, 256> byte_ids_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_byte_level_bpe(const Spec& spec) {
  const detail::PreTokenizerRow& row = detail::find_pre_tokenizer(spec.pre_tokenizer);
  if (row.characters) return make_character_bpe(spec);
  return std::make_unique<ByteLevelBpe>(spec, row);
}

}  // namespace quern::tokenizers
