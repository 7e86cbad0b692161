#include "tokenizers/detail/regex_scanner.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <string>

#include "base/error.h"

namespace quern::tokenizers::detail {
namespace {

template <auto kFree>
struct Free {
  void operator()(auto* p) const { kFree(p); }
};
using Program = std::unique_ptr<pcre2_code, Free<pcre2_code_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Free<pcre2_match_data_free>>;
using Context = std::unique_ptr<pcre2_match_context, Free<pcre2_match_context_free>>;
using Stack = std::unique_ptr<pcre2_jit_stack, Free<pcre2_jit_stack_free>>;

// Spells \s, \S out: PCRE2 counts U+180E as a space, which no tokenizer library does.
std::string spelled_out(std::string_view pattern) {
  constexpr std::string_view kWhite = R"(\x{9}-\x{d} \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
  std::string out;
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char next = pattern[++i];
      if (next == 's') {
        out += in_class ? std::string(kWhite) : fmt::format("[{}]", kWhite);
      } else if (next == 'S' && !in_class) {
        out += fmt::format("[^{}]", kWhite);
      } else {
        out += c, out += next;
      }
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

}  // namespace

struct RegexScanner::Impl {
  Program code;
};

RegexScanner::RegexScanner(std::string_view pattern) : impl_(std::make_unique<Impl>()) {
  const std::string spelled = spelled_out(pattern);
  int error = 0;
  std::size_t where = 0;
  impl_->code.reset(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(spelled.data()), spelled.size(), PCRE2_UTF | PCRE2_UCP, &error, &where, nullptr));
  if (!impl_->code) {
    throw Error(Code::internal, fmt::format("pre-tokenizer pattern does not compile: PCRE2 error {} at {} of {}", error, where, spelled));
  }
  pcre2_jit_compile(impl_->code.get(), PCRE2_JIT_COMPLETE);  // where it cannot, matching is slower and the same
}

RegexScanner::~RegexScanner() = default;
RegexScanner::RegexScanner(RegexScanner&&) noexcept = default;
RegexScanner& RegexScanner::operator=(RegexScanner&&) noexcept = default;

void RegexScanner::scan(std::string_view text, const Ends& in, Ends& out) const {
  const MatchData match(pcre2_match_data_create(1, nullptr));
  const Context context(pcre2_match_context_create(nullptr));
  const Stack stack(pcre2_jit_stack_create(32 * 1024, 16 * 1024 * 1024, nullptr));
  if (!match || !context || !stack) throw Error(Code::resource_exhausted, "no memory to match a pre-tokenizer pattern");
  pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  pcre2_set_match_limit(context.get(), 50'000'000);  // a sane pattern takes a few steps a character, and a text has at most 2^30
  std::uint32_t begin = 0;
  for (const std::uint32_t end : in) {
    const std::string_view piece = text.substr(begin, end - begin);
    std::size_t done = 0;
    for (std::size_t from = 0; from < piece.size();) {
      const int rc = pcre2_match(impl_->code.get(), reinterpret_cast<PCRE2_SPTR>(piece.data()), piece.size(), from,
                                 PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, match.get(), context.get());
      if (rc == PCRE2_ERROR_NOMATCH) break;
      if (rc < 0)
        throw Error(Code::resource_exhausted, "this text takes the pre-tokenizer's pattern too many steps")
            .hint("break its longest word up");
      const std::size_t* span = pcre2_get_ovector_pointer(match.get());
      if (span[0] > done) out.push_back(begin + static_cast<std::uint32_t>(span[0]));
      out.push_back(begin + static_cast<std::uint32_t>(span[1]));
      from = done = span[1];
    }
    if (done < piece.size()) out.push_back(end);
    begin = end;
  }
}

}  // namespace quern::tokenizers::detail
