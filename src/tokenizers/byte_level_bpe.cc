#include "tokenizers/detail/byte_level.h"
#include "tokenizers/detail/ranked_bpe.h"
#include "tokenizers/models.h"

namespace quern::tokenizers {
namespace {

class ByteLevelBpe final : public detail::RankedBpe {
 public:
  ByteLevelBpe(const Spec& spec, const detail::PreTokenizerRow& row) : RankedBpe(spec, row) {
    read_vocabulary(spec);
    for (std::size_t b = 0; b < 256; ++b) {
      const char byte = static_cast<char>(b);
      if (const Id id = find(std::string_view(&byte, 1)); id >= 0) byte_ids_[b] = id;
    }
    parallel_ = true;
  }

 private:
  bool append_bytes(std::size_t id, std::string& out) override {
    const std::size_t before = out.size();
    if (!detail::append_spelled_bytes(texts_[id], out)) return false;
    // What users define is added as text, not in the spelling of bytes.
    return types_[id] != TokenType::user_defined || std::string_view(out).substr(before) == texts_[id];
  }

  void begin_word(std::string_view word, std::vector<Symbol>& symbols) const override {
    for (const char c : word) {  // a byte that the vocabulary lacks is left out, as the reference does
      if (const Id id = byte_ids_[static_cast<unsigned char>(c)]; id >= 0) symbols.push_back(id);
    }
  }
  void end_word(const std::vector<Symbol>& symbols, std::vector<Id>& ids) const override {
    ids.insert(ids.end(), symbols.begin(), symbols.end());
  }
};

}  // namespace

std::unique_ptr<Tokenizer> make_byte_level_bpe(const Spec& spec) {
  const detail::PreTokenizerRow& row = detail::find_pre_tokenizer(spec.pre_tokenizer);
  if (row.characters) return make_character_bpe(spec);
  return std::make_unique<ByteLevelBpe>(spec, row);
}

}  // namespace quern::tokenizers
