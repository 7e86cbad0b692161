#include "tokenizers/detail/known_patterns.h"

#include <utility>

#include "tokenizers/detail/patterns.h"

namespace quern::tokenizers::detail {
namespace {

// Spellings of one pattern that mean the same stand below each other.
constexpr KnownPattern kKnown[] = {
    {patterns::kGpt2, {}, scan_gpt2},
    {patterns::kR50k, RegexSyntax::rust, scan_gpt2},
    {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)", {}, scan_llama3},
    {patterns::kLlama3, {}, scan_llama3},
    {patterns::kCl100k, RegexSyntax::rust, scan_cl100k},
    {patterns::kLlama3LongNumbers, {}, scan_llama3_long_numbers},
    {patterns::kQwen2, {}, scan_qwen2},
    {patterns::kBailing, {}, scan_qwen2},
    {patterns::kQwen35, {}, scan_qwen35},
    {patterns::kUfakzeka, {}, scan_qwen2_no_contractions},
    {patterns::kSeedCoder, {}, scan_qwen2_bare_punctuation},
    {patterns::kJais2, {}, scan_jais2},
    {patterns::kGpt4o, {}, scan_gpt4o},
    {patterns::kYoutu, {}, scan_youtu},
    {patterns::kTekken, {}, scan_tekken},
    {patterns::kDeepseekV3, {}, scan_deepseek_v3},
    {patterns::kSpacedLetters, {}, scan_spaced_letters},
    {patterns::kSpacedPunctuation, {}, scan_spaced_punctuation},
    {patterns::kPunctuation, {}, scan_punctuation},
    {patterns::kPunctuationAndBackquote, {}, scan_punctuation_and_backquote},
    {patterns::kNumber, {}, scan_single_digits},
    {patterns::kNumbersByThree, {}, scan_digits_by_three},
    {patterns::kNumbers, {}, scan_numbers},
    {patterns::kLines, {}, scan_lines},
};

}  // namespace

std::span<const KnownPattern> known_patterns() { return kKnown; }

Splitter::Splitter(std::string_view pattern, RegexSyntax syntax) : how_(Scanner{}) {
  for (const KnownPattern& known : kKnown) {
    if (known.pattern == pattern && known.syntax.value_or(syntax) == syntax) {
      how_ = known.scanner;
      return;
    }
  }
  how_ = Regex(pattern, syntax);
}

}  // namespace quern::tokenizers::detail
