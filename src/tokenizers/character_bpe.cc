// BPE over characters with a list of merges (Gemma 4): a character without a token becomes byte tokens. Sources: as SentencePiece BPE.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tokenizers/detail/byte_level.h"
#include "tokenizers/detail/joins.h"
#include "tokenizers/detail/ranked_bpe.h"
#include "tokenizers/models.h"

namespace quern::tokenizers {
namespace {

class CharacterBpe final : public detail::RankedBpe {
 public:
  CharacterBpe(const Spec& spec, const detail::PreTokenizerRow& row) : RankedBpe(spec, row), spaces_escaped_(row.spaces_escaped) {
    read_vocabulary(spec);
    for (std::size_t c = 0; c < ascii_.size(); ++c) ascii_[c] = symbol_of(std::string(1, static_cast<char>(c)));
    if (special().unk >= 0) unknown_ = static_cast<Id>(special().unk);
  }

 private:
  bool append_bytes(std::size_t id, std::string& out) override {
    const std::string_view text = texts_[id];
    if (detail::valid_prefix(text) != text.size()) return false;
    // Where spaces are escaped, no text leads to a token with a plain one.
    if (spaces_escaped_ && text.find(' ') != text.npos) return false;
    const std::size_t before = out.size();
    if (spaces_escaped_) {
      detail::append_unescaped(text, out);
    } else {
      out += text;
    }
    joins_.add(std::string_view(out).substr(before));
    return true;
  }

  Symbol symbol_of(std::string_view character) const {
    const Id id = find(character);
    return id >= 0 ? id : -1 - static_cast<Symbol>(detail::code_point(character.data()));
  }

  void begin_word(std::string_view word, std::vector<Symbol>& symbols) const override {
    for (std::size_t at = 0; at < word.size();) {
      const std::size_t length = detail::character_length(word[at]);
      symbols.push_back(length == 1 ? ascii_[static_cast<unsigned char>(word[at])] : symbol_of(word.substr(at, length)));
      at += length;
    }
  }

  void end_word(const std::vector<Symbol>& symbols, std::vector<Id>& ids) const override {
    for (const Symbol symbol : symbols) {
      if (symbol >= 0) {
        ids.push_back(symbol);
        continue;
      }
      const auto code = static_cast<std::uint32_t>(-1 - symbol);
      std::string bytes;  // of at most four bytes: on the stack
      detail::append_code_point(spaces_escaped_ && code == ' ' ? 0x2581 : code, bytes);
      const auto id = [&](char byte) { return byte_ids_[static_cast<unsigned char>(byte)]; };
      if (std::all_of(bytes.begin(), bytes.end(), [&](char byte) { return id(byte) >= 0; })) {
        for (const char byte : bytes) ids.push_back(id(byte));
      } else if (unknown_ >= 0) {
        ids.push_back(unknown_);
      }
    }
  }

  void encode_text(std::string_view text, std::vector<Id>& ids) const override {
    const detail::ScratchPool<Scratch>::Lease scratch(scratch_);
    if (spaces_escaped_ && text.find("\xE2\x96\x81") != text.npos) {  // in text too U+2581 is a space
      scratch->text.clear();
      detail::append_unescaped(text, scratch->text);
      text = scratch->text;
    }
    pre_tokenizer_.split(text, scratch->words, scratch->other);
    detail::IdSink sink(ids);
    std::size_t begin = 0;
    for (const std::uint32_t end : scratch->words) {
      const std::string_view word = text.substr(0, end);
      while (begin < end) {
        const std::size_t piece_end = joins_.piece_end(word, begin);
        encode_word(word.substr(begin, piece_end - begin), *scratch, sink);
        begin = piece_end;
      }
    }
  }

  bool spaces_escaped_;
  Id unknown_ = -1;
  std::array<Symbol, 128> ascii_;
  detail::Joins joins_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_character_bpe(const Spec& spec) {
  return std::make_unique<CharacterBpe>(spec, detail::find_pre_tokenizer(spec.model == "gemma4" ? "gemma4" : spec.pre_tokenizer));
}

}  // namespace quern::tokenizers
