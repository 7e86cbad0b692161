// WordPiece as GGUF's "bert" model has it: a token that begins a word is spelled with U+2581 in front, one that goes on as it is.
#include <algorithm>
#include <deque>
#include <string>

#include "base/error.h"
#include "tokenizers/detail/pipeline.h"
#include "tokenizers/models.h"

namespace quern::tokenizers {
namespace {

constexpr std::string_view kWordMark = "\xE2\x96\x81", kContinues = "##";

}  // namespace

std::unique_ptr<Tokenizer> make_word_piece(const Spec& given) {
  Spec spec = given;
  const auto type = [&](std::size_t i) { return i < spec.types.size() ? static_cast<TokenType>(spec.types[i]) : TokenType::normal; };
  const auto role = [&](std::int64_t& id, std::string_view text) {
    const auto it = std::find(spec.tokens.begin(), spec.tokens.end(), text);
    if (id < 0 && it != spec.tokens.end()) id = it - spec.tokens.begin();
  };
  role(spec.special.bos, "[CLS]");
  role(spec.special.sep, "[SEP]");
  role(spec.special.unk, "[UNK]");
  const std::int64_t unknown = spec.special.unk;
  if (unknown < 0 || static_cast<std::size_t>(unknown) >= spec.tokens.size())
    throw Error(Code::data_corrupt, "the vocabulary has no unknown token, which WordPiece needs");
  detail::Pipeline pipeline;
  std::vector<std::string_view> texts(spec.tokens.size());
  std::vector<bool> present(spec.tokens.size());
  std::deque<std::string> made;
  bool cased = false;  // no file says it, but a vocabulary of lower case has no capital letters
  for (std::size_t i = 0; i < spec.tokens.size(); ++i) {
    const std::string_view token = spec.tokens[i];
    const Id id = static_cast<Id>(i);
    if (type(i) != TokenType::normal || static_cast<std::int64_t>(i) == unknown) {
      if (type(i) == TokenType::control || type(i) == TokenType::unknown) {
        pipeline.added.push_back({{.text = std::string(token), .id = id, .special = true}});
      } else if (type(i) == TokenType::user_defined) {
        pipeline.added.push_back({{.text = std::string(token), .id = id}});
      }
      texts[i] = token, present[i] = static_cast<std::int64_t>(i) == unknown;
      continue;
    }
    present[i] = true;
    texts[i] = token.starts_with(kWordMark) ? token.substr(kWordMark.size())
                                            : std::string_view(made.emplace_back(std::string(kContinues) + std::string(token)));
    pipeline.shown_as.emplace_back(id, texts[i]);
    cased = cased || std::any_of(texts[i].begin(), texts[i].end(), [](char c) { return c >= 'A' && c <= 'Z'; });
  }
  pipeline.normalizer.add(
      detail::normalizers::Bert{.clean_text = true, .handle_chinese_chars = true, .strip_accents = !cased, .lowercase = !cased});
  pipeline.cutter.add(detail::cutters::Bert{});
  pipeline.decoder.add(detail::decoders::WordPiece{.prefix = std::string(kContinues), .cleanup = true});
  pipeline.decoder.finish();
  const auto frame = [&](std::optional<bool> on, std::int64_t id) {
    return on.value_or(true) && id >= 0 && static_cast<std::size_t>(id) < spec.tokens.size() ? std::vector<Id>{static_cast<Id>(id)}
                                                                                             : std::vector<Id>{};
  };
  pipeline.frame.emplace(frame(spec.add_bos, spec.special.bos), frame(spec.add_eos, spec.special.sep));
  const std::string unknown_text(texts[static_cast<std::size_t>(unknown)]);
  pipeline.make_model = [&](detail::PieceCutter&) {
    return detail::make_word_piece_model(detail::Vocabulary(texts, std::move(present)),
                                         {.unknown = unknown_text, .prefix = std::string(kContinues)});
  };
  return detail::make_pipeline_tokenizer(spec, std::move(pipeline));
}

}  // namespace quern::tokenizers
