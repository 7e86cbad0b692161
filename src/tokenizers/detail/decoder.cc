#include "tokenizers/detail/decoder.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "tokenizers/detail/byte_level.h"
#include "tokenizers/detail/normalizer.h"
#include "tokenizers/detail/utf8.h"

namespace quern::tokenizers::detail {
namespace {

using Tokens = std::vector<std::string>;

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  std::string out;
  std::size_t done = 0;
  find_all(text, what, [&](std::size_t begin, std::size_t end) {
    out.append(text, done, begin - done);
    out += by;
    done = end;
  });
  if (done == 0) return;
  out.append(text, done);
  text = std::move(out);
}

/// Spaces that WordPiece puts before marks in English.
void clean_up(std::string& text) {
  constexpr std::pair<std::string_view, std::string_view> kRules[] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                                                      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                                                      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) replace_all(text, from, to);
}

void append_bytes(std::string& bytes, Tokens& out) {
  if (bytes.empty()) return;
  if (valid_prefix(bytes) == bytes.size()) {
    out.push_back(bytes);
  } else {
    for (std::size_t i = 0; i < bytes.size(); ++i) out.emplace_back(kReplacement);
  }
  bytes.clear();
}

/// One token of a list, at place `i`, where a step works on each alone.
struct Local {
  std::string& token;
  bool first;

  void operator()(const decoders::Join&) const {
    if (!first) token.insert(token.begin(), ' ');
  }
  void operator()(const decoders::WordPiece& d) const {
    if (!first) token.starts_with(d.prefix) ? void(token.erase(0, d.prefix.size())) : void(token.insert(token.begin(), ' '));
    if (d.cleanup) clean_up(token);
  }
  void operator()(const decoders::Metaspace& d) const { replace_all(token, d.mark, first && d.drops_first ? "" : " "); }
  void operator()(const decoders::Replace& d) const {
    if (const auto* plain = std::get_if<std::string>(&d.pattern)) return replace_all(token, *plain, d.content);
    std::string out;
    std::size_t done = 0;
    Regex::Matches matches(std::get<Regex>(d.pattern), token);
    while (matches.next()) {
      out.append(token, done, matches.begin() - done);
      out += d.content;
      done = matches.end();
    }
    out.append(token, done);
    token = std::move(out);
  }
  void operator()(const decoders::Strip& d) const {
    const std::size_t width = d.character.size();
    std::size_t begin = 0, end = token.size();
    for (std::size_t i = 0; i < d.start && std::string_view(token).substr(begin).starts_with(d.character); ++i) begin += width;
    for (std::size_t i = 0; i < d.stop && std::string_view(token).substr(0, end).ends_with(d.character); ++i) end -= width;
    token = begin < end ? token.substr(begin, end - begin) : std::string();
  }
  void operator()(const decoders::SentencePiece& d) const {
    constexpr std::string_view kMark = "\xE2\x96\x81";
    if (first && d.strips && token.starts_with(kMark)) token.erase(0, kMark.size());
    replace_all(token, kMark, " ");
  }
  template <class Other>
  void operator()(const Other&) const {}
};

bool is_local(const Decoder::Step& step) {
  return std::holds_alternative<decoders::Join>(step) || std::holds_alternative<decoders::WordPiece>(step) ||
         std::holds_alternative<decoders::Metaspace>(step) || std::holds_alternative<decoders::Replace>(step) ||
         std::holds_alternative<decoders::Strip>(step);
}

/// A step on the whole list.
struct Whole {
  Tokens& tokens;

  void operator()(const decoders::ByteLevel&) const {
    std::string bytes;
    for (const std::string& token : tokens)
      if (!append_spelled_bytes(token, bytes)) bytes += token;
    std::string text;
    append_replaced(bytes, false, text);
    tokens.assign(1, std::move(text));
  }
  void operator()(const decoders::Bpe& d) const {
    for (std::size_t i = 0; i < tokens.size(); ++i) replace_all(tokens[i], d.suffix, i + 1 == tokens.size() ? "" : " ");
  }
  void operator()(const decoders::Ctc& d) const {
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
    for (std::string& token : tokens) {
      replace_all(token, d.pad, "");
      if (!d.cleanup) continue;
      clean_up(token);
      replace_all(token, d.delimiter, " ");
    }
    std::erase(tokens, std::string());
  }
  void operator()(const decoders::Fuse&) const {
    std::string all;
    for (const std::string& token : tokens) all += token;
    tokens.assign(1, std::move(all));
  }
  void operator()(const decoders::ByteFallback&) const {
    Tokens out;
    std::string bytes;
    for (std::string& token : tokens) {
      if (const int byte = byte_of(token); byte >= 0) {
        bytes.push_back(static_cast<char>(byte));
        continue;
      }
      append_bytes(bytes, out);
      out.push_back(std::move(token));
    }
    append_bytes(bytes, out);
    tokens = std::move(out);
  }
  template <class Each>
  void operator()(const Each& step) const {
    for (std::size_t i = 0; i < tokens.size(); ++i) Local{tokens[i], i == 0}(step);
  }
};

}  // namespace

int byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  int value = -1;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, value, 16);
  return error == std::errc() && end == token.data() + 5 && value >= 0 ? value : -1;
}

void Decoder::finish() {
  if (sentence_piece()) {
    local_ = 1;
    streams_ = joins_bytes_ = true;
    return;
  }
  std::size_t i = 0;
  while (i < steps_.size() && is_local(steps_[i])) ++i;
  local_ = i;
  if (i == 0 && steps_.size() == 1 && std::holds_alternative<decoders::ByteLevel>(steps_[0])) {
    streams_ = true;
    return;
  }
  if (i < steps_.size() && std::holds_alternative<decoders::ByteFallback>(steps_[i])) joins_bytes_ = true, ++i;
  if (i < steps_.size() && std::holds_alternative<decoders::Fuse>(steps_[i])) {
    ++i;
    if (const auto* strip = i < steps_.size() ? std::get_if<decoders::Strip>(&steps_[i]) : nullptr; strip && strip->stop == 0) {
      trim_ = {strip->character, strip->start};
      ++i;
    }
  }
  streams_ = i == steps_.size();
}

void Decoder::piece(std::string_view token, bool first, std::string& text) const {
  text.clear();
  if (local_ == 0 && !joins_bytes_ && steps_.size() == 1 && std::holds_alternative<decoders::ByteLevel>(steps_[0])) {
    if (!append_spelled_bytes(token, text)) text = token;
    return;
  }
  text = token;
  for (std::size_t i = 0; i < local_; ++i) std::visit(Local{text, first}, steps_[i]);
}

std::string Decoder::decode_all(std::vector<std::string> tokens) const {
  for (const Step& step : steps_) std::visit(Whole{tokens}, step);
  std::string text;
  for (const std::string& token : tokens) text += token;
  return text;
}

}  // namespace quern::tokenizers::detail
