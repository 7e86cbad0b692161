#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tokenizers/tokenizer.h"

namespace quern::cli {

/// Whether a token's bytes are whole characters.
bool is_text(std::string_view bytes);
/// A token a line: its id and its text between quotes, special ones in colour on a terminal. `verbose`: also how many, on stderr.
void print_tokens(const tokenizers::Tokenizer& tokenizer, const std::vector<tokenizers::Id>& ids, bool verbose);

}  // namespace quern::cli
