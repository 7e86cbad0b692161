#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace quern::tokenizers::detail {

/// Pieces of a text: the offset where each ends. A scanner cuts every piece of `in` further, never across, and appends to `out`;
/// patterns look no further than the piece. Text is valid UTF-8 below 4 GiB. All scanners are linear in the text.
using Ends = std::vector<std::uint32_t>;
using Scanner = void (*)(std::string_view text, const Ends& in, Ends& out);

/// GPT-2: 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
void scan_gpt2(std::string_view text, const Ends& in, Ends& out);
/// Each \p{N} on its own, then GPT-2 between them.
void scan_gpt2_single_digits(std::string_view text, const Ends& in, Ends& out);

/// Llama 3: (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
void scan_llama3(std::string_view text, const Ends& in, Ends& out);
/// Llama 3 with digits one by one (Qwen 2).
void scan_qwen2(std::string_view text, const Ends& in, Ends& out);
/// Qwen 2 with [\p{L}\p{M}] for \p{L} inside words.
void scan_qwen35(std::string_view text, const Ends& in, Ends& out);
/// Qwen 2 without the contractions.
void scan_qwen2_no_contractions(std::string_view text, const Ends& in, Ends& out);
/// Qwen 2 where punctuation does not take the line ends after it.
void scan_qwen2_bare_punctuation(std::string_view text, const Ends& in, Ends& out);
/// Llama 3 with \p{N}+
void scan_llama3_long_numbers(std::string_view text, const Ends& in, Ends& out);

/// Llama 3 where white space that ends the text is one piece (tiktoken's cl100k).
void scan_cl100k(std::string_view text, const Ends& in, Ends& out);

/// Llama 3 where a white run is cut into 512, 256, … 4, 2 or 1 characters.
void scan_jais2(std::string_view text, const Ends& in, Ends& out);

/// GPT-4o: words of [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+ or the first + and the second *, after one optional
/// [^\r\n\p{L}\p{N}] and before an optional contraction; \p{N}{1,3}; punctuation takes [\r\n/]* with it; white space as Llama 3.
void scan_gpt4o(std::string_view text, const Ends& in, Ends& out);
/// GPT-4o with digits one by one (Youtu), and that without contractions (Tekken).
void scan_youtu(std::string_view text, const Ends& in, Ends& out);
void scan_tekken(std::string_view text, const Ends& in, Ends& out);

/// DeepSeek V3: ASCII punctuation with [A-Za-z]+ | [^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+ | ?[\p{P}\p{S}]+[\r\n]* | white space as Llama 3;
/// what none of them matches stays together.
void scan_deepseek_v3(std::string_view text, const Ends& in, Ends& out);
/// \s?\p{L}+ and \s?\p{P}+ (DeepSeek Coder).
void scan_spaced_letters(std::string_view text, const Ends& in, Ends& out);
void scan_spaced_punctuation(std::string_view text, const Ends& in, Ends& out);
/// [\p{P}$+<=>^~|]+, and with the backquote too (Falcon).
void scan_punctuation(std::string_view text, const Ends& in, Ends& out);
void scan_punctuation_and_backquote(std::string_view text, const Ends& in, Ends& out);

/// Isolate \p{N}, \p{N}{1,3} and \p{N}+.
void scan_single_digits(std::string_view text, const Ends& in, Ends& out);
void scan_digits_by_three(std::string_view text, const Ends& in, Ends& out);
void scan_numbers(std::string_view text, const Ends& in, Ends& out);
/// Runs of line feeds and runs of everything else.
void scan_lines(std::string_view text, const Ends& in, Ends& out);

}  // namespace quern::tokenizers::detail
