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

/// Isolate \p{N}, \p{N}{1,3} (from the left), \p{N}+, and \p{N}+ in groups of three counted from the right.
void scan_single_digits(std::string_view text, const Ends& in, Ends& out);
void scan_digits_by_three(std::string_view text, const Ends& in, Ends& out);
void scan_numbers(std::string_view text, const Ends& in, Ends& out);
void scan_digits_by_three_from_right(std::string_view text, const Ends& in, Ends& out);
/// Runs of line feeds and runs of everything else.
void scan_lines(std::string_view text, const Ends& in, Ends& out);

}  // namespace quern::tokenizers::detail
