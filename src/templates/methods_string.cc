#include <algorithm>

#include "templates/arguments.h"

// Methods of str. Parts of a text keep their origin; a text made anew is untrusted if any of its source was.
namespace quern::templates {

Value replace_all(Render& r, const Value& text, const Value& old, const Value& with, std::int64_t count) {
  const std::string_view view = text.text(), what = old.text();
  r.work(view.size());
  Writer out(r.heap());
  std::size_t pos = 0;
  if (what.empty()) {  // between all characters, as Python does
    for (; count != 0; --count) {
      out.add(*with.string);
      if (pos >= view.size()) break;
      const std::size_t start = pos;
      next_code_point(view, pos);
      out.add(*text.string, start, pos);
    }
    if (count == 0) out.add(*text.string, pos, view.size());
    return out.take(text.markup);
  }
  for (; count != 0; --count) {
    const std::size_t found = find_text(view, what, pos);
    if (found == view.npos) break;
    out.add(*text.string, pos, found);
    out.add(*with.string);
    pos = found + what.size();
  }
  out.add(*text.string, pos, view.size());
  return out.take(text.markup);
}

Value centered(Render& r, const Value& text, std::int64_t width, const Value& fill) {
  const auto size = static_cast<std::int64_t>(code_points(text.text()));
  if (width <= size) return text;
  const std::int64_t room = width - size, left = room / 2 + (room & width & 1);
  Writer out(r.heap());
  out.add_repeated(*fill.string, static_cast<std::size_t>(left));
  out.add(*text.string);
  out.add_repeated(*fill.string, static_cast<std::size_t>(room - left));
  return out.take(text.markup);
}

Value split_lines(Render& r, const Value& text, bool keep_ends) {
  const std::string_view view = text.text();
  r.work(view.size());
  List* lines = make_list(r.heap());
  std::size_t start = 0;
  for (std::size_t pos = 0; pos < view.size();) {
    const std::size_t at = pos;
    const char32_t c = next_code_point(view, pos);
    if (!((c >= 10 && c <= 13) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029)) continue;
    if (c == '\r' && pos < view.size() && view[pos] == '\n') ++pos;
    append(r.heap(), *lines, substring(r.heap(), text, start, keep_ends ? pos : at));
    start = pos;
  }
  if (start < view.size()) append(r.heap(), *lines, substring(r.heap(), text, start, view.size()));
  return Value::of(lines);
}

namespace {

using Args = const Arguments&;

template <std::string (*kChange)(std::string_view)>
Value changed(Render& r, const Value& self, const Value*, Args) {
  return derived(r, self, kChange(self.text()));
}

// What Markup does with the arguments of its methods.
Value escaped_for(Render& r, const Value& self, const Value& argument) {
  return self.markup && !argument.markup ? derived(r, argument, html_escape(argument.text())) : argument;
}

template <bool kLeft, bool kRight>
Value stripped(Render& r, const Value& self, const Value* a, Args) {
  r.work(self.string->size);
  const auto [from, to] = is_given(a[0]) ? strip(self.text(), required_text(a[0]), kLeft, kRight) : strip(self.text(), kLeft, kRight);
  return substring(r.heap(), self, from, to);
}

// Splits from the left; from the right the same places are searched backwards.
Value split(Render& r, const Value& self, const Value* a, Args) {
  const std::string_view text = self.text();
  r.work(text.size());
  List* parts = make_list(r.heap());
  std::int64_t left = integer(a[1], -1);
  const auto add = [&](std::size_t from, std::size_t to) { append(r.heap(), *parts, substring(r.heap(), self, from, to)); };
  if (!is_given(a[0])) {
    std::size_t pos = strip(text, true, false).first;
    while (pos < text.size()) {
      if (left-- == 0) {
        add(pos, text.size());
        return Value::of(parts);
      }
      std::size_t end = pos;
      while (end < text.size()) {
        std::size_t next = end;
        if (is_space(next_code_point(text, next))) break;
        end = next;
      }
      add(pos, end);
      pos = end + strip(text.substr(end), true, false).first;
    }
    return Value::of(parts);
  }
  const std::string_view separator = required_text(a[0]);
  if (separator.empty()) bad_argument("empty separator");
  std::size_t pos = 0;
  for (std::size_t found; left-- != 0 && (found = find_text(text, separator, pos)) != text.npos; pos = found + separator.size())
    add(pos, found);
  add(pos, text.size());
  return Value::of(parts);
}

Value split_right(Render& r, const Value& self, const Value* a, Args) {
  const std::string_view text = self.text();
  r.work(text.size());
  List* parts = make_list(r.heap());
  std::int64_t left = integer(a[1], -1);
  const auto add = [&](std::size_t from, std::size_t to) { append(r.heap(), *parts, substring(r.heap(), self, from, to)); };
  if (!is_given(a[0])) {
    std::size_t end = strip(text, false, true).second;
    while (end > 0) {
      if (left-- == 0) {
        add(0, end);
        break;
      }
      std::size_t start = end;
      while (start > 0) {
        const std::size_t before = previous_start(text, start);
        std::size_t at = before;
        if (is_space(next_code_point(text, at))) break;
        start = before;
      }
      add(start, end);
      end = strip(text.substr(0, start), false, true).second;
    }
  } else {
    const std::string_view separator = required_text(a[0]);
    if (separator.empty()) bad_argument("empty separator");
    const std::string backwards = reversed(text), separator_backwards = reversed(separator);
    std::size_t pos = 0;  // in `backwards`
    for (std::size_t found; left-- != 0 && (found = find_text(backwards, separator_backwards, pos)) != text.npos;
         pos = found + separator.size())
      add(text.size() - found, text.size() - pos);
    add(0, text.size() - pos);
  }
  std::reverse(parts->data, parts->data + parts->size);
  return Value::of(parts);
}

template <bool kRight>
Value partition(Render& r, const Value& self, const Value* a, Args) {
  const std::string_view text = self.text(), separator = required_text(a[0]);
  if (separator.empty()) bad_argument("empty separator");
  const std::size_t found = kRight ? find_last_text(text, separator) : find_text(text, separator);
  List* parts = make_list(r.heap(), 3, Sequence::tuple);
  const auto add = [&](std::size_t from, std::size_t to) { append(r.heap(), *parts, substring(r.heap(), self, from, to)); };
  if (found != text.npos) {
    add(0, found);
    add(found, found + separator.size());
    add(found + separator.size(), text.size());
  } else {
    if (!kRight) add(0, text.size());
    add(0, 0);
    add(0, 0);
    if (kRight) add(0, text.size());
  }
  return Value::of(parts);
}

// [start, end) in bytes from the optional arguments in code points.
struct Window {
  std::size_t begin, end;
  bool empty_before = false;  // start lies past the end: not even the empty text is found
};

Window window(const Value& self, const Value& start, const Value& end) {
  const std::string_view text = self.text();
  if (!is_given(start) && !is_given(end)) return {0, text.size(), false};
  const auto size = static_cast<std::int64_t>(code_points(text));
  const auto place = [&](const Value& v, std::int64_t otherwise) {
    std::int64_t i = is_given(v) ? as_index(v) : otherwise;
    if (i < 0) i = std::max<std::int64_t>(0, i + size);
    return i;
  };
  const std::int64_t first = place(start, 0), last = std::min(place(end, size), size);
  const std::size_t begin = byte_offset(text, static_cast<std::size_t>(std::min(first, size)));
  return {begin, std::max(begin, byte_offset(text, static_cast<std::size_t>(last))), first > last};
}

template <bool kRight, bool kMustExist>
Value find(Render& r, const Value& self, const Value* a, Args) {
  const std::string_view what = required_text(a[0]);
  r.work(self.string->size);
  const Window w = window(self, a[1], a[2]);
  const std::string_view text = self.text().substr(w.begin, w.end - w.begin);
  const std::size_t found = w.empty_before ? text.npos : kRight ? find_last_text(text, what) : find_text(text, what);
  if (found != text.npos) return of_size(code_points(self.text().substr(0, w.begin + found)));
  if (kMustExist) bad_argument("substring not found");
  return Value::of(std::int64_t{-1});
}

Value count(Render& r, const Value& self, const Value* a, Args) {
  const std::string_view what = required_text(a[0]);
  r.work(self.string->size);
  const Window w = window(self, a[1], a[2]);
  if (w.empty_before) return Value::of(std::int64_t{0});
  const std::string_view text = self.text().substr(w.begin, w.end - w.begin);
  if (what.empty()) return of_size(code_points(text) + 1);
  std::int64_t n = 0;
  for (std::size_t pos = 0; (pos = find_text(text, what, pos)) != text.npos; pos += what.size()) ++n;
  return Value::of(n);
}

template <bool kEnd>
Value has_affix(Render&, const Value& self, const Value* a, Args) {
  const Window w = window(self, a[1], a[2]);
  const std::string_view text = self.text().substr(w.begin, w.end - w.begin);
  const auto holds = [&](const Value& v) {
    const std::string_view affix = required_text(v);
    return !w.empty_before && (kEnd ? text.ends_with(affix) : text.starts_with(affix));
  };
  if (!a[0].is(Kind::list) || (a[0].list->type != Sequence::tuple && a[0].list->type != Sequence::group)) return Value::of(holds(a[0]));
  bool any = false;
  for (std::size_t i = 0; i < a[0].list->size && !any; ++i) any = holds(a[0].list->at(i));
  return Value::of(any);
}

template <bool kEnd>
Value without_affix(Render& r, const Value& self, const Value* a, Args) {
  const std::string_view text = self.text(), affix = required_text(a[0]);
  if (kEnd ? !text.ends_with(affix) : !text.starts_with(affix)) return self;
  return kEnd ? substring(r.heap(), self, 0, text.size() - affix.size()) : substring(r.heap(), self, affix.size(), text.size());
}

Value join(Render& r, const Value& self, const Value* a, Args) {
  if (a[0].is(Kind::undefined)) return r.string("");
  const List* items = iterate(r.heap(), a[0]);
  for (std::size_t i = 0; i < items->size; ++i)
    if (!items->at(i).is(Kind::string))
      bad_argument("sequence item " + std::to_string(i) + ": expected str instance, " + std::string(type_name(items->at(i))) + " found");
  if (self.markup) {
    List* escaped = make_list(r.heap(), items->size);
    for (std::size_t i = 0; i < items->size; ++i) append(r.heap(), *escaped, escaped_for(r, self, items->at(i)));
    items = escaped;
  }
  Value joined = join_strings(r, self.text(), any_untrusted(*self.string), *items);
  joined.markup = self.markup;
  return joined;
}

enum class Pad { left, right, center, zeros };

template <Pad kPad>
Value padded(Render& r, const Value& self, const Value* a, Args) {
  const Value fill = a[1].given() ? a[1] : r.string(kPad == Pad::zeros ? "0" : " ");
  if (code_points(required_text(fill)) != 1) bad_argument("The fill character must be exactly one character long");
  const std::int64_t width = as_index(a[0]), size = static_cast<std::int64_t>(code_points(self.text()));
  if (kPad == Pad::center) return centered(r, self, width, fill);
  Writer out(r.heap());
  const std::string_view text = self.text();
  const std::size_t sign = kPad == Pad::zeros && (text.starts_with('-') || text.starts_with('+')) ? 1 : 0;
  if (kPad == Pad::left) out.add(*self.string);
  out.add(*self.string, 0, kPad == Pad::zeros ? sign : 0);
  if (size < width) out.add_repeated(*fill.string, static_cast<std::size_t>(width - size));
  if (kPad != Pad::left) out.add(*self.string, sign, text.size());
  return out.take(self.markup);
}

template <typename Holds>
Value all_characters(const Value& self, Holds holds) {
  const std::string_view text = self.text();
  for (std::size_t i = 0; i < text.size();)
    if (!holds(next_code_point(text, i))) return Value::of(false);
  return Value::of(!text.empty());
}

template <bool kUpper>
Value has_case(Render&, const Value& self, const Value*, Args) {
  bool cased = false;
  for (std::size_t i = 0; i < self.string->size;) {
    const char32_t c = next_code_point(self.text(), i);
    if (is_title(c) || (kUpper ? is_lower(c) : is_upper(c))) return Value::of(false);
    cased = cased || is_lower(c) || is_upper(c);
  }
  return Value::of(cased);
}

Value has_title_case(Render&, const Value& self, const Value*, Args) {
  bool cased = false, inside = false;
  for (std::size_t i = 0; i < self.string->size;) {
    const char32_t c = next_code_point(self.text(), i);
    const bool begins = is_upper(c) || is_title(c);
    if (begins ? inside : is_lower(c) && !inside) return Value::of(false);
    inside = begins || is_lower(c);
    cased = cased || inside;
  }
  return Value::of(cased);
}

Value expand_tabs(Render& r, const Value& self, const Value* a, Args) {
  const std::int64_t size = integer(a[0], 8);
  const Value blank = r.string(" ");
  Writer out(r.heap());
  std::int64_t column = 0;
  for (std::size_t i = 0; i < self.string->size;) {
    const std::size_t start = i;
    const char32_t c = next_code_point(self.text(), i);
    if (c == '\t') {
      const std::int64_t n = size > 0 ? size - column % size : 0;
      out.add_repeated(*blank.string, static_cast<std::size_t>(n));
      column += n;
    } else {
      out.add(*self.string, start, i);
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
  }
  return out.take(self.markup);
}

// By the rules of Unicode's XID properties, which categories tell but for a handful of characters.
Value is_identifier(Render&, const Value& self, const Value*, Args) {
  const std::string_view text = self.text();
  for (std::size_t i = 0; i < text.size();) {
    const bool first = i == 0;
    const char32_t c = next_code_point(text, i);
    const bool begins = c == '_' || is_letter(c) || is_letter_number(c);
    if (!begins && (first || !(is_decimal(c) || is_mark(c)))) return Value::of(false);
  }
  return Value::of(!text.empty());
}

// The table maps code points to code points, texts or none.
Value translate(Render& r, const Value& self, const Value* a, Args) {
  const std::string_view text = self.text();
  r.work(text.size());
  if (text.empty()) return self;
  if (!a[0].is(Kind::dict) && !(a[0].is(Kind::list) && a[0].list->type <= Sequence::range) && !a[0].is(Kind::string))
    bad_argument("'" + std::string(type_name(a[0])) + "' object is not subscriptable");
  Writer out(r.heap());
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t start = i;
    const char32_t c = next_code_point(text, i);
    const Value to = get_item(r.heap(), a[0], Value::of(static_cast<std::int64_t>(c)));
    if (to.is(Kind::undefined))
      out.add(*self.string, start, i);
    else if (to.is(Kind::string))
      out.add(*to.string);
    else if (to.is(Kind::integer) || to.is(Kind::boolean)) {
      std::string one;
      if (as_index(to) < 0 || as_index(to) >= 0x110000) bad_argument("character mapping must be in range(0x110000)");
      append_code_point(one, static_cast<char32_t>(as_index(to)));
      out.add(one, any_untrusted(*self.string));
    } else if (!to.is(Kind::none)) {
      bad_argument("character mapping must return integer, None or str");
    }
  }
  return out.take(self.markup);
}

// Fields are numbered by themselves or by hand, never both.
struct Numbering {
  std::size_t next = 0;
  bool automatic = false, manual = false;
};

// A field of str.format: a name or number followed by .attribute and [item].
Value field(Render& r, std::string_view name, Numbering& numbering, Args all, const Value& mapping) {
  const std::size_t end = std::min(name.find_first_of(".["), name.size());
  const std::string_view head = name.substr(0, end);
  Value v = Value::of(Kind::absent);
  if (head.empty() || head.find_first_not_of("0123456789") == head.npos) {
    if (head.empty() || end == name.size()) (head.empty() ? numbering.automatic : numbering.manual) = true;
    if (numbering.automatic && numbering.manual) bad_argument("cannot switch from manual field specification to automatic field numbering");
    const std::size_t index = head.empty() ? numbering.next++ : head.size() > 6 ? ~std::size_t{0} : std::stoul(std::string(head));
    if (index >= all.positional.size()) bad_argument("tuple index out of range");
    v = all.positional[index];
  } else {
    for (const Named& n : all.named)
      if (n.name == head) v = n.value;
    if (mapping.is(Kind::dict))
      if (const Value* found = mapping.dict->find(head)) v = *found;
    if (!v.given()) bad_argument("'" + std::string(head) + "' is not among the arguments of format()");
  }
  for (std::size_t pos = end; pos < name.size();) {
    if (name[pos] == '.') {
      const std::size_t next = std::min(name.find_first_of(".[", pos + 1), name.size());
      v = r.attribute(v, name.substr(pos + 1, next - pos - 1));
      pos = next;
    } else {
      const std::size_t close = name.find(']', pos);
      if (name[pos] != '[' || close == name.npos) bad_argument("a field of format() is malformed");
      const std::string_view key = name.substr(pos + 1, close - pos - 1);
      const bool number = !key.empty() && key.size() < 18 && key.find_first_not_of("0123456789") == key.npos;
      v = r.item(v, number ? Value::of(static_cast<std::int64_t>(std::stoll(std::string(key)))) : r.string(key));
      pos = close + 1;
    }
  }
  return v;
}

Value format_fields(Render& r, const Value& self, Args all, const Value& mapping) {
  const std::string_view text = self.text();
  Writer out(r.heap());
  Numbering numbering;
  for (std::size_t pos = 0; pos < text.size();) {
    const std::size_t brace = std::min(text.find_first_of("{}", pos), text.size());
    out.add(*self.string, pos, brace);
    if (brace == text.size()) break;
    if (brace + 1 < text.size() && text[brace + 1] == text[brace]) {
      out.add(*self.string, brace, brace + 1);
      pos = brace + 2;
      continue;
    }
    if (text[brace] == '}') bad_argument("Single '}' encountered in format string");
    std::size_t close = brace + 1;
    for (int open = 1; close < text.size() && (open += (text[close] == '{') - (text[close] == '}')) != 0;) ++close;
    if (close >= text.size()) bad_argument("expected '}' before end of string");
    const std::string_view inner = text.substr(brace + 1, close - brace - 1);
    const std::size_t colon = std::min(inner.find(':'), inner.size());
    std::string_view name = inner.substr(0, colon);
    std::string spec(inner.substr(std::min(colon + 1, inner.size())));
    char conversion = 0;
    if (const std::size_t mark = name.find('!'); mark != name.npos) {
      if (mark + 2 != name.size()) bad_argument("a conversion of format() is malformed");
      conversion = name.back();
      name = name.substr(0, mark);
    }
    Value v = field(r, name, numbering, all, mapping);
    for (std::size_t open; (open = spec.find('{')) != spec.npos;) {  // a width or precision given as a field
      const std::size_t end = spec.find('}', open);
      if (end == spec.npos) bad_argument("a format specification is malformed");
      const Value part = to_string(r.heap(), field(r, std::string_view(spec).substr(open + 1, end - open - 1), numbering, all, mapping));
      if (part.text().find_first_of("{}") != std::string_view::npos) bad_argument("a format specification is malformed");
      spec = spec.substr(0, open) + std::string(part.text()) + spec.substr(end + 1);
    }
    if (conversion != 0) {
      Writer shown(r.heap());
      if (conversion != 's' && conversion != 'r' && conversion != 'a')
        bad_argument("Unknown conversion specifier '" + std::string(1, conversion) + "'");
      conversion == 's' ? write_str(shown, v) : write_repr(shown, v);
      v = shown.take();
      if (conversion == 'a') v = derived(r, v, ascii(v.text()));
    }
    write_formatted(out, v, spec);
    pos = close + 1;
  }
  return out.take(self.markup);
}

Value format(Render& r, const Value& self, const Value*, Args all) { return format_fields(r, self, all, Value::none()); }

Value format_map(Render& r, const Value& self, const Value* a, Args) { return format_fields(r, self, {}, a[0]); }

Value encode(Render&, const Value&, const Value*, Args) {
  throw Error(Code::unsupported, "str.encode() gives bytes, which templates do not have here");
}

constexpr Row kRows[] = {
    {"capitalize", changed<capitalize>},
    {"casefold", changed<fold_case>},
    {"center", padded<Pad::center>, {"/width", "/fill?"}},
    {"count", count, {"/sub", "/start?", "/end?"}},
    {"encode", encode, {"encoding?", "errors?"}},
    {"endswith", has_affix<true>, {"/suffix", "/start?", "/end?"}},
    {"expandtabs", expand_tabs, {"tabsize?"}},
    {"find", find<false, false>, {"/sub", "/start?", "/end?"}},
    {"format", format, {"*"}},
    {"format_map", format_map, {"/mapping"}},
    {"index", find<false, true>, {"/sub", "/start?", "/end?"}},
    {"isalnum", [](Render&, const Value& v, const Value*,
                   Args) { return all_characters(v, [](char32_t c) { return is_letter(c) || is_digit(c) || is_numeric(c); }); }},
    {"isalpha", [](Render&, const Value& v, const Value*, Args) { return all_characters(v, is_letter); }},
    {"isascii", [](Render&, const Value& v, const Value*,
                   Args) { return Value::of(v.text().empty() || truth(all_characters(v, [](char32_t c) { return c < 128; }))); }},
    {"isdecimal", [](Render&, const Value& v, const Value*, Args) { return all_characters(v, is_decimal); }},
    {"isdigit", [](Render&, const Value& v, const Value*, Args) { return all_characters(v, is_digit); }},
    {"islower", has_case<false>},
    {"isnumeric", [](Render&, const Value& v, const Value*, Args) { return all_characters(v, is_numeric); }},
    {"isidentifier", is_identifier},
    {"isprintable",
     [](Render&, const Value& v, const Value*, Args) { return Value::of(v.text().empty() || truth(all_characters(v, is_printable))); }},
    {"isspace", [](Render&, const Value& v, const Value*, Args) { return all_characters(v, is_space); }},
    {"istitle", has_title_case},
    {"isupper", has_case<true>},
    {"join", join, {"/iterable"}},
    {"ljust", padded<Pad::left>, {"/width", "/fill?"}},
    {"lower", changed<lower>},
    {"lstrip", stripped<true, false>, {"/chars?"}},
    {"partition", partition<false>, {"/sep"}},
    {"removeprefix", without_affix<false>, {"/prefix"}},
    {"removesuffix", without_affix<true>, {"/suffix"}},
    {"replace",
     [](Render& r, const Value& v, const Value* a, Args) {
       required_text(a[0]);
       required_text(a[1]);
       return replace_all(r, v, a[0], escaped_for(r, v, a[1]), integer(a[2], -1));
     },
     {"/old", "/new", "count?"}},
    {"rfind", find<true, false>, {"/sub", "/start?", "/end?"}},
    {"rindex", find<true, true>, {"/sub", "/start?", "/end?"}},
    {"rjust", padded<Pad::right>, {"/width", "/fill?"}},
    {"rpartition", partition<true>, {"/sep"}},
    {"rsplit", split_right, {"sep?", "maxsplit?"}},
    {"rstrip", stripped<false, true>, {"/chars?"}},
    {"split", split, {"sep?", "maxsplit?"}},
    {"splitlines", [](Render& r, const Value& v, const Value* a, Args) { return split_lines(r, v, flag(a[0])); }, {"keepends?"}},
    {"startswith", has_affix<false>, {"/prefix", "/start?", "/end?"}},
    {"strip", stripped<true, true>, {"/chars?"}},
    {"swapcase", changed<swap_case>},
    {"title", changed<title>},
    {"translate", translate, {"/table"}},
    {"upper", changed<upper>},
    {"zfill", padded<Pad::zeros>, {"/width"}},
};

}  // namespace

std::span<const Row> string_methods() { return kRows; }

}  // namespace quern::templates
