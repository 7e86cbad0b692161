#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace quern::tokenizers::detail {

/// GPT-2's spelling of bytes as printable characters: the bytes that print in Latin-1 stand for themselves, the others in ascending order
/// for U+0100, U+0101, … (so a space is spelled U+0120).
/// Writes the bytes that `text` spells where there is room for text.size() of them, and returns how many; kNotSpelled when a character of
/// it spells no byte.
inline constexpr std::size_t kNotSpelled = ~std::size_t{0};
std::size_t spelled_bytes(std::string_view text, char* out);
/// Appends them; false, with nothing appended, when there are none.
bool append_spelled_bytes(std::string_view text, std::string& out);

/// The byte of the token `text`, which is number `id` of type byte. Errors: data_corrupt when it is not spelled "<0xHH>".
unsigned char byte_token_value(std::size_t id, std::string_view text);

}  // namespace quern::tokenizers::detail
