// Any bytes as text: what encode() gives decodes to the same text (malformed bytes replaced), streamed or whole, with and without special
// tokens. The first byte chooses the pre-tokenizer, or a SentencePiece model.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tokenizers/detail/pre_tokenizer.h"
#include "tokenizers/detail/utf8.h"
#include "tokenizers/sentence_piece_vocabulary.h"

namespace {

using namespace quern::tokenizers;

std::size_t byte_level = 0;   // so many of all_tokenizers()
std::vector<bool> composing;  // which of these change the text

const std::vector<std::unique_ptr<Tokenizer>>& all_tokenizers() {
  static const auto tokenizers = [] {
    std::vector<std::unique_ptr<Tokenizer>> made;
    const SmallVocabulary vocabulary;
    for (const auto& row : detail::pre_tokenizer_rows()) {
      if (row.characters) continue;
      made.push_back(vocabulary.make(std::string(row.names.front())));
      composing.push_back(row.composes);
    }
    byte_level = made.size();
    for (const char* name : {"llama", "gemma", "squeezing"}) made.push_back(make_sentence_piece(name));
    return made;
  }();
  return tokenizers;
}

void check(bool holds) {
  if (!holds) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::size_t which = data[0] % all_tokenizers().size();
  const auto& t = *all_tokenizers()[which];
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  std::string expected;
  detail::append_replaced(text, false, expected);
  if (which < byte_level)
    std::erase(expected, '\x16');  // the byte that the small vocabulary has no token for
  else
    for (std::size_t at; (at = expected.find("▁")) != expected.npos;) expected.replace(at, 3, " ");  // how these spell a space
  const bool squeezing = which + 1 == all_tokenizers().size(), prefixing = which + 3 == all_tokenizers().size();
  for (const bool parse_special : {false, true}) {
    const std::vector<Id> ids = t.encode(text, {.parse_special = parse_special});
    const bool composes = which < byte_level && composing[which];
    if (squeezing || composes || (prefixing && parse_special)) expected = t.decode(ids);  // has spaces less, or behind special tokens more
    check(t.decode(ids) == expected);
    StreamDecoder stream(t);
    std::string streamed;
    for (const Id id : ids) streamed += stream.push(id);
    streamed += stream.finish();
    check(streamed == expected);
    for (const Id id : ids) check(parse_special || squeezing || !t.is_special(id));  // squeezing: it has an unknown token
  }
  const LocatedIds located = t.encode_located(text);
  check(located.ids == t.encode(text) && located.ranges.size() == located.ids.size());
  for (const TextRange range : located.ranges) check(range.begin <= range.end && range.end <= text.size());
  const std::size_t cut = data[1] % (text.size() + 1);
  const Piece pieces[] = {{text.substr(0, cut), true}, {text.substr(cut), false}};
  t.encode(pieces);
  std::vector<Id> any;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) any.push_back(static_cast<Id>((data[i] << 8 | data[i + 1]) % t.size()));
  StreamDecoder stream(t);
  std::string streamed;
  for (const Id id : any) streamed += stream.push(id);
  streamed += stream.finish();
  check(streamed == t.decode(any));
  return 0;
}
