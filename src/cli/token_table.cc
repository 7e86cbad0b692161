#include "cli/token_table.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "cli/output.h"

namespace quern::cli {

bool is_text(std::string_view bytes) {
  // What is no text is replaced or left out; exceptions would take microseconds for each token of a long text.
  const nlohmann::json json(bytes);
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).size() ==
         json.dump(-1, ' ', false, nlohmann::json::error_handler_t::ignore).size();
}

namespace {

/// A token between quotes, on one line, bytes that are no character as "\xe2".
std::string quoted(std::string_view bytes) {
  std::string out;
  if (is_text(bytes)) {
    for (const char c : bytes) out += c == '\n' ? "\\n" : c == '\t' ? "\\t" : std::string(1, c);
    return "\"" + printable(out) + "\"";
  }
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte >= 0x20 && byte < 0x7f ? std::string(1, c) : fmt::format("\\x{:02x}", byte);
  }
  return "\"" + out + "\"";
}

}  // namespace

void print_tokens(const tokenizers::Tokenizer& tokenizer, const std::vector<tokenizers::Id>& ids, bool verbose) {
  const bool colours = stdout_is_terminal();
  for (const tokenizers::Id id : ids) {
    const bool special = tokenizer.is_special(id);
    const char *begin = special && colours ? "\x1b[35m" : "", *end = special && colours ? "\x1b[0m" : "";
    print(fmt::format("{:>7}  {}{}{}\n", id, begin, quoted(tokenizer.token_bytes(id)), end));
  }
  if (verbose) fmt::print(stderr, "{} tokens; the vocabulary has {}\n", ids.size(), tokenizer.size());
}

}  // namespace quern::cli
