#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "templates/arguments.h"

// The filter wordwrap, which is Python's textwrap line by line.
namespace quern::templates {
namespace {

bool is_blank(char32_t c) { return c == ' ' || (c >= 9 && c <= 13); }
bool is_wordish(char32_t c) { return is_word(c) && !is_decimal(c); }  // textwrap calls this a letter
bool is_word_or_mark(char32_t c) { return is_word(c) || std::u32string_view(U"!\"'&.,?").find(c) != std::u32string_view::npos; }

// Code points [from, to) of a line. Blank chunks are dropped where a line begins or ends.
struct Chunk {
  std::size_t from, to;
  bool blank;

  std::size_t size() const { return to - from; }
};

class Line {
 public:
  Line(Render& r, const Value& line) : r_(r), line_(line) {
    r.heap().charge(line.string->size * (sizeof(char32_t) + sizeof(std::uint32_t)));
    for (std::size_t i = 0; i < line.string->size;) {
      starts_.push_back(static_cast<std::uint32_t>(i));
      text_ += next_code_point(line.text(), i);
    }
    starts_.push_back(line.string->size);
  }

  void split(bool at_hyphens) {
    for (std::size_t from = 0; from < text_.size();) {
      const std::size_t to = is_blank(text_[from]) || !at_hyphens ? run(from) : word(from);
      r_.heap().charge(sizeof(Chunk));
      chunks_.push_back({from, to, all_space(from, to)});
      from = to;
    }
  }

  // `width` is at least 1, and infinite where lines may be of any length.
  void wrap(double width, bool break_long, bool break_hyphens, List& lines) {
    for (std::size_t at = 0; at < chunks_.size();) {
      r_.work(16);
      if (chunks_[at].blank && lines.size != 0) ++at;
      std::vector<Chunk> line;
      double used = 0;
      while (at < chunks_.size() && used + static_cast<double>(chunks_[at].size()) <= width) {
        used += static_cast<double>(chunks_[at].size());
        line.push_back(chunks_[at++]);
      }
      if (at < chunks_.size() && static_cast<double>(chunks_[at].size()) > width) {
        if (break_long)
          break_word(chunks_[at], width - used, break_hyphens, line);
        else if (line.empty())
          line.push_back(chunks_[at++]);
      }
      if (!line.empty() && line.back().blank) line.pop_back();
      if (!line.empty()) append(r_.heap(), lines, substring(r_.heap(), line_, starts_[line.front().from], starts_[line.back().to]));
    }
  }

 private:
  bool wordish(std::size_t i) const { return i < text_.size() && is_wordish(text_[i]); }
  bool hyphen(std::size_t i) const { return i < text_.size() && text_[i] == '-'; }
  bool all_space(std::size_t from, std::size_t to) const {
    return std::all_of(text_.begin() + static_cast<std::ptrdiff_t>(from), text_.begin() + static_cast<std::ptrdiff_t>(to), is_space);
  }
  std::size_t run(std::size_t from) const {
    const bool blank = is_blank(text_[from]);
    while (from < text_.size() && is_blank(text_[from]) == blank) ++from;
    return from;
  }
  // Two hyphens or more between words; the end of them, or `at`.
  std::size_t dash(std::size_t at) const {
    if (at == 0 || !is_word_or_mark(text_[at - 1]) || !hyphen(at) || !hyphen(at + 1)) return at;
    std::size_t end = at;
    while (hyphen(end)) ++end;
    return end < text_.size() && is_word(text_[end]) ? end : at;
  }
  // Whether the hyphen there stands inside a word that may be broken after it.
  bool breaks(std::size_t at) const {
    const bool before = at >= 2 && wordish(at - 1) && (wordish(at - 2) || (at >= 3 && hyphen(at - 2) && wordish(at - 3)));
    return before && hyphen(at) && wordish(at + 1) && (wordish(at + 2) || (hyphen(at + 2) && wordish(at + 3)));
  }
  std::size_t word(std::size_t from) const {
    if (const std::size_t end = dash(from); end != from) return end;
    for (std::size_t end = from + 1;; ++end) {
      if (breaks(end)) return end + 1;
      if (end == text_.size() || is_blank(text_[end]) || dash(end) != end) return end;
    }
  }
  // The first part of a word that no line can hold goes to the end of this one, even if that has no room left.
  void break_word(Chunk& word, double room, bool at_hyphens, std::vector<Chunk>& line) {
    if (room != std::floor(room)) bad_argument("slice indices must be integers or None or have an __index__ method");
    std::size_t cut = word.from + static_cast<std::size_t>(room);
    if (at_hyphens) {
      std::size_t last = cut;
      while (last > word.from && text_[last - 1] != '-') --last;
      const bool other =
          std::any_of(text_.begin() + static_cast<std::ptrdiff_t>(word.from),
                      text_.begin() + static_cast<std::ptrdiff_t>(std::max(last, word.from + 1)) - 1, [](char32_t c) { return c != '-'; });
      if (last > word.from + 1 && other) cut = last;
    }
    line.push_back({word.from, cut, all_space(word.from, cut)});
    word.from = cut;
    word.blank = all_space(word.from, word.to);
  }

  Render& r_;
  const Value line_;
  std::u32string text_;
  std::vector<std::uint32_t> starts_;  // in bytes
  std::vector<Chunk> chunks_;
};

}  // namespace

Value word_wrap(Render& r, const Value& self, const Value* a, const Arguments&) {
  required_text(self);
  const Value separator = is_given(a[2]) ? a[2] : r.string("\n");
  required_text(separator);
  const bool separator_untrusted = any_untrusted(*separator.string);
  const bool only_true = !a[3].given() || (a[3].is(Kind::boolean) && a[3].boolean);  // textwrap asks twice, and in two ways
  const Value lines = split_lines(r, self, false);
  List* all = make_list(r.heap());
  for (std::size_t i = 0; i < lines.list->size; ++i) {
    const double width = a[0].given() ? as_real(a[0]) : 79;
    if (!(width > 0)) bad_argument("invalid width " + float_repr(width) + " (must be > 0)");
    List* wrapped = make_list(r.heap());
    Line line(r, lines.list->at(i));
    line.split(only_true);
    line.wrap(width, flag(a[1], true), flag(a[3], true), *wrapped);
    append(r.heap(), *all, join_strings(r, required_text(separator), separator_untrusted, *wrapped));
  }
  return join_strings(r, required_text(separator), separator_untrusted, *all);
}

}  // namespace quern::templates
