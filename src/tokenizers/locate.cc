// Where in a text its tokens come from, told from what the tokens stand for.
#include <algorithm>

#include "tokenizers/detail/utf8.h"
#include "tokenizers/tokenizer.h"

namespace quern::tokenizers {
namespace {

constexpr std::string_view kEscapedSpace = "\xE2\x96\x81";
constexpr std::size_t kMostSkipped = 256;  // bytes of text that no token may stand for, at one place

/// Well-formed text, and where each of its bytes comes from.
class Repaired {
 public:
  explicit Repaired(std::string_view source) : source_(source) {
    std::size_t at = 0;
    while (at < source.size()) {
      const std::size_t good = detail::valid_prefix(source.substr(at));
      text_ += source.substr(at, good);
      at += good;
      if (at == source.size()) break;
      std::size_t bad = 1;  // the maximal subpart: the longest that is replaced by one character
      std::string replaced;
      for (std::size_t n = 2; n <= 3 && at + n <= source.size(); ++n) {
        replaced.clear();
        detail::append_replaced(source.substr(at, n), false, replaced);
        if (replaced != detail::kReplacement) break;
        bad = n;
      }
      repairs_.push_back({text_.size(), at, bad});
      text_ += detail::kReplacement;
      at += bad;
    }
  }

  std::string_view text() const { return text_; }

  TextRange source_range(std::size_t begin, std::size_t end) const {
    const auto of = [this](std::size_t place, bool is_end) {
      const auto after =
          std::upper_bound(repairs_.begin(), repairs_.end(), place, [](std::size_t p, const Repair& r) { return p < r.text; });
      if (after == repairs_.begin()) return place;
      const Repair& r = *(after - 1);
      const std::size_t inside = place - r.text;
      if (inside >= detail::kReplacement.size()) return r.source + r.bytes + inside - detail::kReplacement.size();
      return inside > 0 && is_end ? r.source + r.bytes : r.source;
    };
    return {static_cast<std::uint32_t>(of(begin, false)), static_cast<std::uint32_t>(of(end, true))};
  }

 private:
  struct Repair {
    std::size_t text, source, bytes;  // a replacement character in the text, and what it stands for
  };
  std::string_view source_;
  std::string text_;
  std::vector<Repair> repairs_;
};

/// Bytes of `text` that read as `bytes`, where a space may be spelled U+2581; npos: it does not begin with them.
std::size_t matched(std::string_view text, std::string_view bytes) {
  std::size_t at = 0;
  for (const char byte : bytes) {
    if (at < text.size() && text[at] == byte) {
      ++at;
    } else if (byte == ' ' && text.substr(at).starts_with(kEscapedSpace)) {
      at += kEscapedSpace.size();
    } else {
      return std::string_view::npos;
    }
  }
  return at;
}

}  // namespace

LocatedIds Tokenizer::encode_located(std::string_view text, EncodeOptions options) const {
  LocatedIds out;
  const Repaired repaired(text);
  const std::string_view whole = repaired.text();
  const std::vector<Id> plain = encode(whole, {.parse_special = options.parse_special, .add_special = false});
  out.ids = options.add_special ? encode(whole, options) : plain;
  std::size_t front = 0;  // ids before those of the text
  while (front + plain.size() < out.ids.size() &&
         !std::equal(plain.begin(), plain.end(), out.ids.begin() + static_cast<std::ptrdiff_t>(front))) {
    ++front;
  }
  out.ranges.reserve(out.ids.size());
  std::size_t at = 0;
  for (std::size_t i = 0; i < out.ids.size(); ++i) {
    const bool added = i < front || i >= front + plain.size();
    std::size_t begin = at, length = 0;
    if (!added) {
      const std::string_view bytes = token_bytes(out.ids[i]);
      const auto find = [&](std::string_view wanted) {  // the first place from here where the text reads so
        for (std::size_t from = at; from <= whole.size() && from - at <= kMostSkipped; ++from) {
          if (const std::size_t n = matched(whole.substr(from), wanted); n != std::string_view::npos) {
            begin = from, length = n;
            return true;
          }
        }
        return false;
      };
      if (const std::size_t here = matched(whole.substr(at), bytes); here != std::string_view::npos) {
        length = here;
      } else if (type(out.ids[i]) == TokenType::unknown) {  // what it stands for ends where the next token is found
        length = whole.size() - at;
        for (std::size_t from = at; i + 1 < out.ids.size() && from < whole.size() && from - at <= kMostSkipped; ++from) {
          if (from > at && matched(whole.substr(from), token_bytes(out.ids[i + 1])) != std::string_view::npos) {
            length = from - at;
            break;
          }
        }
      } else if (bytes.starts_with(' ') && matched(whole.substr(at), bytes.substr(1)) != std::string_view::npos) {
        length = matched(whole.substr(at), bytes.substr(1));  // a space that the model put in front
      } else if (!find(bytes) && !(bytes.starts_with(' ') && find(bytes.substr(1)))) {
        length = std::min(bytes.size(), whole.size() - at);  // the text was rewritten
      }
    }
    at = begin + length;
    out.ranges.push_back(repaired.source_range(begin, at));
  }
  return out;
}

}  // namespace quern::tokenizers
