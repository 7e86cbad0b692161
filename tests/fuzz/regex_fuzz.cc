// Any bytes as a pattern and a text: the pattern is refused or its matches come in order, in bounded time. The first byte is the pattern's
// length, the second whose rules it follows.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "tokenizers/detail/regex.h"
#include "tokenizers/detail/utf8.h"

namespace {

using namespace quern::tokenizers::detail;

void check(bool holds) {
  if (!holds) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::string_view pattern = input.substr(0, data[0]);
  std::string text;
  append_replaced(input.substr(pattern.size()), false, text);
  try {
    const Regex regex(pattern, data[1] & 1 ? RegexSyntax::rust : RegexSyntax::oniguruma);
    Regex::Matches matches(regex, text);
    std::uint32_t last = 0;
    bool any = false;
    while (matches.next()) {
      check(matches.begin() >= last && matches.end() >= matches.begin() && matches.end() <= text.size());
      check(!any || matches.end() > last || matches.begin() > last);
      last = matches.end();
      any = true;
    }
    Ends in, out;
    if (!text.empty()) in.push_back(static_cast<std::uint32_t>(text.size()));
    regex.split(text, in, out);
    std::uint32_t before = 0;
    for (const std::uint32_t end : out) {
      check(end > before);
      before = end;
    }
    check(before == text.size());
  } catch (const quern::Error&) {
  }
  return 0;
}
