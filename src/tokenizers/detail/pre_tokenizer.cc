#include "tokenizers/detail/pre_tokenizer.h"

#include <type_traits>

namespace quern::tokenizers::detail {
namespace {

// Patterns of tokenizer.json files that are lists of characters.
constexpr std::string_view kCjkAndKana = R"([\x{4e00}-\x{9fa5}\x{3040}-\x{309f}\x{30a0}-\x{30ff}]+)";
constexpr std::string_view kCjkAndHangul = R"([\x{4e00}-\x{9fa5}\x{800}-\x{4e00}\x{ac00}-\x{d7ff}]+)";
constexpr std::string_view kNoSentenceMarks = R"( ?[^(\s|.,!?…。，、।۔،)]+)";

std::vector<PreTokenizerRow> make_rows() {
  constexpr bool kIgnoreMerges = true, kAddBos = true;
  return {
      {{"gpt-2", "phi-2", "jina-es", "jina-de", "gigachat", "jina-v2-es", "jina-v2-de", "a.x-4.0", "mellum", "modern-bert", "jina-v1-en",
        "jina-v2-code", "roberta-bpe", "exaone4", "mpt", "olmo", "jais", "trillion", "granite-docling"},
       {scan_gpt2}},
      {{"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"}, {scan_gpt2_single_digits}},
      {{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"},
       {scan_llama3},
       kIgnoreMerges,
       kAddBos},
      {{"glm4", "glm5"}, {scan_llama3}, kIgnoreMerges},
      {{"dbrx", "smaug-bpe", "chatglm-bpe"}, {scan_llama3}},
      {{"qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez", "stablelm2", "hunyuan", "solar-open", "grok-2", "bailingmoe",
        "bailingmoe2", "llada-moe"},
       {scan_qwen2}},
      {{"qwen35"}, {scan_qwen35}},
      {{"ufakzeka"}, {scan_qwen2_no_contractions}},
      {{"seed-coder"}, {scan_qwen2_bare_punctuation}},
      {{"laguna"}, {scan_lines, scan_qwen2}},
      {{"minicpm5"}, {scan_digits_by_three, scan_llama3_long_numbers}, kIgnoreMerges},
      {{"default"}, {scan_punctuation, scan_gpt2, scan_numbers, "[0-9][0-9][0-9]"}},
      {{"falcon"}, {scan_punctuation_and_backquote, scan_gpt2, "[0-9][0-9][0-9]"}},
      {{"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"}, {scan_gpt4o}},
      {{"granite-embed-multi-97m"}, {scan_gpt4o}, kIgnoreMerges},
      {{"tekken"}, {scan_tekken}, kIgnoreMerges, kAddBos},
      {{"youtu"},
       {R"([가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+)", scan_youtu},
       kIgnoreMerges},
      {{"deepseek-coder"}, {"[\r\n]", scan_spaced_letters, scan_spaced_punctuation, kCjkAndHangul, scan_single_digits}},
      {{"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"}, {scan_digits_by_three, kCjkAndKana, scan_deepseek_v3}},
      {{"jais-2"}, {scan_jais2}},
      {{"poro-chat", "bloom", "gpt3-finnish"}, {kNoSentenceMarks}},
      {{"viking"}, {kNoSentenceMarks, scan_single_digits}},
  };
}

}  // namespace

std::span<const PreTokenizerRow> pre_tokenizer_rows() {
  static const std::vector<PreTokenizerRow> rows = make_rows();
  return rows;
}

PreTokenizer::PreTokenizer(const PreTokenizerRow& row) {
  for (const Step& step : row.steps) {
    if (const auto* scanner = std::get_if<Scanner>(&step)) {
      steps_.emplace_back(*scanner);
    } else {
      steps_.emplace_back(Regex(std::get<std::string_view>(step)));
    }
  }
}

void PreTokenizer::split(std::string_view text, Ends& ends, Ends& scratch) const {
  ends.assign(1, static_cast<std::uint32_t>(text.size()));
  for (const auto& step : steps_) {
    scratch.clear();
    if (const auto* scanner = std::get_if<Scanner>(&step)) {
      (*scanner)(text, ends, scratch);
    } else {
      std::get<Regex>(step).split(text, ends, scratch);
    }
    ends.swap(scratch);
  }
}

}  // namespace quern::tokenizers::detail
