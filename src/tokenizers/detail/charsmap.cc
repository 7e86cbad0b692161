#include "tokenizers/detail/charsmap.h"

#include <algorithm>

#include "base/error.h"
#include "tokenizers/detail/hugging_face.h"
#include "tokenizers/detail/utf8.h"

namespace quern::tokenizers::detail {
namespace {

std::uint32_t read_u32(const char* p) {
  std::uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<unsigned char>(p[i]);
  return value;
}

// Bytes of the extended grapheme cluster at `at`, as far as it matters here: what only makes clusters of six bytes or more (Hangul, flags,
// emoji joined by U+200D) is not joined.
std::size_t grapheme_length(std::string_view text, std::size_t at) {
  const auto is_control = [](std::uint32_t code) {  // these end a cluster on both sides
    const std::uint8_t c = hugging_face_class(code);
    return code < 0x20 || code == 0x7F || ((c & kControl) && !(c & (kExtends | kPrepends))) || code == 0x2028 || code == 0x2029;
  };
  std::size_t i = at;
  std::uint32_t code = code_point(text.data() + i);
  i += character_length(text[i]);
  if (code == '\r') return i < text.size() && text[i] == '\n' ? 2 : 1;
  if (is_control(code)) return i - at;
  while (i < text.size()) {
    const bool prepends = hugging_face_class(code) & kPrepends;
    code = code_point(text.data() + i);
    if (is_control(code) || !(prepends || (hugging_face_class(code) & kExtends))) break;
    i += character_length(text[i]);
  }
  return i - at;
}

}  // namespace

Charsmap::Charsmap(std::string_view blob) {
  if (blob.size() < 4 || read_u32(blob.data()) > blob.size() - 4 || read_u32(blob.data()) % 4 != 0)
    throw Error(Code::data_corrupt, "the precompiled_charsmap is malformed: its size is not that of a trie and replacements");
  const std::size_t bytes = read_u32(blob.data());
  units_.resize(bytes / 4);
  for (std::size_t i = 0; i < units_.size(); ++i) units_[i] = read_u32(blob.data() + 4 + 4 * i);
  replacements_ = blob.substr(4 + bytes);
  if (valid_prefix(replacements_) != replacements_.size())
    throw Error(Code::data_corrupt, "the precompiled_charsmap is malformed: its replacements are not UTF-8");
}

std::string_view Charsmap::replacement(std::uint32_t at) const {
  if (at >= replacements_.size()) return {};
  const std::string_view rest = std::string_view(replacements_).substr(at);
  return rest.substr(0, std::min(rest.find('\0'), rest.size()));
}

// Calls found(length, value) for each key that `text` begins with, until it returns false.
template <class Found>
void Charsmap::walk(std::string_view text, Found found) const {
  const auto offset = [](std::uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); };
  if (units_.empty()) return;
  std::uint32_t node = offset(units_[0]);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == 0) return;
    node ^= byte;
    if (node >= units_.size()) return;
    const std::uint32_t unit = units_[node];
    if ((unit & 0x800000FFu) != byte) return;
    node ^= offset(unit);
    if (!(unit & (1u << 8))) continue;
    if (node >= units_.size()) return;
    if (!found(i + 1, units_[node] & 0x7FFFFFFFu)) return;
  }
}

Charsmap::Match Charsmap::longest(std::string_view text) const {
  Match best;
  walk(text, [&](std::size_t length, std::uint32_t value) {
    best = {length, replacement(value)};
    return true;
  });
  return best;
}

Charsmap::Match Charsmap::shortest(std::string_view text) const {
  Match best;
  walk(text, [&](std::size_t length, std::uint32_t value) {
    best = {length, replacement(value)};
    return false;
  });
  return best;
}

bool Charsmap::normalize_graphemes(std::string_view text, std::string& out) const {
  bool changed = false;
  std::size_t copied = 0;
  const auto replace = [&](std::size_t at, std::size_t length, std::string_view by) {
    if (!changed) out.clear(), changed = true;
    out += text.substr(copied, at - copied);
    out += by;
    copied = at + length;
  };
  for (std::size_t i = 0; i < text.size();) {
    // Most text: a letter or space that is no key, before another of them.
    const std::size_t length = i + 1 < text.size() && static_cast<unsigned char>(text[i]) >= 0x20 &&
                                       static_cast<unsigned char>(text[i]) < 0x7F && static_cast<unsigned char>(text[i + 1]) < 0x80
                                   ? 1
                                   : grapheme_length(text, i);
    if (length < 6) {
      if (const Match m = shortest(text.substr(i, length)); m.length > 0) {
        replace(i, length, m.replacement);
        i += length;
        continue;
      }
    }
    for (const std::size_t end = i + length; i < end;) {
      const std::size_t bytes = character_length(text[i]);
      if (length != bytes || length >= 6) {
        if (const Match m = shortest(text.substr(i, bytes)); m.length > 0) replace(i, bytes, m.replacement);
      }
      i += bytes;
    }
  }
  if (changed) out += text.substr(copied);
  return changed;
}

}  // namespace quern::tokenizers::detail
