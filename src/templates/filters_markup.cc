#include <algorithm>

#include "templates/arguments.h"
#include "templates/sort.h"

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
  return out.take();
}

// As Python's pprint: on one line if that has room in 80 columns, else an item a line. Long strings are not broken.
class Printer {
 public:
  Printer(Render& r, Writer& out) : r_(r), out_(out) {}

  void print(const Value& v, std::size_t indent, std::size_t after, int depth) {
    if (depth > 100) throw Error(Code::resource_exhausted, "a value is nested too deeply to print (or holds itself)");
    Writer line(r_.heap());
    write_sorted(line, v, depth);
    const bool list = v.is(Kind::list) && v.list->type <= Sequence::tuple && v.list->size != 0;
    const bool dict = v.is(Kind::dict) && v.dict->size != 0;
    if (code_points(line.text()) + indent + after <= 80 || (!list && !dict)) return out_.add(*line.take().string);
    const std::string pad(indent + 1, ' ');
    if (list) {
      const bool tuple = v.list->type == Sequence::tuple;
      out_.add(tuple ? "(" : "[");
      for (std::size_t i = 0; i < v.list->size; ++i) {
        if (i != 0) out_.add(",\n" + pad);
        const bool last = i + 1 == v.list->size;
        print(v.list->at(i), indent + 1, last ? after + 1 + (tuple && v.list->size == 1) : 1, depth + 1);
      }
      return out_.add(tuple ? v.list->size == 1 ? ",)" : ")" : "]");
    }
    const std::vector<const Entry*> entries = sorted(*v.dict);
    out_.add("{");
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i != 0) out_.add(",\n" + pad);
      Writer key(r_.heap());
      write_repr(key, entries[i]->key);
      const std::size_t width = code_points(key.text());
      out_.add(*key.take().string);
      out_.add(": ");
      print(entries[i]->value, indent + width + 3, i + 1 == entries.size() ? after + 1 : 1, depth + 1);
    }
    out_.add("}");
  }

 private:
  std::vector<const Entry*> sorted(const Dict& dict) {
    std::vector<const Entry*> entries(dict.size);
    for (std::size_t i = 0; i < dict.size; ++i) entries[i] = &dict.entries[i];
    sort_stably(entries.data(), entries.size(), [&](const Entry* a, const Entry* b) {
      r_.work(16);
      if (a->key.kind == b->key.kind && (a->key.is(Kind::string) || a->key.is_number())) return compare(a->key, b->key) < 0;
      if (a->key.is_number() && b->key.is_number()) return compare(a->key, b->key) < 0;
      return type_name(a->key) < type_name(b->key);
    });
    return entries;
  }

  void write_sorted(Writer& line, const Value& v, int depth) {
    if (depth > 100) throw Error(Code::resource_exhausted, "a value is nested too deeply to print (or holds itself)");
    if (v.is(Kind::list) && v.list->type <= Sequence::tuple) {
      const bool tuple = v.list->type == Sequence::tuple;
      line.add(tuple ? "(" : "[");
      for (std::size_t i = 0; i < v.list->size; ++i) {
        if (i != 0) line.add(", ");
        write_sorted(line, v.list->at(i), depth + 1);
      }
      return line.add(tuple ? v.list->size == 1 ? ",)" : ")" : "]");
    }
    if (!v.is(Kind::dict)) return write_repr(line, v);
    line.add("{");
    bool first = true;
    for (const Entry* entry : sorted(*v.dict)) {
      if (!first) line.add(", ");
      first = false;
      write_repr(line, entry->key);
      line.add(": ");
      write_sorted(line, entry->value, depth + 1);
    }
    line.add("}");
  }

  Render& r_;
  Writer& out_;
};

Value pretty(Render& r, const Value& self, const Value*, Args) {
  Writer out(r.heap());
  Printer(r, out).print(self, 0, 0, 0);
  return out.take();
}

bool breaks_after(std::string_view text, std::size_t hyphen) {  // a hyphen between letters, as textwrap has it
  if (hyphen == 0 || hyphen + 1 >= text.size() || text[hyphen] != '-') return false;
  std::size_t at = previous_start(text, hyphen), next = hyphen + 1;
  const char32_t before = next_code_point(text, at), after = next_code_point(text, next);
  return (is_letter(before) || before == '_') && (is_letter(after) || after == '_');
}

// Splits one paragraph as Python's textwrap.wrap does: at white space, after hyphens inside words, and long words wherever need be.
void wrap(Render& r, const Value& text, std::size_t width, bool break_long, bool break_hyphens, List& lines) {
  const std::string_view view = text.text();
  struct Chunk {
    std::size_t from, to, size;
    bool space;
  };
  std::vector<Chunk> chunks;
  for (std::size_t i = 0; i < view.size();) {
    const std::size_t start = i;
    std::size_t pos = i;
    const auto blank = [](char32_t c) { return c == ' ' || (c >= 9 && c <= 13); };
    const bool space = blank(next_code_point(view, pos));
    std::size_t size = 0;
    while (i < view.size()) {
      std::size_t next = i;
      if (blank(next_code_point(view, next)) != space) break;
      const bool hyphen = !space && break_hyphens && breaks_after(view, i);
      i = next;
      ++size;
      if (hyphen) break;
    }
    r.heap().charge(sizeof(Chunk));
    chunks.push_back({start, i, size, space});
  }
  for (std::size_t at = 0; at < chunks.size();) {
    if (chunks[at].space && lines.size != 0) ++at;
    if (at == chunks.size()) break;
    std::size_t from = chunks[at].from, to = from, used = 0, last_text = from;
    while (at < chunks.size() && used + chunks[at].size <= width) {
      used += chunks[at].size;
      to = chunks[at].to;
      if (!chunks[at].space) last_text = to;
      ++at;
    }
    if (at < chunks.size() && chunks[at].size > width) {  // a word longer than a line
      const std::size_t room = std::max<std::size_t>(1, width - used);
      Chunk& word = chunks[at];
      if (break_long) {
        const std::size_t cut = word.from + byte_offset(view.substr(word.from, word.to - word.from), room);
        if (!word.space) last_text = cut;
        word.size -= std::min(room, word.size);
        word.from = cut;
        if (word.from == word.to) ++at;
      } else if (used == 0) {
        if (!word.space) last_text = word.to;
        ++at;
      }
    }
    if (last_text > from) append(r.heap(), lines, substring(r.heap(), text, from, last_text));
    r.work(16);
  }
}

Value word_wrap(Render& r, const Value& self, const Value* a, Args) {
  required_text(self);
  const std::int64_t width = integer(a[0], 79);
  const Value separator = is_given(a[2]) ? a[2] : r.string("\n");
  const bool break_hyphens = flag(a[3], true);
  const Value lines = split_lines(r, self, false);
  List* all = make_list(r.heap());
  for (std::size_t i = 0; i < lines.list->size; ++i) {
    if (width <= 0) bad_argument("invalid width " + std::to_string(width) + " (must be > 0)");
    List* wrapped = make_list(r.heap());
    wrap(r, lines.list->at(i), static_cast<std::size_t>(width), flag(a[1], true), break_hyphens, *wrapped);
    append(r.heap(), *all, join_strings(r, required_text(separator), any_untrusted(*separator.string), *wrapped));
  }
  return join_strings(r, required_text(separator), any_untrusted(*separator.string), *all);
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
    {"wordwrap", word_wrap, {"width?", "break_long_words?", "wrapstring?", "break_on_hyphens?"}},
    {"xmlattr", xml_attributes, {"autospace?"}},
};

}  // namespace

std::span<const Row> markup_filters() { return kRows; }

}  // namespace quern::templates
