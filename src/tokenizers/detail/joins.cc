#include "tokenizers/detail/joins.h"

#include <algorithm>

namespace quern::tokenizers::detail {

void append_unescaped(std::string_view text, std::string& out) {
  constexpr std::string_view kSpace = "\xE2\x96\x81";
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t space = std::min(text.find(kSpace, at), text.size());
    out += text.substr(at, space - at);
    if (space < text.size()) out += ' ';
    at = space + kSpace.size();
  }
}

}  // namespace quern::tokenizers::detail
