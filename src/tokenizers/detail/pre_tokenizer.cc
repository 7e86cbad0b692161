#include "tokenizers/detail/pre_tokenizer.h"

#include <fmt/format.h>

#include <string>

#include "base/error.h"
#include "tokenizers/detail/patterns.h"

namespace quern::tokenizers::detail {
namespace {

std::vector<PreTokenizerRow> make_rows() {
  using namespace patterns;
  constexpr bool kIgnoreMerges = true, kAddBos = true, kComposes = true;
  return {
      {{"gpt-2", "phi-2", "jina-es", "jina-de", "gigachat", "jina-v2-es", "jina-v2-de", "a.x-4.0", "mellum", "modern-bert", "jina-v1-en",
        "jina-v2-code", "roberta-bpe", "exaone4", "mpt", "olmo", "jais", "trillion", "granite-docling"},
       {kGpt2}},
      {{"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"}, {kNumber, kGpt2}},
      {{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"},
       {kLlama3},
       kIgnoreMerges,
       kAddBos},
      {{"glm4", "glm5"}, {kLlama3}, kIgnoreMerges},
      {{"dbrx", "smaug-bpe", "chatglm-bpe"}, {kLlama3}},
      {{"qwen2"}, {kQwen2}, false, false, false, false, kComposes},
      {{"deepseek-r1-qwen", "kormo", "f2llmv2", "megrez", "stablelm2", "hunyuan", "solar-open", "grok-2"}, {kQwen2}},
      {{"bailingmoe", "bailingmoe2", "llada-moe"}, {kBailing}},
      {{"qwen35"}, {kQwen35}},  // reads marks as parts of words, and its vectors leave them as they are
      {{"ufakzeka"}, {kUfakzeka}},
      {{"seed-coder"}, {kSeedCoder}},
      {{"laguna"}, {kLines, kQwen2}},
      {{"minicpm5"}, {kNumbersByThree, kLlama3LongNumbers}, kIgnoreMerges},
      {{"default"}, {kPunctuation, kGpt2, kNumbers, kThreeDigits}},
      {{"falcon"}, {kPunctuationAndBackquote, kGpt2, kThreeDigits}},
      {{"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"}, {kGpt4o}},
      {{"granite-embed-multi-97m"}, {kGpt4o}, kIgnoreMerges},
      {{"tiny_aya", "cohere2moe"}, {kDigitGroups, kGpt4o}},
      {{"tekken"}, {kTekken}, kIgnoreMerges, kAddBos},
      {{"youtu"}, {kYoutuScripts, kYoutu}, kIgnoreMerges},
      {{"deepseek-llm"}, {kLineEnd, kDeepseekLetters, kDeepseekSigns, kWhiteAtEnd, kCjkAndHangul, kNumbers}},
      {{"deepseek-coder"}, {kLineEnd, kSpacedLetters, kSpacedPunctuation, kCjkAndHangul, kNumber}},
      {{"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"}, {kNumbersByThree, kCjkAndKana, kDeepseekV3}},
      {{"spark2_5"}, {kNumbersByThree, kCjkAndKana, kSpark, kNumber}},
      {{"afmoe"}, {kNumbers, kNumberGroupBorders, kAfmoeScripts, kDeepseekV3}},
      {{"kimi-k2"}, {kKimiK2}},
      {{"exaone-moe"}, {kExaoneMoe}},
      {{"superbpe"}, {kNumbers, kDigitGroupBorders}},
      {{"jais-2"}, {kJais2}},
      {{"poro-chat", "bloom", "gpt3-finnish"}, {kNoSentenceMarks}},
      {{"viking"}, {kNoSentenceMarks, kNumber}},
      {{"chameleon"}, {kSentinel, kImage, kIndentation, kNumber, kPunctuationMark, kGpt2}, false, kAddBos},
      {{"gemma4", "granite-embed-multi-311m"}, {kLines}, false, kAddBos, true, true},
      {{"sarvam-moe"}, {kLines}, false, false, true, true},
      {{"whitespace"}, {kNotWhite}, false, false, true},
  };
}

}  // namespace

std::span<const PreTokenizerRow> pre_tokenizer_rows() {
  static const std::vector<PreTokenizerRow> rows = make_rows();
  return rows;
}

const PreTokenizerRow& find_pre_tokenizer(std::string_view name) {
  if (name.empty()) name = "default";
  std::string known;
  for (const PreTokenizerRow& row : pre_tokenizer_rows()) {
    for (const std::string_view n : row.names) {
      if (n == name) return row;
      known += known.empty() ? "" : ", ";
      known += n;
    }
  }
  throw Error(Code::unsupported, fmt::format("pre-tokenizer '{}' is not supported", name)).hint("supported: " + known);
}

PreTokenizer::PreTokenizer(std::span<const std::string_view> patterns) {
  if (patterns.size() >= 2 && patterns[0] == patterns::kNumber && patterns[1] == patterns::kGpt2) {  // one scanner does both
    steps_.emplace_back(scan_gpt2_single_digits);
    patterns = patterns.subspan(2);
  }
  for (const std::string_view pattern : patterns) steps_.emplace_back(pattern);
}

void PreTokenizer::split(std::string_view text, Ends& ends, Ends& scratch) const {
  ends.assign(1, static_cast<std::uint32_t>(text.size()));
  for (const Splitter& step : steps_) {
    scratch.clear();
    step.split(text, ends, scratch);
    ends.swap(scratch);
  }
}

}  // namespace quern::tokenizers::detail
