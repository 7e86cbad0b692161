#include <algorithm>

#include "templates/arguments.h"

// Filters for HTML pages and for looking at values: rare in chat templates, and part of the language.
namespace quern::templates {
namespace {

using Args = const Arguments&;

Value text_of(Render& r, const Value& v) { return to_string(r.heap(), v); }

// The entities that a text escaped by `escape` can hold, and those written as numbers.
std::string unescaped(std::string_view text) {
  static constexpr std::pair<std::string_view, std::string_view> kNamed[] = {{"&amp;", "&"},   {"&lt;", "<"},   {"&gt;", ">"},
                                                                             {"&quot;", "\""}, {"&apos;", "'"}, {"&nbsp;", "\u00a0"}};
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] != '&') {
      out += text[i++];
      continue;
    }
    const auto* named =
        std::find_if(std::begin(kNamed), std::end(kNamed), [&](const auto& e) { return text.substr(i).starts_with(e.first); });
    if (named != std::end(kNamed)) {
      out += named->second;
      i += named->first.size();
      continue;
    }
    const bool hex = text.substr(i, 3) == "&#x" || text.substr(i, 3) == "&#X";
    std::size_t pos = i + (hex ? 3 : 2);
    char32_t c = 0;
    const std::size_t first = pos;
    for (; text.substr(i, 2) == "&#" && pos < text.size() && pos - first < 7; ++pos) {
      const auto digit = static_cast<unsigned char>(text[pos]);
      if (hex ? !std::isxdigit(digit) : !std::isdigit(digit)) break;
      c = c * (hex ? 16 : 10) + static_cast<char32_t>(digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10);
    }
    if (pos == first || text.substr(i, 2) != "&#") {
      out += text[i++];
      continue;
    }
    append_code_point(out, c == 0 ? 0xfffd : c);
    i = pos + (pos < text.size() && text[pos] == ';');
  }
  return out;
}

void remove_between(std::string& text, std::string_view open, std::string_view close) {
  std::string out;
  std::size_t pos = 0;
  for (;;) {
    const std::size_t start = text.find(open, pos), end = start == text.npos ? text.npos : text.find(close, start);
    if (end == text.npos) break;
    out.append(text, pos, start - pos);
    pos = end + close.size();
  }
  text = out.append(text, pos);
}

Value strip_tags(Render& r, const Value& self, const Value*, Args) {
  const Value text = text_of(r, self);
  r.work(text.string->size);
  std::string left(text.text());
  remove_between(left, "<!--", "-->");
  remove_between(left, "<", ">");
  std::string words;
  bool space = false;
  for (std::size_t i = 0; i < left.size();) {
    const char32_t c = next_code_point(left, i);
    if (is_space(c)) {
      space = !words.empty();
      continue;
    }
    if (space) words += ' ';
    space = false;
    append_code_point(words, c);
  }
  Value result = derived(r, text, unescaped(words));
  result.markup = false;
  return result;
}

Value xml_attributes(Render& r, const Value& self, const Value* a, Args) {
  if (self.is(Kind::undefined)) fail_undefined(self);
  if (!self.is(Kind::dict)) bad_argument("'" + object_name(self) + "' has no attribute 'items'");
  Writer out(r.heap());
  const bool spaced = flag(a[0], true);
  const auto add = [&](const Value& v) {
    const Value text = text_of(r, v);
    text.markup ? out.add(*text.string) : out.add(html_escape(text.text()), any_untrusted(*text.string));
  };
  for (std::size_t i = 0; i < self.dict->size; ++i) {
    const Entry& entry = self.dict->entries[i];
    if (entry.value.is(Kind::none) || entry.value.is(Kind::undefined)) continue;
    if (!entry.key.is(Kind::string)) bad_argument("expected string or bytes-like object, got '" + std::string(type_name(entry.key)) + "'");
    if (entry.key.text().find_first_of(" \t\n\r\f\v/>=") != std::string_view::npos)
      bad_argument("Invalid character in attribute name: " + string_repr(entry.key.text()));
    if (spaced || !out.text().empty()) out.add(" ");
    add(entry.key);
    out.add("=\"");
    add(entry.value);
    out.add("\"");
  }
  return out.take(r.escaping());
}

// The same choice for the same template and input: an answer must not depend on chance.
Value random(Render& r, const Value& self, const Value*, Args) {
  const std::size_t size = length(self);
  if (size == 0) return {};
  if (self.is(Kind::dict)) return get_item(r.heap(), self, Value::of(std::int64_t{0}));
  return get_item(r.heap(), self, Value::of(static_cast<std::int64_t>(r.random() % size)));
}

constexpr Row kRows[] = {
    {"pprint", pretty},
    {"random", random},
    {"striptags", strip_tags},
    {"urlize", link_addresses, {"trim_url_limit?", "nofollow?", "target?", "rel?", "extra_schemes?"}},
    {"wordwrap", word_wrap, {"width?", "break_long_words?", "wrapstring?", "break_on_hyphens?"}},
    {"xmlattr", xml_attributes, {"autospace?"}},
};

}  // namespace

std::span<const Row> markup_filters() { return kRows; }

}  // namespace quern::templates
