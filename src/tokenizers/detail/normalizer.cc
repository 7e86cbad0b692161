#include "tokenizers/detail/normalizer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "tokenizers/detail/hugging_face.h"
#include "tokenizers/detail/unicode.h"
#include "tokenizers/detail/utf8.h"

namespace quern::tokenizers::detail {
namespace {

constexpr std::size_t kMaxText = std::size_t{1} << 30;
constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581

bool is_white(std::uint32_t code) { return char_table()[code] & kSpace; }

/// Builds a changed text piece by piece; copies nothing while nothing has changed.
class Rewriting {
 public:
  Rewriting(std::string_view text, std::string& out) : text_(text), out_(out) {}

  void replace(std::size_t begin, std::size_t end, std::string_view by) {
    if (!changed_) out_.clear(), changed_ = true;
    out_ += text_.substr(copied_, begin - copied_);
    out_ += by;
    copied_ = end;
    if (out_.size() > kMaxText) throw Error(Code::resource_exhausted, "the text grows past 1 GiB when it is normalised");
  }
  bool finish() {
    if (changed_) out_ += text_.substr(copied_);
    return changed_;
  }

 private:
  std::string_view text_;
  std::string& out_;
  std::size_t copied_ = 0;
  bool changed_ = false;
};

/// Calls each(code, begin, end) for every character.
template <class Each>
void for_characters(std::string_view text, Each each) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t end = i + character_length(text[i]);
    each(code_point(text.data() + i), i, end);
    i = end;
  }
}

bool is_chinese(std::uint32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
         (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

/// One step: writes the changed text to `out` and says true, or leaves `out` alone.
struct Apply {
  std::string_view text;
  std::string& out;
  bool& at_start;

  /// Removes the characters of the classes.
  bool remove(std::uint8_t classes) const {
    Rewriting r(text, out);
    for_characters(text, [&](std::uint32_t code, std::size_t begin, std::size_t end) {
      if (!(hugging_face_class(code) & classes)) return;
      r.replace(begin, end, {});
      if (begin == 0) at_start = false;
    });
    return r.finish();
  }

  bool operator()(NormalForm form) const { return normalize(form, text, out); }
  bool operator()(const normalizers::Lowercase&) const { return to_lower(text, out); }
  bool operator()(const normalizers::StripAccents&) const { return remove(kCombining); }
  bool operator()(const Charsmap& charsmap) const { return charsmap.normalize_graphemes(text, out); }

  bool operator()(const normalizers::Nmt&) const {
    Rewriting r(text, out);
    for_characters(text, [&](std::uint32_t c, std::size_t begin, std::size_t end) {
      if ((c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F) {
        r.replace(begin, end, {});
        if (begin == 0) at_start = false;
      } else if (c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 ||
                 c == 0x2581 || c == 0xFEFF || c == 0xFFFD) {
        r.replace(begin, end, " ");
      }
    });
    return r.finish();
  }

  bool operator()(const normalizers::ByteLevel&) const {
    out.clear();
    for (const char c : text) out += spelled_byte(static_cast<unsigned char>(c));
    return out != text;
  }

  bool operator()(const normalizers::Bert& bert) const {
    std::string current(text), next;
    const auto then = [&](bool changed) {
      if (changed) std::swap(current, next);
    };
    if (bert.clean_text) {
      Rewriting r(current, next);
      for_characters(current, [&](std::uint32_t c, std::size_t begin, std::size_t end) {
        if (hugging_face_class(c) & kControl) {
          r.replace(begin, end, {});
          if (begin == 0) at_start = false;
        } else if (c != ' ' && is_white(c)) {
          r.replace(begin, end, " ");
        }
      });
      then(r.finish());
    }
    if (bert.handle_chinese_chars) {
      Rewriting r(current, next);
      for_characters(current, [&](std::uint32_t c, std::size_t begin, std::size_t end) {
        if (is_chinese(c)) r.replace(begin, end, " " + current.substr(begin, end - begin) + " ");
      });
      then(r.finish());
    }
    if (bert.strip_accents) {
      then(normalize(NormalForm::nfd, current, next));
      then(Apply{current, next, at_start}.remove(kNonSpacing));
    }
    if (bert.lowercase) then(to_lower(current, next));
    if (current == text) return false;
    out = std::move(current);
    return true;
  }

  bool operator()(const normalizers::Prepend& prepend) const {
    if (text.empty() || prepend.text.empty()) return false;
    out = prepend.text;
    out += text;
    return true;
  }

  bool operator()(const normalizers::Strip& strip) const {
    std::size_t begin = 0, end = text.size();
    while (strip.left && begin < end && is_white(code_point(text.data() + begin))) begin += character_length(text[begin]);
    while (strip.right && end > begin) {
      std::size_t last = end - 1;
      while ((static_cast<unsigned char>(text[last]) & 0xC0) == 0x80) --last;
      if (!is_white(code_point(text.data() + last))) break;
      end = last;
    }
    if (begin == 0 && end == text.size()) return false;
    if (begin > 0) at_start = false;
    out = text.substr(begin, end - begin);
    return true;
  }

  bool operator()(const normalizers::Replace& replace) const {
    Rewriting r(text, out);
    const auto found = [&](std::size_t begin, std::size_t end) {
      if (begin == 0 && (replace.content.empty() || end > character_length(text[0]))) at_start = false;
      r.replace(begin, end, replace.content);
    };
    if (text.empty()) return false;
    if (const auto* plain = std::get_if<std::string>(&replace.pattern)) {
      find_all(text, *plain, found);
    } else {
      Regex::Matches matches(std::get<Regex>(replace.pattern), text);
      while (matches.next()) found(matches.begin(), matches.end());
    }
    return r.finish();
  }

  bool operator()(const normalizers::SentencePiece& sp) const {
    if (text.empty()) return false;
    const std::string_view space = sp.escape ? kSpaceMark : std::string_view(" ");
    out.clear();
    std::size_t at = 0;
    const auto next = [&]() -> std::string_view {  // what the text at `at` becomes; moves on
      std::uint32_t node = DoubleArray::kRoot;
      std::size_t taken = 0;
      for (std::size_t i = at; i < text.size() && sp.user_defined.step(node, text[i]);) {
        ++i;
        if (sp.user_defined.value(node) >= 0) taken = i - at;
      }
      const std::size_t from = at;
      if (taken == 0 && !sp.charsmap.empty()) {
        if (const Charsmap::Match m = sp.charsmap[0].longest(text.substr(at)); m.length > 0) return at += m.length, m.replacement;
      }
      at += taken > 0 ? taken : character_length(text[at]);
      return text.substr(from, at - from);
    };
    if (sp.squeeze) {
      for (std::size_t before = 0; at < text.size(); before = at) {
        if (next() == " ") continue;
        at = before;
        break;
      }
      if (at == text.size()) return true;
    }
    if (sp.dummy_prefix && !sp.suffix) out += space;
    bool after_space = sp.squeeze;
    while (at < text.size()) {
      std::string_view part = next();
      if (after_space) part.remove_prefix(std::min(part.find_first_not_of(' '), part.size()));
      if (part.empty()) continue;
      for (const char c : part) c == ' ' ? void(out += space) : out.push_back(c);
      after_space = sp.squeeze && part.ends_with(' ');
      if (out.size() > kMaxText) throw Error(Code::resource_exhausted, "the text grows past 1 GiB when it is normalised");
    }
    while (sp.squeeze && out.ends_with(space)) out.resize(out.size() - space.size());
    if (sp.dummy_prefix && sp.suffix) out += space;
    return true;
  }
};

}  // namespace

std::string_view Normalizer::run(std::string_view text, Buffers& buffers, bool& at_start) const {
  std::string* next = &buffers.a;
  for (const Step& step : steps_) {
    if (!std::visit(Apply{text, *next, at_start}, step)) continue;
    text = *next;
    next = next == &buffers.a ? &buffers.b : &buffers.a;
  }
  return text;
}

std::string_view spelled_byte(unsigned char byte) {
  static const auto spellings = [] {
    std::array<std::string, 256> made;
    std::uint32_t other = 0x100;
    for (std::uint32_t b = 0; b < 256; ++b) {
      const bool prints = (b > 0x20 && b < 0x7F) || (b > 0xA0 && b != 0xAD);
      append_code_point(prints ? b : other++, made[b]);
    }
    return made;
  }();
  return spellings[byte];
}

}  // namespace quern::tokenizers::detail
