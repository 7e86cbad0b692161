#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace quern::tokenizers::detail {

enum class NormalForm : std::uint8_t { nfc, nfd, nfkc, nfkd };

/// Unicode normalisation as Hugging Face `tokenizers` does it (Unicode 12; later characters stay). `text` is valid UTF-8. Returns false,
/// with `out` untouched, where the text has the form already, else replaces `out`.
/// Source: Unicode Standard Annex 15.
bool normalize(NormalForm form, std::string_view text, std::string& out);

/// Each character's own lower case, whatever stands around it. As normalize().
bool to_lower(std::string_view text, std::string& out);

}  // namespace quern::tokenizers::detail
