#include "tokenizers/detail/joins.h"

#include <algorithm>

namespace quern::tokenizers::detail {

void append_unescaped(std::string_view text, std::string& out) {
  constexpr std::string_view kSpace = "\xE2\x96\x81";
  constexpr std::size_t kShort = 32;  // up to here looking at each byte is faster than to search
  if (text.size() <= kShort) {
    char copy[kShort];
    std::size_t size = 0;
    for (std::size_t at = 0; at < text.size(); ++at) {
      copy[size++] = text[at];
      if (size < 3 || text[at] != kSpace[2] || at < 2 || text[at - 1] != kSpace[1] || text[at - 2] != kSpace[0]) continue;
      size -= 2;
      copy[size - 1] = ' ';
    }
    out.append(copy, size);
    return;
  }
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t space = std::min(text.find(kSpace, at), text.size());
    out += text.substr(at, space - at);
    if (space < text.size()) out += ' ';
    at = space + kSpace.size();
  }
}

}  // namespace quern::tokenizers::detail
