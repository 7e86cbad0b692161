#include "tokenizers/detail/sentence_piece.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "tokenizers/detail/pipeline.h"

namespace quern::tokenizers::detail {
namespace {

constexpr double kUnknownPenalty = 10;  // below the lowest score: the library's

std::vector<double> read_scores(const Spec& spec) {
  if (!spec.scores.empty() && spec.scores.size() != spec.tokens.size())
    throw Error(Code::data_corrupt, fmt::format("the vocabulary has {} tokens but {} scores", spec.tokens.size(), spec.scores.size()));
  std::vector<double> scores(spec.tokens.size());
  for (std::size_t i = 0; i < spec.scores.size(); ++i) {
    if (!std::isfinite(spec.scores[i])) throw Error(Code::data_corrupt, fmt::format("the score of token {} is not a number", i));
    scores[i] = static_cast<double>(spec.scores[i]);
  }
  return scores;
}

}  // namespace

std::unique_ptr<Tokenizer> make_sentence_piece(const Spec& spec, const SentencePieceRules& rules) {
  const auto type = [&](std::size_t i) { return i < spec.types.size() ? static_cast<TokenType>(spec.types[i]) : TokenType::normal; };
  if (!spec.types.empty() && spec.types.size() != spec.tokens.size())
    throw Error(Code::data_corrupt, fmt::format("the vocabulary has {} tokens but {} token types", spec.tokens.size(), spec.types.size()));
  std::vector<double> scores = read_scores(spec);
  Pipeline pipeline;
  std::vector<Id> hidden;
  PageVector<DoubleArray::Key> user_defined;
  double lowest = std::numeric_limits<double>::max();
  Id unknown = static_cast<Id>(spec.special.unk);
  for (std::size_t i = 0; i < spec.tokens.size(); ++i) {
    const Id id = static_cast<Id>(i);
    switch (type(i)) {
      case TokenType::normal: lowest = std::min(lowest, scores[i]); break;
      case TokenType::user_defined:
        user_defined.emplace_back(spec.tokens[i], id);
        // So that the whole of it is always worth more than its parts.
        if (rules.unigram) scores[i] = static_cast<double>(static_cast<float>(0.1 * (static_cast<double>(spec.tokens[i].size()) - 1)));
        break;
      case TokenType::unknown: unknown = id; [[fallthrough]];
      case TokenType::control:
        pipeline.added.push_back({{.text = std::string(spec.tokens[i]), .id = id, .special = true}});
        [[fallthrough]];
      default: hidden.push_back(id);
    }
  }
  normalizers::SentencePiece normal{.charsmap = {},
                                    .user_defined = DoubleArray(std::move(user_defined)),
                                    .dummy_prefix = rules.dummy_prefix,
                                    .squeeze = rules.remove_extra_whitespaces,
                                    .escape = rules.escape_whitespaces,
                                    .suffix = rules.whitespace_as_suffix};
  if (!rules.charsmap.empty()) normal.charsmap.emplace_back(rules.charsmap);
  pipeline.normalizer.add(std::move(normal));
  pipeline.decoder.add(
      decoders::SentencePiece{.strips = rules.dummy_prefix || rules.remove_extra_whitespaces, .squeezes = rules.remove_extra_whitespaces});
  pipeline.decoder.finish();
  if (unknown >= 0 && static_cast<std::size_t>(unknown) < spec.tokens.size())
    pipeline.shown_as.emplace_back(unknown, rules.unknown_surface);

  pipeline.make_model = [&](PieceCutter&) {
    Vocabulary vocabulary(spec.tokens, std::vector<bool>(spec.tokens.size(), true));
    if (rules.unigram)
      return make_unigram_model(std::move(vocabulary), std::move(scores),
                                {.unknown = unknown,
                                 .byte_fallback = rules.byte_fallback,
                                 .single_precision = true,
                                 .unknown_score = static_cast<double>(static_cast<float>(lowest) - static_cast<float>(kUnknownPenalty)),
                                 .hidden = std::move(hidden)});
    ScoredBpeOptions options{.unknown = unknown, .byte_fallback = rules.byte_fallback, .hidden = std::move(hidden)};
    for (std::size_t i = 0; i < spec.tokens.size(); ++i)
      if (type(i) == TokenType::user_defined) options.whole.push_back(static_cast<Id>(i));
    return make_scored_bpe_model(std::move(vocabulary), ranks_of(scores), std::move(options));
  };
  return make_pipeline_tokenizer(spec, std::move(pipeline));
}

}  // namespace quern::tokenizers::detail
